"""Costs of different kinds, regularizers and sets of the agents' own: plain statements, optima by CVXPY, refusals."""

import re

import cvxpy as cp
import numpy as np
import pytest

import consensus
import topologies
from consensus import L1, Box, L2Ball, NonNegative
from consensus.engines import Processes
from consensus.regularizers import OwnRegularizers
from consensus.solvers import DGD, EXTRA, NEXT, NIDS, PGEXTRA, GradientTracking, Subgradient
from consensus.step_sizes import InverseSqrt
from consensus.surrogates import FullLinearization
from consensus.testing import check_problem, check_solver
from consensus.testing.threads import Threads
from tests.helpers.refusals import refusals
from tests.helpers.steps_by_hand import states

AGENTS, P = 6, 3
RNG = np.random.default_rng(0)
CENTRES, CURVATURES = RNG.standard_normal((AGENTS, P)), RNG.uniform(0.5, 2, (AGENTS, 1))
OWN = [Box(0.2, 1.0), Box(-1.0, 0.5), None, L2Ball(0.9), L1(0.05), NonNegative()]
RING = topologies.Static(topologies.ring(AGENTS))
X, Y = RNG.standard_normal((8, P)), RNG.standard_normal(8)


def unlike(regularizer=None, lipschitz=None):
    x = cp.Variable(P)  # which two agents share
    shards = consensus.partition(X, Y, agents=1)
    return consensus.Problem.from_agents(
        [
            (lambda w: ((w - CENTRES[0]) ** 2).sum() / 2, lambda w: w - CENTRES[0]),
            cp.sum(cp.logistic(x)),
            cp.sum_squares(x - CENTRES[2]) / 2,
            consensus.Problem(consensus.Linear(P, bias=False), consensus.SquaredLoss(), shards),
        ],
        regularizer=regularizer,
        lipschitz=lipschitz,
    )


def quadratics(regularizer=None):
    def value(w, rows):
        return (CURVATURES[rows] * (w - CENTRES[rows]) ** 2).sum(axis=1) / 2

    def gradient(w, rows):
        return CURVATURES[rows] * (w - CENTRES[rows])

    return consensus.Problem.from_functions(value, gradient, AGENTS, P, regularizer, lipschitz=CURVATURES[:, 0])


def central(costs, own):
    w = cp.Variable(P)
    whole = OwnRegularizers(own)
    cp.Problem(cp.Minimize(costs(w) + whole.expression(w)), whole.constraints(w)).solve(
        solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11
    )
    return w.value


def of_quadratics(w):
    return sum(curvature[0] * cp.sum_squares(w - centre) for curvature, centre in zip(CURVATURES, CENTRES, strict=True)) / 2


def test_costs_of_different_kinds_are_each_those_of_its_agent():
    problem, w = unlike(), RNG.standard_normal((4, P))
    e = np.exp(w[1])
    np.testing.assert_allclose(
        problem.value(w),
        [
            ((w[0] - CENTRES[0]) ** 2).sum() / 2,
            np.log1p(e).sum(),
            ((w[2] - CENTRES[2]) ** 2).sum() / 2,
            ((X @ w[3] - Y) ** 2).mean() / 2,
        ],
        rtol=1e-13,
    )
    expected = [w[0] - CENTRES[0], e / (1 + e), w[2] - CENTRES[2], X.T @ (X @ w[3] - Y) / 8]
    np.testing.assert_allclose(problem.gradient(w), expected, rtol=1e-12)
    check_problem(problem)


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_engines_agree_on_them(processes):
    network, options = topologies.ring(4), {"rounds": 6, "start": np.ones(P)}
    whole = consensus.solve(unlike(), network, GradientTracking(0.1), **options)
    for engine in (Threads(2), *([Processes(2)] if processes else [])):
        assert np.array_equal(consensus.solve(unlike(), network, GradientTracking(0.1), engine=engine, **options).w, whole.w)


