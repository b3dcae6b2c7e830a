"""ASY-SONATA: the law of its running sums, a loop by hand, delays and losses, surrogates, and what it refuses."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import consensus
import topologies
from consensus import Minibatches
from consensus.asynchronous import ASYSONATA, Simulated
from consensus.errors import LocalSolveError
from consensus.local import CVXPYSolver, Exact
from consensus.solvers import NEXT, SONATA
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.problems import AGENTS as SIX
from tests.helpers.problems import CIRCLE, problem
from tests.helpers.unlike_quadratics import (
    AGENTS,
    GRAPH,
    LATE,
    OPTIMUM,
    QUADRATICS,
    STEPS,
    UNKNOWNS,
    B,
    C,
    H,
    L,
    R,
    asy_sonata_in_turn,
    events,
)


def imbalance(running, gradients):
    """How far the trackers and what is on its way are from the sum of gradients, relatively."""
    state, arcs = running.state, running.arcs
    total = state.z.sum(axis=0)
    for i, row in enumerate(arcs.sources):
        for place, j in enumerate(row):
            if j >= 0:
                total = total + arcs.c[i, place] * (state.rho[j] - state.seen[i, place])
    return abs(total - gradients.sum(axis=0)).max() / abs(gradients).max()


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    compute=st.sampled_from([1.0, (0.5, 1.5), [1.0] * 7 + [10.0]]),
    delay=st.sampled_from([0.0, 0.5, (0.0, 10.0), (0.0, 60.0)]),
    loss=st.floats(0, 0.6),
    seed=st.integers(0, 100),
)
def test_sums_are_kept_at_every_event_under_any_delay_and_loss(compute, delay, loss, seed):
    running = events(STEPS, Simulated(compute, delay, loss, seed=seed))
    gradients = np.zeros((AGENTS, UNKNOWNS))  # those that agents computed at their last wakes, at the iterates before
    for _ in range(200):
        before = QUADRATICS.gradient(running.state.w)
        woke = running.advance(3)
        gradients[woke] = before[woke]
        assert imbalance(running, gradients) < 1e-12


def test_sums_are_kept_with_batches():
    whole = problem(scheme="iid")
    running = events(
        ASYSONATA(FullLinearization(SIX * 20.0), 0.1, batch=3), Simulated(delay=(0.0, 5.0), loss=0.3), whole, CIRCLE
    )
    for _ in range(100):
        before = running.state.w.copy()
        woke = running.advance(2)
        assert imbalance(running, running.state.gradient) < 1e-12
    difference = running.state.gradient[woke] - whole.average_gradient(before)[woke] / SIX
    assert abs(difference).max() > 1e-3  # of few samples


def test_without_delay_agents_take_turns_as_in_a_loop_by_hand():
    start = np.arange(UNKNOWNS) / 3
    expected = asy_sonata_in_turn(H, B, start, 0.4 / L, rounds=60)
    seen = []
    result = consensus.solve(
        QUADRATICS,
        GRAPH,
        STEPS,
        rounds=60,
        record_every=1,
        start=start,
        engine=Simulated(),
        callbacks=[lambda info: seen.append(info.w)],
    )
    np.testing.assert_allclose(seen, expected, atol=1e-13)
    np.testing.assert_allclose(result.w, expected[-1], atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    "simulated", [LATE, Simulated((0.5, 1.5), (0.0, 10.0), 0.3), Simulated([1.0] * 7 + [10.0], (0.0, 10.0), 0.3)], ids=range(3)
)
def test_it_is_exact_under_delays_and_losses(simulated):
    result = consensus.solve(QUADRATICS, GRAPH, STEPS, rounds=4000, engine=simulated, record_every=1000)
    assert abs(result.w - OPTIMUM).max() <= 1e-10


@pytest.mark.slow
def test_twice_the_step_is_too_much_for_such_delays():
    result = consensus.solve(
        QUADRATICS, GRAPH, ASYSONATA(FullLinearization(tau=AGENTS * L), 0.8), rounds=4000, engine=LATE, record_every=1000
    )
    assert abs(result.w - OPTIMUM).max() > 1e-3


@pytest.mark.parametrize("surrogate", [FullLinearization(tau=AGENTS * L), FullLinearization(tau=2 * AGENTS * L)], ids=str)
def test_a_surrogate_means_what_it_means_in_rounds(surrogate):
    """The sum of the costs has the modulus A L: its tau, and the step, are those of SONATA."""
    rounds = consensus.solve(
        QUADRATICS, topologies.Static(GRAPH, weights=topologies.push), SONATA(surrogate, 0.4), rounds=400, record_every=400
    )
    wakes = consensus.solve(QUADRATICS, GRAPH, ASYSONATA(surrogate, 0.4), rounds=400, engine=Simulated(), record_every=400)
    for result in (rounds, wakes):
        assert abs(result.w - OPTIMUM).max() < 1e-9


def test_with_batches_the_surrogate_is_of_the_wakes_own_samples():
    """Of a linear model and squared losses it is the cost itself, A times over, with A tau / 2 |x - x_i|^2."""
    whole, rule, tau = problem(scheme="iid"), Minibatches(3), 0.7
    solver = ASYSONATA(PartialLinearization(SIX * tau), 0.1, batch=3, tolerance=1e-13)
    running, steps = events(solver, Simulated((0.5, 1.5)), whole, CIRCLE), np.eye(whole.parameters)
    for _ in range(24):
        x, wakes = running.state.w.copy(), running.state.wakes.copy()
        (i,) = running.advance(1)
        batch = rule.at(whole, int(wakes[i]))
        curvature = np.array([(whole.gradient(x + e, batch) - whole.gradient(x, batch))[i] for e in steps])
        expected = x[i] - np.linalg.solve(curvature + tau * np.eye(len(steps)), running.state.z[i])
        np.testing.assert_allclose(running.state.best[i], expected, atol=1e-9)


class Watched(Exact):
    """Notes where local problems are begun, where they end and what they take; gives up at a call."""

    def __init__(self, gives_up=None):
        self.calls, self.gives_up = [], gives_up

    def solve(self, model, linear, regularizer, start, tolerance):
        if len(self.calls) == self.gives_up:
            raise LocalSolveError("it gives up")
        found, iterations = super().solve(model, linear, regularizer, start, tolerance)
        self.calls.append((start.copy(), found.copy(), int(iterations.sum())))
        return found, iterations


def watched(local):
    solver = ASYSONATA(PartialLinearization(3.0), 0.2, local, batch=4)
    return events(solver, Simulated(), problem(scheme="iid"), CIRCLE)


def test_local_problems_are_begun_where_the_last_one_ended_and_counted():
    running = watched(local := Watched())
    for _ in range(4 * SIX):
        running.advance(1)
    for before, after in zip(local.calls, local.calls[SIX:], strict=False):  # agents take turns
        np.testing.assert_array_equal(after[0], before[1])
    counts = running.counts()
    assert (counts["solves"], counts["iterations"]) == (4, sum(iterations for *_, iterations in local.calls))
    assert counts["iterations"] > 0


def test_a_local_problem_without_a_solution_names_the_wake():
    running = watched(Watched(gives_up=2 * SIX + 4))
    for _ in range(2 * SIX + 4):
        running.advance(1)
    with pytest.raises(LocalSolveError, match=r"^at its wake 3, it gives up"):
        running.advance(1)


def test_a_neighbour_counts_with_its_start_until_it_is_heard():
    """If all agree and all gradients vanish nothing moves, although no message arrives."""
    point = np.full((AGENTS, UNKNOWNS), 3.0)
    still = consensus.Problem.from_functions(
        lambda w: ((w - 3.0) ** 2).sum(axis=1), lambda w: 2 * (w - 3.0), agents=AGENTS, parameters=UNKNOWNS
    )
    running = events(STEPS, Simulated(delay=1e6), still, start=point)
    running.advance(8)
    np.testing.assert_allclose(running.state.w, point, rtol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("regularizer", [None, consensus.L2(0.1)], ids=str)
def test_partial_linearization_of_a_linear_model_ends_at_the_optimum(regularizer):
    whole = problem(regularizer=regularizer)
    solver = ASYSONATA(PartialLinearization(0.3), 0.2)
    result = consensus.solve(
        whole, CIRCLE, solver, rounds=1500, engine=Simulated((0.5, 1.5), (0.0, 2.0), 0.1), record_every=500
    )
    assert whole.stationarity(result.mean) < 1e-9
    assert result.history["disagreement"][-1] < 1e-9


@pytest.mark.slow
def test_partial_linearization_of_a_network_ends_near_the_objective_of_rounds():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 4))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
    shards = consensus.partition(X, y, agents=8, seed=0)
    whole = consensus.Problem(consensus.MLP([4, 6, 1]), consensus.SquaredLoss(), shards, consensus.L2(1e-3))
    rounds = NEXT(PartialLinearization(0.3), Diminishing(0.5, 0.005))
    expected = consensus.solve(whole, topologies.ring(8), rounds, rounds=1500, record_every=1500).history["objective"][-1]
    solver, late = ASYSONATA(PartialLinearization(0.08), 0.1), Simulated((0.5, 1.5), (0.0, 3.0), 0.2)
    result = consensus.solve(whole, GRAPH, solver, rounds=2500, engine=late, record_every=2500)
    assert result.history["objective"][-1] <= 1.02 * expected


def test_a_local_solver_of_ones_own_is_called():
    whole = problem()
    own = ASYSONATA(PartialLinearization(0.6), 0.2, local=CVXPYSolver())
    default = ASYSONATA(PartialLinearization(0.6), 0.2)
    ends = [consensus.solve(whole, CIRCLE, one, rounds=3, engine=Simulated(), start=np.ones(5)).w for one in (own, default)]
    np.testing.assert_allclose(*ends, atol=1e-5)


@pytest.mark.slow
def test_weights_of_ones_own_on_two_graphs():
    """R's arcs lead from agent 0 to all, those of C from all to agent 0."""
    out, back = np.eye(AGENTS), np.eye(AGENTS)
    for i in range(1, AGENTS):
        out[i, [i - 1, i]] = back[[i - 1, i], i] = 0.5
    both = nx.DiGraph([(i, i + 1) for i in range(AGENTS - 1)] + [(i + 1, i) for i in range(AGENTS - 1)])
    solver = ASYSONATA(FullLinearization(tau=512 * L), 0.5, weights=(out, back))
    result = consensus.solve(QUADRATICS, both, solver, rounds=3000, engine=Simulated(delay=(0.0, 2.0)), record_every=3000)
    assert abs(result.w - OPTIMUM).max() < 1e-8


