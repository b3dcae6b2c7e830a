"""Coupled constraints: minimisers against CVXPY and by hand, the sums that Tracking-ADMM keeps, wrong arguments."""

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from scipy.optimize import brentq, lsq_linear

import consensus
import topologies
from consensus.coupled.box import minimise_in_box
from consensus.engines import Processes
from consensus.problems import ConvexCosts, Coupled, QuadraticCosts
from consensus.solvers import NIDS, GradientTracking, TrackingADMM
from consensus.testing import check_solver
from tests.helpers.refusals import refusals
from tests.helpers.turns import in_turn

AGENTS, ROWS = 8, 2
GRAPH = nx.circulant_graph(AGENTS, [1, 3])
NETWORKS = {
    "static": topologies.Static(GRAPH),
    "edges fail": topologies.RandomEdges(GRAPH, 0.5, seed=1),
    "pairs": topologies.Matchings(AGENTS, seed=0),
    "exact averages": topologies.BaseGraph(AGENTS, 2),
}


def data(seed=1, sizes=None):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, AGENTS) if sizes is None else sizes
    roots = [rng.normal(size=(n, n)) for n in sizes]
    Q, q = [root @ root.T + 0.3 * np.eye(len(root)) for root in roots], [rng.normal(size=n) for n in sizes]
    A = [rng.normal(size=(ROWS, n)) for n in sizes]
    b = sum(matrix @ rng.uniform(-0.5, 0.5, n) for matrix, n in zip(A, sizes, strict=True))
    return Q, q, A, b


def by_cvxpy(Q, q, A, b, inequality):
    x = [cp.Variable(len(row)) for row in q]
    cost = sum(cp.quad_form(v, cp.psd_wrap(P)) / 2 + c @ v for v, P, c in zip(x, Q, q, strict=True))
    total = sum(matrix @ v for matrix, v in zip(A, x, strict=True))
    coupling = total <= b if inequality else total == b
    sharp = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-13)
    cp.Problem(cp.Minimize(cost), [coupling, *(cp.abs(v) <= 1 for v in x)]).solve(solver="CLARABEL", **sharp)
    return np.concatenate([v.value for v in x]), cost.value, coupling.dual_value


def coupled(inequality=False, seed=1):
    Q, q, A, b = data(seed)
    return Coupled(QuadraticCosts(Q, q, -1.0, 1.0), A, b - 0.5 * inequality, inequality)


@pytest.mark.parametrize(("name", "inequality"), in_turn(NETWORKS, [False, True], every=4))
def test_tracking_admm_finds_the_minimisers_of_cvxpy_on_static_and_changing_graphs(name, inequality):
    problem, (Q, q, A, b) = coupled(inequality), data()
    x, cost, multipliers = by_cvxpy(Q, q, A, b - 0.5 * inequality, inequality)
    result = consensus.solve(problem, NETWORKS[name], TrackingADMM(), rounds=800, record_every=800)
    assert np.allclose(np.concatenate(problem.primal(result.w)), x, rtol=0, atol=1e-8)
    assert np.allclose(result.w, multipliers, rtol=0, atol=1e-8)
    assert result.history["cost"][-1] == pytest.approx(cost, abs=1e-8)
    assert -result.history["objective"][-1] == pytest.approx(cost, abs=1e-8)  # no duality gap
    assert result.history["violation"][-1] < 1e-8


@pytest.mark.parametrize("inequality", [False, True])
def test_estimates_of_the_excess_sum_to_it_in_every_round(inequality):
    problem, network, solver = coupled(inequality), topologies.RandomEdges(GRAPH, 0.4, seed=3), TrackingADMM(0.1)
    state = solver.init(problem, np.ones((AGENTS, ROWS)))
    for n in range(40):
        matrix = network.weights(network.key(n))
        state = solver.step(problem, Given(matrix), state)
        x = state.x
        excess = problem.equality.excess(x).sum(axis=0)
        assert np.allclose(state.d.sum(axis=0), excess, rtol=0, atol=1e-13)
        assert state.round == n + 1
        assert solver.report(state)[:, 1].max() >= np.linalg.norm(excess) - 1e-12  # the largest estimate is no less


class Given:
    def __init__(self, matrix):
        self.matrix = matrix

    def mix(self, round, *stacks):
        return tuple(self.matrix @ stack for stack in stacks)