def test_steps_are_found_by_constants_that_are_given_or_known():
    shards = [consensus.partition(X[part], Y[part], agents=1) for part in (slice(0, 4), slice(4, 8))]
    model, huber = consensus.Linear(P, bias=False), consensus.Huber(0.5)
    problem = consensus.Problem.from_agents(
        [consensus.Problem(model, consensus.SquaredLoss(), shards[0]), consensus.Problem(model, huber, shards[1])]
    )
    expected = np.linalg.eigvalsh(X[:4].T @ X[:4] / 4)[-1], np.linalg.eigvalsh(X[4:].T @ X[4:] / 4)[-1]
    assert problem.lipschitz()[0] == pytest.approx(2 * expected[0])
    assert problem.lipschitz()[1] == pytest.approx(2 * expected[1] * huber.curvature_bound)
    result = consensus.solve(problem, topologies.path(2), EXTRA(), rounds=2000, record_every=500)
    assert result.history["stationarity"][-1] < 1e-9
    assert unlike(lipschitz=2.0).lipschitz().tolist() == [8.0] * 4
    with pytest.raises(TypeError, match=r"constant of agent 0's gradient is not known.*from_agents a lipschitz="):
        unlike().lipschitz()


def test_a_resumed_run_knows_its_costs(tmp_path):
    network, solver, options = topologies.ring(4), GradientTracking(0.1), {"start": np.ones(P)}
    consensus.solve(unlike(), network, solver, rounds=4, checkpoint=tmp_path / "run", **options)
    again = consensus.solve(unlike(), network, solver, rounds=6, resume=tmp_path / "run", **options)
    assert np.array_equal(again.w, consensus.solve(unlike(), network, solver, rounds=6, **options).w)
    x = cp.Variable(P)
    other = unlike()
    other.costs[1] = type(other.costs[1])(cp.sum(cp.logistic(2 * x)), x)
    with pytest.raises(ValueError, match="checkpoint of another run: data"):
        consensus.solve(other, network, solver, rounds=6, resume=tmp_path / "run", **options)


PAIR = (lambda w: (w**2).sum(), lambda w: 2 * w)


test_what_does_not_fit_is_named = refusals(
    (lambda: consensus.Problem.from_agents([PAIR]), ValueError, "parameters must be given"),
    (lambda: consensus.Problem.from_agents([]), TypeError, "costs must be a list"),
    (lambda: consensus.Problem.from_agents([PAIR, PAIR[0]], 1), TypeError, "cost of agent 1 must be a pair.*ZerothOrder"),
    (lambda: consensus.Problem.from_agents([PAIR, 3.0], 1, labels=["a", "b"]), TypeError, r"cost of agent 1 \('b'\)"),
    (lambda: consensus.Problem.from_agents([cp.norm1(cp.Variable(2)), cp.norm1(cp.Variable(3))]), ValueError,
     "same parameters, 2; that of agent 1 has 3"),
    (lambda: consensus.Problem.from_agents([PAIR, cp.Variable(2)]), ValueError, "1 must be a scalar CVXPY expression"),
    (lambda: consensus.Problem.from_agents([cp.sum(cp.Variable(2) + cp.Variable(2))]), ValueError,
     "agent 0 must be a scalar CVXPY expression of one variable"),
    (lambda: consensus.Problem.from_agents([quadratics()]), ValueError, "agent 0 must be a problem of one agent"),
    (lambda: consensus.Problem.from_agents(
         [
             consensus.Problem(
                 consensus.Linear(P), consensus.SquaredLoss(), consensus.partition(X, Y, agents=1), consensus.L2(0.1)
             )
         ]
     ), ValueError, r"agent 0 must have no regularizer, and it has L2.*regularizer=\[...\]"),
    (lambda: consensus.Problem.from_agents([(lambda w: w, lambda w: w)], 2).value(np.ones((1, 2))), ValueError,
     "cost of agent 0 must return a number"),
    (lambda: consensus.Problem.from_agents([PAIR, (PAIR[0], np.sum)], 2).gradient(np.ones((2, 2))), ValueError,
     r"gradient of agent 1 must return 2 numbers, \(P,\); got shape \(\)"),
    (lambda: consensus.Problem.from_agents([-cp.sum(cp.log(cp.Variable(2)))]).gradient(-np.ones((1, 2))), ValueError,
     "has no gradient at"),
    (lambda: quadratics([L1(0.1)] * 5), ValueError, "a list with one for each of 6 agents; got 5"),
    (lambda: quadratics([L1(0.1)] * 5 + [consensus.SCAD(0.1)]), ValueError, "regularizer of agent 5 must be convex"),
    (lambda: quadratics([3.0] * 6), TypeError, "regularizer of agent 0 must be a regularizer"),
    (lambda: OwnRegularizers([]), TypeError, "regularizers must be a list"),
    (lambda: OwnRegularizers(OWN).prox(np.ones((2, P)), 1.0), ValueError, "each of 6 agents .* v has 2 points"),
)  # fmt: skip


