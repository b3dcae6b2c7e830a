"""Aggregative problems: the plain statement, minimisers by CVXPY, the rate, the sums that tracking keeps, wrong arguments."""

import cvxpy as cp
import numpy as np
import pytest

import consensus
import topologies
from consensus import L1, Box, L2Ball
from consensus.engines import Processes
from consensus.problems import Aggregative
from consensus.solvers import DGD, NIDS, AggregativeGT, Gossip, GradientTracking
from consensus.testing import check_solver
from consensus.testing.threads import Threads
from tests.helpers.refusals import refusals
from tests.helpers.steps_by_hand import states

AGENTS, N, D = 6, 2, 3
RNG = np.random.default_rng(1)
TARGETS, SLOPES, CENTRE = RNG.standard_normal((AGENTS, N)), RNG.standard_normal((AGENTS, D, N)), RNG.standard_normal(D)
SETS = [Box(-0.5, 0.5), L2Ball(0.4), None, L1(0.3), Box(0.0, 1.0), None]
RING = topologies.Static(topologies.ring(AGENTS))


def value(x, s, rows):
    return ((x - TARGETS[rows]) ** 2).sum(axis=1) + 0.3 * ((s - CENTRE) ** 2).sum(axis=1) + 0.2 * x[:, 0] * s[:, 1]


def gradients(x, s, rows):
    own, aggregate = 2 * (x - TARGETS[rows]), 0.6 * (s - CENTRE)
    own[:, 0] += 0.2 * s[:, 1]
    aggregate[:, 1] += 0.2 * x[:, 0]
    return own, aggregate


def contribution(x, rows):
    return np.einsum("idn,in->id", SLOPES[rows], x)


def pullback(x, v, rows):
    return np.einsum("idn,id->in", SLOPES[rows], v)


def problem(regularizer=None):
    return Aggregative(value, gradients, AGENTS, N, contribution, pullback, regularizer)


def everyone(function):
    """The function without ``rows``, which takes all agents."""
    return lambda *stacks: function(*stacks, rows=np.arange(AGENTS))


def central(sets):
    x = cp.Variable((AGENTS, N))
    s = sum(SLOPES[i] @ x[i] for i in range(AGENTS)) / AGENTS
    smooth = np.zeros((AGENTS * N + D, AGENTS * N + D))  # the product x_i s is a quadratic form with the squares beside it
    for i in range(AGENTS):
        smooth[N * i : N * i + N, N * i : N * i + N] = 2 * np.eye(N)
        smooth[N * i, AGENTS * N + 1] = smooth[AGENTS * N + 1, N * i] = 0.2
    smooth[AGENTS * N :, AGENTS * N :] = 0.6 * AGENTS * np.eye(D)
    z = cp.hstack([cp.reshape(x, AGENTS * N, order="C"), s])
    linear = np.concatenate([-2 * TARGETS.ravel(), -0.6 * AGENTS * CENTRE])
    kinds = [(r, x[i]) for i, r in enumerate(sets or []) if r is not None]
    cost = cp.quad_form(z, cp.psd_wrap(smooth)) / 2 + linear @ z + sum(r.expression(row) for r, row in kinds)
    constraints = [constraint for r, row in kinds for constraint in r.constraints(row)]
    cp.Problem(cp.Minimize(cost), constraints).solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return x.value


def test_it_is_its_plain_statement():
    W, alpha, rows = RING.weights(0).toarray(), 0.03, np.arange(AGENTS)
    first, *found = (state.w for state in states(AggregativeGT(alpha), problem(SETS), RING, 20))
    x, s = first, contribution(first, rows)
    v = gradients(x, s, rows)[1]
    for w in found:
        own, slope = gradients(x, s, rows)
        moved = x - alpha * (own + pullback(x, v, rows))
        new = np.stack([row if r is None else r.prox(row, alpha) for r, row in zip(SETS, moved, strict=True)])
        s_new = W @ s + contribution(new, rows) - contribution(x, rows)
        v = W @ v + gradients(new, s_new, rows)[1] - slope
        x, s = new, s_new
        np.testing.assert_allclose(w, x, rtol=0, atol=1e-13)


@pytest.mark.parametrize("sets", [None, SETS], ids=["free", "sets"])
def test_it_comes_to_the_minimiser_of_all_and_linearly(sets):
    p, wanted = problem(sets), central(sets)
    options = {"record_every": 100, "start": np.zeros(N)}
    result = consensus.solve(p, RING, AggregativeGT(0.03), rounds=500, **options)
    np.testing.assert_allclose(result.w, wanted, atol=1e-6)
    stationarity, objective = result.history["stationarity"], result.history["objective"]
    assert stationarity[-1] < 1e-12
    assert objective[-1] == pytest.approx(p.objective(wanted), rel=1e-9)
    first = consensus.solve(p, RING, AggregativeGT(0.03), rounds=100, **options)
    assert stationarity[1] == pytest.approx(p.stationarity(first.w), rel=1e-9)
    assert objective[1] == pytest.approx(p.objective(first.w), rel=1e-13)
    rates = stationarity[2:5] / stationarity[1:4]
    assert rates[1] == pytest.approx(rates[2], rel=0.05)  # once it is known which sets are active
    assert rates.max() < 0.01


