"""The surrogates, and the subproblems that Exact makes of them, against the definition and finite differences."""

import numpy as np
import pytest
from local_problems import LOSSES, TAU, centre, local_problem, objective

import consensus
import topologies
from consensus.local.part import Part
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization

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
        yield block, Part(inner, part, block, split, pi + gradient).subproblem(rows)


def moved(problem, block, points):
    """Every agent's centre with the coordinates ``block`` of it replaced."""
    w = centre(problem)[0].copy()
    w[:, block] = points
    return w


@pytest.mark.parametrize("surrogate", SURROGATES, ids=str)
@pytest.mark.parametrize("regularizer", ["none", "L2", "L1"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_subproblem_is_the_definition(loss, regularizer, surrogate):
    p = local_problem(loss, regularizer)
    w, inner = centre(p)[0], getattr(surrogate, "surrogate", surrogate)

    def definition(block, points):
        stack = moved(p, block, points)
        return np.array([objective(p, inner, agent, np.array([stack[agent], w[agent]])) for agent in range(p.agents)])

    rng = np.random.default_rng(2)
    for block, sub in subproblems(p, surrogate):
        for _ in range(5):
            points = rng.standard_normal(sub.w.shape)
            change = sub.value(points, sub.operator.jvp(points - sub.w)) - sub.value(sub.w, np.zeros_like(sub.outputs))
            there, here = definition(block, points).T
            np.testing.assert_allclose(change, there - here, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_surrogate_has_the_gradient_of_the_cost_at_its_centre(loss, surrogate):
    p = local_problem(loss, "none")
    w, _, pi = centre(p)
    for block, sub in subproblems(p, surrogate):
        gradient = sub.gradient(sub.w, np.zeros_like(sub.outputs))
        columns = range(p.parameters)[block]
        numeric = np.empty_like(gradient)
        for column, coordinate in enumerate(columns):
            step = 1e-6 * np.eye(p.parameters)[coordinate]
            numeric[:, column] = (p.value(w + step) - p.value(w - step)) / 2e-6  # of the cost itself
        np.testing.assert_allclose(gradient, numeric + pi[:, block], rtol=0, atol=1e-9)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_of_the_subproblem_is_that_of_its_value(loss, surrogate):
    p = local_problem(loss, "L2")
    rng = np.random.default_rng(3)
    for _, sub in subproblems(p, surrogate):
        x, direction = rng.standard_normal((2, *sub.w.shape))
        a, image = sub.operator.jvp(x - sub.w), sub.operator.jvp(direction)
        ahead, behind = (sub.value(x + h * direction, a + h * image) for h in (1e-5, -1e-5))
        slope = np.vecdot(sub.gradient(x, a), direction)
        np.testing.assert_allclose((ahead - behind) / 2e-5, slope, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("surrogate", "needs"), [(FullLinearization(1.0), False), (PartialLinearization(1.0), True)])
def test_blocks_need_a_model_where_their_surrogate_does(surrogate, needs):
    assert Blocks(surrogate, 2).needs_model is needs
    p = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=3, parameters=4)
    solver = consensus.solvers.NEXT(Blocks(surrogate, 2), 0.5)
    assert solver.needs.model is needs
    if needs:
        with pytest.raises(TypeError, match="needs a model to linearise"):
            consensus.solvers.check_needs(solver, p, topologies.Static(topologies.ring(3)))
