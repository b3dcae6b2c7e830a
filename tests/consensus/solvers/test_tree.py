"""Solvers on sums over a tree: against SciPy's L-BFGS, and by what must hold in every round."""

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import minimize

import consensus
import topologies
from consensus.compression import Quantize
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import Compressed, Gossip, TreeLBFGS, TreeNewton
from consensus.trees.tree_lbfgs import times_inverse
from consensus.trees.tree_model import Model, corrected, rounded
from tests.helpers.problems import AGENTS, CIRCLE, GRAPH, problem
from tests.helpers.steps_by_hand import MLP
from tests.helpers.turns import in_turn

STATIC = topologies.Static(GRAPH)
SOLVERS = [TreeLBFGS(), TreeLBFGS(rounded=False), TreeNewton()]
BOTH = pytest.mark.parametrize("solver", [TreeLBFGS(), TreeNewton()], ids=repr)


def by_scipy(p, start):
    """SciPy's L-BFGS on the whole problem: its minimum, and the least of its values so far."""
    values = []

    def both(w):
        values.append(p.objective(w))
        return values[-1], p.total_gradient(w) + p.regularizer.gradient(w)

    found = minimize(both, start, jac=True, method="L-BFGS-B", options={"maxcor": 20, "gtol": 1e-10, "ftol": 1e-15})
    return found.fun, np.minimum.accumulate(values)


@pytest.mark.parametrize(("solver", "loss"), in_turn(SOLVERS, ["squared", "logistic", "huber", "classes"]), ids=repr)
def test_the_optimum_of_convex_problems(solver, loss):
    p = problem(loss, consensus.L2(0.05))
    result = consensus.solve(p, STATIC, solver, rounds=80, record_every=1)
    np.testing.assert_allclose(p.objective(result.mean), by_scipy(p, np.zeros(p.parameters))[0], rtol=1e-12)
    assert result.history["disagreement"].max() == 0
    assert np.diff(result.history["objective"]).max() <= 1e-15


@pytest.mark.slow
def test_lbfgs_takes_as_many_evaluations_as_scipys():
    p, start = problem("squared", consensus.L2(1e-3), MLP), MLP.init(np.random.default_rng(1))
    least, values = by_scipy(p, start)
    for solver in SOLVERS[:2]:
        objective = consensus.solve(p, STATIC, solver, rounds=200, record_every=1, start=start).history["objective"]
        for level in (0.3, 0.1, 0.03, 0.01):
            reach = least + level * (values[0] - least)
            theirs, ours = (int(np.argmax(path <= reach)) for path in (values, objective))
            assert ours <= 1.25 * (theirs + 1) + 1, (solver, level)