def test_the_weights_are_those_of_the_degrees():
    running = events(STEPS, LATE)
    for matrix, own, others in ((R, running.arcs.r_own, running.arcs.r), (C, running.arcs.c_own, running.arcs.c)):
        np.testing.assert_allclose(own[:, 0], np.diag(matrix))
        found = np.zeros_like(matrix)
        for i, row in enumerate(running.arcs.sources):
            for place, j in enumerate(row):
                if j >= 0:
                    found[i, j] = others[i, place, 0]
        np.testing.assert_allclose(found, matrix - np.diag(np.diag(matrix)))


def test_a_rule_of_steps_goes_by_an_agent_s_own_wakes():
    rule = ASYSONATA(FullLinearization(tau=AGENTS * L), Diminishing(0.4, 0.1))
    running = events(rule, Simulated([1.0] * 7 + [10.0]))
    while running.number[-1] < 1:
        last = running.state.w[-1].copy()
        running.advance(1)
    z = C[-1, -1] * (QUADRATICS.gradient(np.ones((8, 5)))[-1] + C[-1, -2] * running.mailbox.rho[-1, 0])
    expected = R[-1, -1] * (last - 0.4 / L * z) + R[-1, -2] * running.mailbox.v[-1, 0]
    np.testing.assert_allclose(running.state.w[-1], expected, rtol=1e-12)  # the others have woken nine times


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("regularizer", [consensus.L1(0.1), consensus.Box(-1.0, 1.0)], ids=str)
def test_regularizers_that_are_not_smooth_are_refused(regularizer):
    with pytest.raises(ValueError, match=rf"ASYSONATA.* needs a smooth regularizer, and {type(regularizer).__name__}"):
        consensus.solve(problem(regularizer=regularizer), CIRCLE, STEPS, rounds=1, engine=Simulated())


