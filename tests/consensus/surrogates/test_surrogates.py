"""The surrogates, and the subproblems that Exact makes of them, against the definition and finite differences."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.local.newton import SubproblemBlock
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization
from tests.helpers.local_problems import LOSSES, TAU, centre, local_problem, objective

SURROGATES = [
    PartialLinearization(TAU, "local"),
    PartialLinearization(TAU, "network"),
    Blocks(PartialLinearization(TAU, "network"), 3),
]


def subproblems(problem, surrogate):
    """Every block of coordinates and its subproblems, as Exact makes them."""
    w, gradient, pi = centre(problem)
    model, rows = surrogate.at(problem, w, gradient), slice(0, problem.agents)
    split = isinstance(surrogate, Blocks)
    slices, inner = (model.slices, model.model) if split else ([slice(0, problem.parameters)], model)
    for block, part in zip(slices, problem.regularizer.split(slices), strict=True):
        yield block, SubproblemBlock(inner, part, block, split, pi + gradient).subproblem(rows)


every = pytest.mark.parametrize("surrogate", SURROGATES, ids=str)


@every
@pytest.mark.parametrize("regularizer", ["none", "L2", "L1"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_subproblem_is_the_definition_and_its_gradient_the_slope(loss, regularizer, surrogate):
    p, rng = local_problem(loss, regularizer), np.random.default_rng(2)
    w, inner = centre(p)[0], getattr(surrogate, "surrogate", surrogate)
    for block, sub in subproblems(p, surrogate):
        zero = np.zeros_like(sub.outputs)
        for x in rng.standard_normal((5, *sub.w.shape)):
            moved = w.copy()
            moved[:, block] = x
            pairs = [objective(p, inner, agent, np.array([moved[agent], w[agent]])) for agent in range(p.agents)]
            change = sub.value(x, sub.operator.jvp(x - sub.w)) - sub.value(sub.w, zero)
            np.testing.assert_allclose(change, -np.diff(pairs)[:, 0], rtol=1e-12, atol=1e-12)
        if regularizer != "L1":
            x, direction = rng.standard_normal((2, *sub.w.shape))
            a, image = sub.operator.jvp(x - sub.w), sub.operator.jvp(direction)
            ahead, behind = (sub.value(x + h * direction, a + h * image) for h in (1e-5, -1e-5))
            slope = np.vecdot(sub.gradient(x, a), direction)
            np.testing.assert_allclose((ahead - behind) / 2e-5, slope, rtol=1e-8, atol=1e-8)


@every
@pytest.mark.parametrize("loss", LOSSES)
def test_the_surrogate_has_the_gradient_of_the_cost_at_its_centre(loss, surrogate):
    p = local_problem(loss, "none")
    w, _, pi = centre(p)
    steps = 1e-6 * np.eye(p.parameters)
    numeric = np.stack([(p.value(w + step) - p.value(w - step)) / 2e-6 for step in steps], axis=1)
    for block, sub in subproblems(p, surrogate):
        gradient = sub.gradient(sub.w, np.zeros_like(sub.outputs))
        np.testing.assert_allclose(gradient, (numeric + pi)[:, block], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("surrogate", "needs"), [(FullLinearization(1.0), False), (PartialLinearization(1.0), True)])
def test_blocks_need_a_model_where_their_surrogate_does(surrogate, needs):
    assert Blocks(surrogate, 2).needs_model is needs
    p = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=3, parameters=4)
    solver = consensus.solvers.NEXT(Blocks(surrogate, 2), 0.5)
    assert solver.needs.model is needs
    if needs:
        with pytest.raises(TypeError, match="needs a model to linearise"):
            consensus.solvers.check_needs(solver, p, topologies.Static(topologies.ring(3)))