def test_the_two_loop_recursion_is_the_bfgs_update_of_a_multiple_of_the_identity():
    rng = np.random.default_rng(0)
    steps, root, v = rng.standard_normal((4, 6)), rng.standard_normal((6, 6)), rng.standard_normal(6)
    changes = steps @ (root @ root.T + np.eye(6))
    H = np.eye(6) * (steps[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
    for s, y in zip(steps, changes, strict=True):
        V = np.eye(6) - np.outer(y, s) / (s @ y)
        H = V.T @ H @ V + np.outer(s, s) / (s @ y)
    np.testing.assert_allclose(times_inverse(steps, changes, 4, v), H @ v, rtol=1e-11)


@pytest.mark.slow
@BOTH
def test_what_was_sent_sums_to_what_is_known_to_the_bit_and_rounding_is_small(solver):
    """It moves TreeLBFGS's gradient by 2% of the last one's norm, TreeNewton's by less than a fifth of its own."""
    p, weight = problem("logistic", consensus.L2(1e-3), MLP), 1e-3
    network = StackedNetwork(STATIC, p.dtype)
    state = solver.init(p, np.tile(MLP.init(np.random.default_rng(0)), (AGENTS, 1)))
    for round in range(25):
        before, state = state, solver.step(p, network, state)
        if isinstance(solver, TreeLBFGS):
            total, point, most = state.total[0], before.trial[0], 0.03 * before.scale if round else np.inf
        else:
            total, point = state.known.total[network.tree.root], state.w[0]  # of the point that is taken
            most = 0.2 * np.linalg.norm(p.total_gradient(point) + weight * point) + 1e-12
        np.testing.assert_array_equal(state.sent.sum(axis=0), total)
        assert np.linalg.norm(total - p.total_gradient(point)) < most


def test_the_corrected_model_takes_directions_to_products():
    rng = np.random.default_rng(1)
    A, H = (x @ x.T for x in rng.standard_normal((2, 9, 12)))
    basis = np.linalg.qr(rng.standard_normal((9, 4)))[0]
    M = corrected(A, basis, H @ basis, 0.0)
    np.testing.assert_allclose(M @ basis, H @ basis, rtol=1e-9, atol=1e-9)
    assert np.linalg.eigvalsh(M).min() > -1e-9
    np.testing.assert_allclose(corrected(A, basis, H @ basis, 0.5) @ basis, H @ basis + 0.5 * basis, rtol=1e-9, atol=1e-9)
    model, g, ridge = Model.of(M, np.full(9, 0.1)), rng.standard_normal(9), 0.1 * np.eye(9)
    d = model.step(0.3, g)
    np.testing.assert_allclose(d, -np.linalg.solve(M + ridge + 0.3 * np.eye(9), g), rtol=1e-9)
    np.testing.assert_allclose(model.decrease(d, g), -(g @ d + d @ (M + ridge) @ d / 2), rtol=1e-9)
    codes, unit = rounded(d, lambda x: model.decrease(x, g) >= 0.99 * model.decrease(d, g))
    assert np.log2(unit).is_integer()
    assert np.array_equal(codes, np.rint(codes))
    assert model.decrease(codes * unit, g) >= 0.99 * model.decrease(d, g)
    assert model.decrease(np.rint(d / unit / 2) * unit * 2, g) < 0.99 * model.decrease(d, g)  # the largest such unit


@BOTH
def test_networks_without_a_tree_and_wrappers_are_rejected(solver):
    l2, l1 = (problem("squared", regularizer) for regularizer in (consensus.L2(0.1), consensus.L1(0.1)))
    for p, network, start, why in (
        (l2, topologies.RandomEdges(GRAPH, 0.5, seed=0), None, "changes from round to round"),
        (l2, topologies.Static(CIRCLE, weights=topologies.push), None, "directed"),
        (l2, topologies.Static(nx.Graph([(0, 1), (2, 3), (4, 5)])), None, "not connected"),
        (l2, STATIC, np.eye(AGENTS, l2.parameters), "start must be the same for all agents"),
        (l1, STATIC, None, "needs a smooth regularizer, and L1"),
    ):
        with pytest.raises(ValueError, match=why):
            consensus.solve(p, network, solver, rounds=1, start=start)
    for wrap in (lambda: Gossip(solver, 2), lambda: Compressed(solver, Quantize(4))):
        with pytest.raises(TypeError, match="sums along a tree"):
            wrap()


def test_newton_rejects_many_parameters_and_names_what_takes_them():
    p = problem("squared", consensus.L2(0.1), consensus.MLP([4, 400, 1]))
    with pytest.raises(ValueError, match=r"P = 2,401: TreeLBFGS\(\)"):
        consensus.solve(p, STATIC, TreeNewton(), rounds=1)
    with pytest.raises(ValueError, match="columns must be a whole number >= 2"):
        TreeNewton(columns=1)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_a_start_from_which_the_first_steps_fail(solver):
    """Values that overflow are refused, and the run goes on."""
    start = 40 * MLP.init(np.random.default_rng(0))
    objective = consensus.solve(
        problem("squared", consensus.L2(1e-3), MLP), STATIC, solver, rounds=60, record_every=1, start=start
    )
    objective = objective.history["objective"]
    assert objective[-1] < 0.1 * objective[0]
    assert np.diff(objective).max() <= 0


@pytest.mark.parametrize("seed", [3, 4, 11])
def test_a_rounded_gradient_of_zero_is_not_the_optimum(seed):
    """With few agents and parameters sums of rounded gradients are often zero far from it: they are asked again more finely."""
    rng = np.random.default_rng(seed)
    agents, parts = 2 + seed % 3, []
    for size in rng.integers(8, 60, agents):
        X = rng.normal(size=(size, 2))
        parts.append((X, X @ [1.0, -0.5] + rng.normal(size=size)))
    problem = consensus.Problem(consensus.Linear(2), consensus.SquaredLoss(), consensus.Shards.from_list(parts))
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    wanted = np.linalg.lstsq(np.c_[X, np.ones(len(X))], y, rcond=None)[0]
    result = consensus.solve(problem, topologies.complete(agents), TreeNewton(), rounds=40)
    np.testing.assert_allclose(result.mean, wanted, atol=1e-8)