def test_economic_dispatch_has_the_price_at_which_supply_meets_demand():
    rng = np.random.default_rng(0)
    curvature, start, capacity = 10 ** rng.uniform(-1, 1, AGENTS), rng.uniform(0, 2, AGENTS), rng.uniform(1, 4, AGENTS)
    demand = 0.6 * capacity.sum()
    supply = lambda price: np.clip((price - start) / curvature, 0, capacity)  # noqa: E731
    price = brentq(lambda price: supply(price).sum() - demand, 0, 100, xtol=1e-14)
    costs = QuadraticCosts([[c] for c in curvature], [[s] for s in start], 0.0, [[c] for c in capacity])
    problem = Coupled(costs, [[1.0]] * AGENTS, [demand])
    result = consensus.solve(problem, NETWORKS["edges fail"], TrackingADMM(), rounds=1000, record_every=1000)
    assert np.allclose(-result.w, price, rtol=0, atol=1e-9)
    assert np.allclose(np.ravel(problem.primal(result.w)), supply(price), rtol=0, atol=1e-8)
    assert 0 < (supply(price) == capacity).sum() < AGENTS  # some are at their capacity


@pytest.mark.parametrize(
    ("solver", "inequality"), [pytest.param(GradientTracking(), False, marks=pytest.mark.slow), (NIDS(), True)]
)
def test_solvers_of_costs_given_by_functions_find_the_same_multipliers(solver, inequality):
    problem = coupled(inequality)
    wanted = consensus.solve(problem, NETWORKS["static"], TrackingADMM(), rounds=800, record_every=800).mean
    result = consensus.solve(problem, NETWORKS["static"], solver, rounds=1500, record_every=1500)
    assert np.allclose(result.mean, wanted, rtol=0, atol=1e-7)


@pytest.mark.slow
def test_functions_for_cvxpy_have_the_minimisers_of_the_pooled_program():
    weights = np.array([1.0, 2.0, 3.0])
    costs = [lambda x, w=w: (-w * cp.sum(cp.log(x)), [x <= 0.4]) for w in weights]
    problem = Coupled(costs, A=[np.ones((1, 1)), np.ones((1, 2)), np.ones((1, 1))], b=[1.2], inequality=True)
    # Logarithms share in proportion to their weights: shares w / price, of which agent 2 may have 0.4 at most.
    rest = 0.8 / (1 + 2 + 2)
    result = consensus.solve(problem, topologies.path(3), TrackingADMM(8.0), rounds=100, record_every=100, start=[5.0])
    wanted = [[rest], [2 * rest, 2 * rest], [0.4]]
    assert all(np.allclose(x, y, rtol=0, atol=1e-5) for x, y in zip(problem.primal(result.w), wanted, strict=True))


def test_costs_in_numpy_and_in_cvxpy_have_the_same_minimisers_and_duals():
    Q, q, A, b = data(sizes=[2, 3, 1])
    stated = [
        lambda x, P=P, c=c: (cp.quad_form(x, cp.psd_wrap(P)) / 2 + c @ x, [cp.abs(x) <= 1]) for P, c in zip(Q, q, strict=True)
    ]
    ours, theirs = Coupled(QuadraticCosts(Q, q, -1.0, 1.0), A, b, True), Coupled(stated, A, b, True)
    w, excess = abs(np.random.default_rng(0).normal(size=(2, 3, ROWS)))
    assert np.allclose(ours.value(w), theirs.value(w), rtol=0, atol=1e-7)
    assert np.allclose(ours.gradient(w), theirs.gradient(w), rtol=0, atol=1e-5)
    x = np.zeros((3, 3 + ROWS))
    found = [problem.equality.augmented(w, excess, x, 0.7) for problem in (ours, theirs)]
    assert np.allclose(*found, rtol=0, atol=1e-5)
    assert ours.restrict([2, 0]).primal(w[[2, 0]])[1] == pytest.approx(ours.primal(w)[0], abs=1e-13)


def test_gradients_are_those_of_the_dual_function_and_within_its_lipschitz_constants():
    problem, rng, step = coupled(), np.random.default_rng(2), 1e-6
    w, other = rng.normal(size=(2, AGENTS, ROWS))
    gradient = problem.gradient(w)
    for column in range(ROWS):
        along = np.eye(ROWS)[column] * step
        slope = (problem.value(w + along) - problem.value(w - along)) / (2 * step)
        assert np.allclose(slope, gradient[:, column], rtol=0, atol=1e-8)
    change = np.linalg.norm(problem.gradient(other) - gradient, axis=1)
    assert (change <= problem.lipschitz() / AGENTS * np.linalg.norm(other - w, axis=1) + 1e-12).all()