def plain_pg_extra(W, alpha, before):
    """PG-EXTRA as the paper has it, with the regularizers A r_i of the average form."""

    def gradient(x):
        return AGENTS * CURVATURES * (x - CENTRES)

    def prox(v):
        rows = [row if r is None else r.prox(row, alpha * AGENTS) for r, row in zip(OWN, v, strict=True)]
        return np.stack(rows)

    half = (np.eye(AGENTS) + W) / 2
    v = W @ before - alpha * gradient(before)
    x = prox(v)
    while True:
        yield x
        v = v + W @ x - half @ before - alpha * (gradient(x) - gradient(before))
        before, x = x, prox(v)


def plain_nids(W, alpha, before):
    def prox(v):
        return np.stack([row if r is None else r.prox(row, alpha * AGENTS) for r, row in zip(OWN, v, strict=True)])

    def gradient(x):
        return AGENTS * CURVATURES * (x - CENTRES)

    half = (np.eye(AGENTS) + W) / 2
    z = half @ (before - alpha * gradient(before))
    x = prox(z)
    while True:
        yield x
        z = z - x + half @ (2 * x - before - alpha * (gradient(x) - gradient(before)))
        before, x = x, prox(z)


@pytest.mark.parametrize(
    ("solver", "plain"), [(PGEXTRA(0.05), plain_pg_extra), (NIDS(0.05), plain_nids)], ids=["PGEXTRA", "NIDS"]
)
def test_own_regularizers_are_taken_as_in_a_plain_statement(solver, plain):
    first, *found = (state.w for state in states(solver, quadratics(OWN), RING, 15))
    for w, x in zip(found, plain(RING.weights(0).toarray(), 0.05, first), strict=False):
        np.testing.assert_allclose(w, x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("solver", [PGEXTRA(), NIDS()], ids=str)
def test_they_come_to_the_minimiser_over_the_intersection(solver):
    result = consensus.solve(quadratics(OWN), RING, solver, rounds=500, record_every=250)
    np.testing.assert_allclose(result.mean, central(of_quadratics, OWN), atol=1e-7)
    assert result.history["stationarity"][-1] < 1e-9
    assert result.history["disagreement"][-1] < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("solver", [PGEXTRA(), NIDS()], ids=str)
def test_engines_agree_on_own_regularizers(solver):
    laws = check_solver(solver, quadratics(OWN), RING, engines=[Processes(2)]).errors
    assert laws["blocks of agents on threads come to the same bits"] == 0


def test_equal_ones_of_all_agents_are_one_of_their_sum():
    options = {"rounds": 40, "record_every": 10, "start": np.ones(P)}
    shared, own = (consensus.solve(quadratics(r), RING, NIDS(0.05), **options) for r in (L1(0.1 * AGENTS), [L1(0.1)] * AGENTS))
    np.testing.assert_allclose(own.w, shared.w, atol=1e-13)
    for column in ("objective", "stationarity"):
        np.testing.assert_allclose(own.history[column], shared.history[column], atol=1e-10)


def test_the_prox_of_the_sum_is_cvxpys():
    r, v, w = OwnRegularizers(OWN), 2 * RNG.standard_normal(P), cp.Variable(P)
    cp.Problem(cp.Minimize(r.expression(w) + cp.sum_squares(w - v) / (2 * 0.7)), r.constraints(w)).solve(
        solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    np.testing.assert_allclose(r.prox(v, 0.7), w.value, atol=1e-6)
    inside = r.prox(v, 0.7)
    assert r.value(inside + 2.0) == np.inf
    assert r.value(np.array([0.3, 0.4, 0.25])) == pytest.approx(0.05 * 0.95)
    assert OwnRegularizers([None, None]).prox(v, 1.0).tolist() == v.tolist()
    empty = OwnRegularizers([Box(0.0, 1.0), Box(2.0, 3.0)])
    assert np.isnan(empty.prox(np.zeros(1), 1.0)).all()  # no point is in both


@pytest.mark.parametrize("solver", [DGD(0.1), EXTRA(), GradientTracking(0.1), NEXT(FullLinearization(1.0), 0.5), None], ids=str)
@pytest.mark.parametrize("network", [RING, topologies.RandomEdges(topologies.ring(AGENTS), 0.9, seed=0)], ids=str)
def test_other_solvers_refuse_them_and_what_they_name_works(solver, network):
    with pytest.raises(ValueError, match="each has its own: ") as caught:
        consensus.solve(quadratics(OWN), network, solver, rounds=1)
    remedy = re.search(r"(\w+)\(step_size\)", str(caught.value))[1]
    assert remedy == ("NIDS" if network is RING else "Subgradient")
    consensus.solve(quadratics(OWN), network, {"NIDS": NIDS, "Subgradient": Subgradient}[remedy](0.05), rounds=2)


def test_systems_with_a_server_refuse_them():
    with pytest.raises(ValueError, match="SynchronousSGD needs one regularizer that all agents share"):
        consensus.centralized.solve(quadratics(OWN), consensus.centralized.SynchronousSGD(4, 0.1), rounds=1)


def distances(regularizer=None):
    return consensus.Problem.from_functions(
        lambda w, rows: abs(w - CENTRES[rows]).sum(axis=1),
        lambda w, rows: np.sign(w - CENTRES[rows]),
        AGENTS,
        P,
        regularizer,
    )


@pytest.mark.parametrize("average", [False, True])
def test_subgradient_is_its_plain_statement(average):
    first, *found = (state.w for state in states(Subgradient(InverseSqrt(0.1), average), distances(OWN), RING, 15))
    W, x, w, steps = RING.weights(0).toarray(), first, first, 0.0
    for n, got in enumerate(found):
        alpha = 0.1 / np.sqrt(n + 1)
        v = W @ x
        v = v - alpha * AGENTS * np.sign(v - CENTRES)
        x = np.stack([row if r is None else r.prox(row, alpha * AGENTS) for r, row in zip(OWN, v, strict=True)])
        steps += alpha
        w = ((steps - alpha) * w + alpha * x) / steps if average else x
        np.testing.assert_allclose(got, w, rtol=0, atol=1e-13)


def test_running_averages_are_within_the_rate_of_the_median():
    """The cost is within C log k / sqrt k of the least, that of the median."""
    problem, least = distances(), np.abs(CENTRES - np.median(CENTRES, axis=0)).sum()
    rounds = 1500
    history = consensus.solve(
        problem, RING, Subgradient(InverseSqrt(0.05), average=True), rounds=rounds, start=np.ones(P), record_every=100
    ).history
    gaps, k = history["objective"][1:] - least, history["round"][1:]
    rates = np.log(k) / np.sqrt(k)
    assert gaps.min() >= 0
    assert (gaps <= gaps[0] * rates / rates[0]).all()


@pytest.mark.slow
def test_subgradient_comes_to_the_minimiser_over_sets_that_differ():
    """Of costs that are not smooth: quadratics with sharp edges, in the intersection of six sets."""

    def cost(w):
        return of_quadratics(w) + sum(cp.norm1(w - centre) for centre in CENTRES)

    problem = consensus.Problem.from_functions(
        lambda w, rows: (CURVATURES[rows] * (w - CENTRES[rows]) ** 2).sum(axis=1) / 2 + abs(w - CENTRES[rows]).sum(axis=1),
        lambda w, rows: CURVATURES[rows] * (w - CENTRES[rows]) + np.sign(w - CENTRES[rows]),
        AGENTS,
        P,
        OWN,
    )
    network, least = topologies.RandomEdges(topologies.complete(AGENTS), 0.6, seed=0), central(cost, OWN)
    apart = []
    for rounds in (1500, 6000):
        result = consensus.solve(problem, network, Subgradient(InverseSqrt(0.02)), rounds=rounds, record_every=rounds)
        apart.append(abs(result.w - least).max())
    assert apart[1] < 0.04
    assert apart[1] < 0.6 * apart[0]  # as the step, which halves


@pytest.mark.slow
def test_subgradient_runs_on_every_engine():
    laws = check_solver(Subgradient(0.02, average=True), distances(OWN), RING, engines=[Processes(2)]).errors
    assert laws["blocks of agents on threads come to the same bits"] == 0