@pytest.mark.parametrize(("graph", "fault"), [
    (nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 3)]), r"strongly connected graph.*4 parts: \[0\], \[1\]"),
    (topologies.RandomEdges(topologies.ring(SIX), 0.5, seed=0), "changes from round to round: give one graph"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:the network is never jointly connected")
def test_networks_without_a_way_between_all_agents_are_refused(graph, fault):
    with pytest.raises(ValueError, match=fault):
        consensus.solve(problem(), graph, STEPS, rounds=1, engine=Simulated())


def test_engines_with_rounds_refuse_it():
    with pytest.raises(TypeError, match=r"ASYSONATA wakes without rounds.*engine=consensus\.asynchronous\.Simulated"):
        consensus.solve(problem(), CIRCLE, STEPS, rounds=1)


def test_a_surrogate_that_is_not_strongly_convex_is_refused():
    """The regularizer is linearised: its curvature is none of the surrogate's."""
    with pytest.raises(ValueError, match="tau must be > 0"):
        consensus.solve(
            problem(regularizer=consensus.L2(0.1)), CIRCLE, ASYSONATA(PartialLinearization(0.0), 0.1), rounds=1, engine=LATE
        )


RING = np.eye(SIX) / 2 + np.roll(np.eye(SIX), 1, axis=0) / 2  # from each agent to the next
STARS = np.eye(SIX) * 0.5 + 0.5 * np.eye(SIX)[:, [0]] @ np.ones((1, SIX))


@pytest.mark.parametrize(("weights", "fault"), [
    ((RING,), r"must be a pair \(R, C\)"),
    ((RING[:5, :5], RING), r"R of weights must have shape \(6, 6\)"),
    ((RING, -RING), "C of weights must have entries >= 0"),
    ((2 * RING, RING), "rows of R of weights must sum to 1"),
    ((RING, RING @ np.diag([1, 1, 1, 1, 1, 2])), "columns of C of weights must sum to 1"),
    ((RING.T, RING), "from agent 1 to agent 0, and no arc leads there"),
    ((np.eye(SIX), RING), "some agent must reach all others along R"),
])  # fmt: skip
def test_weights_that_do_not_fit_are_refused(weights, fault):
    ring = nx.DiGraph([(k, (k + 1) % SIX) for k in range(SIX)])
    with pytest.raises((ValueError, TypeError), match=fault):
        consensus.solve(problem(), ring, ASYSONATA(FullLinearization(9.0), 0.1, weights=weights), rounds=1, engine=LATE)