def barycentre():
    """With phi the identity, so that all that is sent has n numbers, as ``check_solver`` counts them."""
    return Aggregative(
        lambda x, s, rows: ((x - TARGETS[rows]) ** 2 + s**2).sum(axis=1),
        lambda x, s, rows: (2 * (x - TARGETS[rows]), 2 * s),
        AGENTS,
        N,
        regularizer=SETS,
    )


@pytest.mark.parametrize("kept", [("s", "phi"), ("v", "slope")], ids=str)
def test_tracking_keeps_its_sums(kept):
    apart = [getattr(state, kept[0]) - getattr(state, kept[1]) for state in states(AggregativeGT(0.03), problem(SETS), RING, 9)]
    assert np.abs(apart[9]).max() > 1e-3
    np.testing.assert_allclose(np.sum(apart, axis=1), 0, atol=1e-13)


@pytest.mark.slow
def test_every_engine_comes_to_the_same_bits():
    laws = check_solver(AggregativeGT(0.1), barycentre(), RING, engines=[Processes(2)]).errors
    assert laws["blocks of agents on threads come to the same bits"] == 0


def test_blocks_on_threads_come_to_the_same_history():
    options = {"rounds": 5, "start": np.ones(N), "agent_objectives": True}
    whole, parts = (
        consensus.solve(problem(SETS), RING, AggregativeGT(0.03), engine=engine, **options)
        for engine in ("stacked", Threads(3))
    )
    assert np.array_equal(whole.w, parts.w)
    for column in ("objective", "stationarity", "agent_objective"):
        assert np.array_equal(whole.history[column], parts.history[column])


def test_functions_without_rows_are_called_for_all():
    plain = Aggregative(*map(everyone, (value, gradients)), AGENTS, N, *map(everyone, (contribution, pullback)), SETS)
    options = {"rounds": 5, "start": np.ones(N)}
    ours, theirs = (consensus.solve(p, RING, AggregativeGT(0.03), **options) for p in (problem(SETS), plain))
    assert np.array_equal(ours.w, theirs.w)
    assert plain.digests() == problem(SETS).digests()


def test_its_gradient_is_the_slope_of_the_objective():
    p, x, h = problem(), RNG.standard_normal((AGENTS, N)), 1e-6
    gradient = p.gradient(x)
    for i, k in ((0, 0), (3, 1), (5, 0)):
        step = np.zeros((AGENTS, N))
        step[i, k] = h
        slope = (p.objective(x + step) - p.objective(x - step)) / (2 * h)
        assert gradient[i, k] == pytest.approx(slope, abs=1e-7)


def test_gossip_around_it_runs():
    result = consensus.solve(problem(), RING, Gossip(AggregativeGT(0.03), 2), rounds=200)
    np.testing.assert_allclose(result.w, central(None), atol=1e-5)


@pytest.mark.parametrize("solver", [DGD(0.1), NIDS(0.1), GradientTracking(0.1), Gossip(DGD(0.1), 2), None], ids=str)
def test_other_solvers_refuse_it_and_what_they_name_works(solver):
    with pytest.raises(TypeError, match=r"each has its own: take AggregativeGT\(step_size\)"):
        consensus.solve(problem(), RING, solver, rounds=1)
    consensus.solve(problem(), RING, AggregativeGT(0.03), rounds=1)


test_what_does_not_fit_is_named = refusals(
    (lambda: Aggregative(3, gradients, AGENTS, N), TypeError, "value must be a function"),
    (lambda: Aggregative(value, gradients, AGENTS, N, contribution), TypeError, "two functions.*or both left out"),
    (lambda: Aggregative(value, gradients, AGENTS, N, regularizer=consensus.SCAD(0.1)), ValueError, "must be convex"),
    (lambda: problem().restrict([0, 1]).objective(np.ones((2, N))), ValueError, "needs all 6 agents, and 2 are held"),
    (lambda: Aggregative(lambda x, s: x, gradients, AGENTS, N).objective(np.ones((AGENTS, N))), ValueError,
     r"value must return an array of shape \(6,\) for the 6 agents; got \(6, 2\)"),
    (lambda: Aggregative(lambda x, s: x[:, 0], lambda x, s: x, AGENTS, N).gradient(np.ones((AGENTS, N))), ValueError,
     "gradients must return a pair"),
    (lambda: consensus.solve(
         consensus.Problem.from_functions(lambda w: w[:, 0], lambda w: w, 6, 1), RING, AggregativeGT(0.03), rounds=1
     ), TypeError, r"AggregativeGT needs a problem with an aggregate.*GradientTracking\(step_size\) takes one"),
    (lambda: consensus.centralized.solve(problem(), consensus.centralized.SynchronousSGD(4, 0.1), rounds=1), TypeError,
     "looks for one w of all agents"),
)  # fmt: skip