def test_programs_in_boxes_have_the_minimisers_of_scipy():
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 20):
        root = rng.normal(size=(30, size + 5, size)) * 10 ** rng.uniform(-2, 2, (30, 1, size))
        goal = rng.normal(size=(30, size + 5)) * 10 ** rng.uniform(-2, 2, (30, 1))
        lower, upper = np.sort(rng.normal(size=(2, 30, size)), axis=0)
        lower[::3], upper[1::4], upper[2, 0] = -np.inf, np.inf, lower[2, 0]
        H, h = root.swapaxes(1, 2) @ root, -np.einsum("amn,am->an", root, goal)
        found = minimise_in_box(H, h, lower, upper, rng.normal(size=(30, size)))
        assert ((lower <= found) & (found <= upper)).all()
        for agent in range(30):
            low, high = lower[agent], np.nextafter(upper[agent], np.inf)  # SciPy takes no empty interiors
            exact = lsq_linear(root[agent], goal[agent], (low, high), method="bvls", tol=1e-15, max_iter=1000).x
            ours, theirs = (x @ H[agent] @ x / 2 + h[agent] @ x for x in (found[agent], exact))
            assert ours <= theirs + 1e-12 * (1 + abs(theirs))


def test_it_keeps_the_contract_of_solvers(forked):
    laws = check_solver(TrackingADMM(), coupled(), topologies.Static(GRAPH), engines=[Processes(2)]).errors
    assert {"blocks of agents on threads come to the same bits", "a resumed run is the run that never stopped"} <= {*laws}


Q, Q_SMALL, ONE = np.eye(2), [[1.0]], [[0.0]]


def test_problems_and_penalties_that_do_not_fit_are_rejected():
    plain = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    with pytest.raises(TypeError, match=r"TrackingADMM needs a problem with coupled constraints, consensus.problems.Coupled"):
        consensus.solve(plain, topologies.ring(3), TrackingADMM(), rounds=1)
    stated = Coupled([cp.sum_squares] * 3, [[1.0]] * 3, [1.0])
    with pytest.raises(TypeError, match="no known strong convexity of its costs: give the solver a step or penalty"):
        consensus.solve(stated, topologies.ring(3), TrackingADMM(), rounds=1)
    empty = Coupled([lambda x: (cp.sum_squares(x), [x >= 1, x <= 0])] * 3, [[1.0]] * 3, [1.0])
    with pytest.raises(consensus.LocalSolveError, match="the local problem of agent 0 is infeasible"):
        consensus.solve(empty, topologies.ring(3), TrackingADMM(1.0), rounds=1)


test_refusals = refusals(
    (lambda: QuadraticCosts([Q, -Q], [[0, 0], [0, 0]]), ValueError,
     r"Q\[1\] must be positive definite; its least eigenvalue is -1"),
    (lambda: QuadraticCosts([[[1, 2], [0, 5]]], [[0, 0]]), ValueError, r"Q\[0\] must be symmetric"),
    (lambda: QuadraticCosts([Q], [[0.0]]), ValueError, r"Q\[0\] must have shape \(n, n\) or \(n,\)"),
    (lambda: QuadraticCosts([Q], []), ValueError, "an entry for each agent; got 1 and 0"),
    (lambda: QuadraticCosts([Q_SMALL], ONE, 2.0, 1.0), ValueError, r"lower must be at most upper; agent 0 has \[2.0\] and"),
    (lambda: QuadraticCosts([Q_SMALL], ONE, [[1, 2]]), ValueError, r"lower\[0\] must be a number or 1 of them"),
    (lambda: QuadraticCosts([Q_SMALL], ONE, upper=[1.0, 2.0]), ValueError, "upper must be a number, or have an entry"),
    (lambda: Coupled(QuadraticCosts([Q_SMALL], ONE), [[1.0], [1.0]], [1.0]), ValueError, "for each of 1 agents; got 2"),
    (lambda: Coupled(QuadraticCosts([Q_SMALL], ONE), [[1.0, 2.0]], [1.0]), ValueError, r"A\[0\] must have shape \(1, 1\)"),
    (lambda: Coupled(QuadraticCosts([Q_SMALL], ONE), [[1.0]], [1.0, 2.0]), ValueError,
     r"b must have shape \(1,\), or \(1, 1\)"),
    (lambda: Coupled(3, [[1.0]], [1.0]), TypeError, "costs must be QuadraticCosts, ConvexCosts, or functions"),
    (lambda: ConvexCosts([cp.sum], [1, 2]), ValueError, "a function for each agent; got 1 for 2"),
    (lambda: ConvexCosts([lambda x: -cp.sum_squares(x)], [1]), ValueError,
     "the cost of agent 0 is not convex by CVXPY's rules"),
    (lambda: ConvexCosts([lambda x: (cp.sum(x), [cp.sum_squares(x) >= 1])], [1]), ValueError, "a constraint of agent 0 is not"),
    (lambda: ConvexCosts([lambda x: x], [2]), TypeError, "the cost of agent 0 must be a scalar CVXPY expression"),
    (lambda: ConvexCosts([3], [2]), TypeError, "the cost of agent 0 must be a function"),
)  # fmt: skip
