"""solve(): what it records, what it refuses, when it stops, and how runs end."""

import itertools
import os
import termios
import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

import consensus
import topologies
from consensus.solvers import DGD, NEXT, SONATA, GradientTracking, PushDIGing, Solver
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.problems import CIRCLE, data, problem

GRAPH = topologies.erdos_renyi(6, 0.5, seed=3)
MLP = consensus.MLP([4, 5, 1])
NETWORKS = {"static": topologies.Static(GRAPH), "random": topologies.RandomEdges(GRAPH, 0.5, seed=1)}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("solver", [
    NEXT(PartialLinearization(0.5), Diminishing(0.5, 0.01)),
    NEXT(FullLinearization(4.0), 0.5),
    GradientTracking(0.1),
    DGD(0.1),
])  # fmt: skip
def test_same_seed_same_history_to_the_bit(solver, network):
    def run(seed):
        p = problem("squared", consensus.L2(0.02), MLP)
        return consensus.solve(p, NETWORKS[network], solver, rounds=20, seed=seed)

    first, second, other = run(5), run(5), run(6)
    np.testing.assert_array_equal(first.w, second.w)
    for column in set(first.history) - {"seconds"}:
        np.testing.assert_array_equal(first.history[column], second.history[column])
    assert not np.array_equal(first.w, other.w)


def test_columns_measure_what_they_say():
    p = problem("squared", consensus.L1(0.02), MLP)
    X, y = data()
    solver = NEXT(FullLinearization(4.0), 0.5)
    result = consensus.solve(p, NETWORKS["static"], solver, rounds=7, record_every=3, test=(X, y), agent_objectives=True)
    history, w = result.history, result.w
    assert history["round"].tolist() == [0, 3, 6, 7]
    mean = w.mean(axis=0)
    outputs = MLP.predict(w, np.broadcast_to(X, (6, *X.shape)))[:, :, 0]
    residual = MLP.predict(mean, X)[:, 0] - y
    last = history.last()
    assert last["objective"] == pytest.approx(0.5 * np.mean(residual**2) + 0.02 * np.abs(mean).sum(), rel=1e-12)
    assert last["disagreement"] == pytest.approx(np.sqrt(((w - mean) ** 2).sum(axis=1).mean()), rel=1e-12)
    assert last["test_error"] == pytest.approx(np.mean(residual**2), rel=1e-12)
    assert last["test_error_worst"] == pytest.approx(((outputs - y) ** 2).mean(axis=1).max(), rel=1e-12)
    expected = 0.5 * ((outputs - y) ** 2).mean(axis=1) + 0.02 * np.abs(w).sum(axis=1)
    np.testing.assert_allclose(last["agent_objective"], expected, rtol=1e-12)
    step = mean - np.sum([p.gradient(np.tile(mean, (6, 1)))], axis=1)[0]
    prox = np.sign(step) * np.maximum(np.abs(step) - 0.02, 0)
    assert last["stationarity"] == pytest.approx(np.linalg.norm(mean - prox), rel=1e-12)


def test_communication_and_work_are_counted():
    edges, p = GRAPH.number_of_edges(), problem("squared", consensus.L2(0.02), MLP)
    for solver, exchanges, blocks in (
        (NEXT(FullLinearization(4.0), 0.5), 1, 2),
        (GradientTracking(0.1, order="cta"), 1, 2),
        (GradientTracking(0.1, order="atc"), 2, 2),
        (DGD(0.1), 1, 1),
    ):
        last = consensus.solve(p, GRAPH, solver, rounds=10).history.last()
        assert last["exchanges"] == 10 * exchanges
        assert last["messages"] == 10 * exchanges * 2 * edges
        assert last["floats"] == 10 * blocks * 2 * edges * p.parameters
        assert last["gradients"] == (10 if isinstance(solver, DGD) else 11)
        assert last["solves"] == (10 if isinstance(solver, NEXT) else 0)


def test_messages_of_a_random_schedule_are_the_edges_that_were_there():
    p, network = problem("squared", consensus.L2(0.02)), NETWORKS["random"]
    history = consensus.solve(p, network, DGD(0.05), rounds=12, record_every=1).history
    up = [network.graph(round).number_of_edges() for round in range(12)]
    assert history["messages"].tolist() == [0, *(2 * n for n in itertools.accumulate(up))]


def test_a_graph_stands_for_a_static_schedule():
    p = problem("squared", consensus.L2(0.02))
    np.testing.assert_array_equal(
        consensus.solve(p, GRAPH, DGD(0.1), rounds=5).w, consensus.solve(p, NETWORKS["static"], DGD(0.1), rounds=5).w
    )


def test_a_function_of_the_round_is_asked_once_for_each_round():
    asked = []

    def pair(round):
        asked.append(round)
        graph = nx.empty_graph(6)
        graph.add_edge(round % 6, (round + 1) % 6)
        return graph

    network = topologies.Sequence(pair, agents=6, horizon=30)
    for solver in (DGD(0.01), GradientTracking(0.01)):
        consensus.solve(problem(), network, solver, rounds=50)
        assert sorted(asked) == list(range(50))


def test_start():
    p = problem("squared", consensus.L2(0.02), MLP)
    point = np.linspace(-1, 1, p.parameters)
    result = consensus.solve(p, GRAPH, DGD(0.1), rounds=0, start=point)
    np.testing.assert_array_equal(result.w, np.tile(point, (6, 1)))
    np.testing.assert_array_equal(result.mean, point)
    assert result.history["disagreement"].tolist() == [0.0]
    drawn = consensus.solve(p, GRAPH, DGD(0.1), rounds=0, seed=4).mean
    np.testing.assert_array_equal(drawn, MLP.init(np.random.default_rng(4)))
    stack = np.random.default_rng(0).standard_normal((6, p.parameters))
    np.testing.assert_array_equal(consensus.solve(p, GRAPH, DGD(0.1), rounds=0, start=stack).w, stack)


def test_a_run_does_not_touch_its_start():
    p = problem("squared", consensus.L2(0.02))
    start = np.ones((6, 5))
    consensus.solve(p, GRAPH, GradientTracking(0.1), rounds=3, start=start)
    np.testing.assert_array_equal(start, 1)


def test_float32_data_give_a_float32_run():
    X, y = data()
    shards = consensus.partition(X.astype(np.float32), y, 6)
    p = consensus.Problem(MLP, consensus.SquaredLoss(), shards, consensus.L2(0.02))
    for solver in (NEXT(PartialLinearization(0.5), Diminishing(0.5, 0.01)), GradientTracking(0.1), DGD(0.1)):
        assert consensus.solve(p, GRAPH, solver, rounds=3).w.dtype == np.float32


@pytest.mark.slow
def test_classification_errors_are_fractions_of_wrong_labels():
    X, _ = data()
    p = problem("classes", consensus.L2(0.01))
    labels = p.shards.targets[p.shards.indices >= 0, 0]
    samples = p.shards.features[p.shards.indices >= 0]
    result = consensus.solve(p, GRAPH, GradientTracking(0.3), rounds=3000, record_every=3000, test=(samples, labels))
    # The intercept is regularized here, so give scikit-learn a constant feature in its place.
    design = np.column_stack([samples, np.ones(len(X))])
    reference = LogisticRegression(C=1 / (0.01 * 60), fit_intercept=False, tol=1e-10, max_iter=1000).fit(design, labels)
    assert result.history["test_error"][-1] == pytest.approx(1 - reference.score(design, labels), abs=1e-12)
    np.testing.assert_allclose(result.mean.reshape(5, 3), reference.coef_.T, rtol=0, atol=1e-4)


class Mine(Solver):
    """A user's own solver: each agent keeps its start, averaged."""

    def init(self, problem, w):
        from consensus.solvers.dgd import DGDState

        return DGDState(0, w)

    def step(self, problem, network, state):
        (w,) = network.mix(state.round, state.w)
        return state._replace(round=state.round + 1, w=w)


def test_a_solver_of_ones_own():
    p = problem("squared")
    start = np.random.default_rng(0).standard_normal((6, 5))
    result = consensus.solve(p, GRAPH, Mine(), rounds=300, start=start)
    np.testing.assert_allclose(result.w, np.tile(start.mean(axis=0), (6, 1)), rtol=0, atol=1e-13)


def unbalanced(graph):
    matrix = topologies.metropolis(graph)
    return matrix.multiply(np.linspace(1, 2, 6)[:, None]).tocsr()


def column_stochastic(graph):
    return sp.csr_array(nx.to_numpy_array(graph, nodelist=range(6)).T / 2 + np.eye(6) / 2)


@pytest.mark.parametrize(("change", "error", "match"), [
    ({"network": topologies.ring(5)}, ValueError, "network has 5 agents, the problem 6"),
    ({"network": nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)])}, ValueError, "undirected"),
    ({"network": topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 2)]), weights=column_stochastic)},
     ValueError, r"DGD needs doubly stochastic.*(row|column) \d"),
    ({"network": topologies.Static(GRAPH, weights=unbalanced)}, ValueError, "row 5 of round 0 sums to 2"),
    ({"rounds": -1}, ValueError, "rounds must be a whole number >= 0; got -1"),
    ({"record_every": 0}, ValueError, "record_every must be a whole number >= 1; got 0"),
    ({"tolerance": 0.0}, ValueError, "tolerance"),
    ({"engine": "cloud"}, ValueError, "engine must be one of 'stacked'"),
    ({"start": np.zeros(4)}, ValueError, r"\(5,\) or \(agents, P\) = \(6, 5\); got \(4,\)"),
    ({"start": np.full(5, np.nan)}, ValueError, "start must hold finite"),
    ({"start": {"weight": np.zeros(5)}}, ValueError, r"got \{'weight': .*models.Torch\(module\) begins at the parameters of"),
    ({"test": (np.zeros((3, 2)), np.zeros(3))}, ValueError, r"test features must have shape \(4,\) a sample.*got \(2,\)"),
])  # fmt: skip
def test_bad_input(change, error, match):
    arguments = {"network": GRAPH, "rounds": 5} | change
    with pytest.raises(error, match=match):
        consensus.solve(problem("squared", consensus.L2(0.1)), arguments.pop("network"), DGD(0.1), **arguments)


@pytest.mark.parametrize("solver", [SONATA(FullLinearization(20.0), 0.5), PushDIGing(0.01)], ids=repr)
def test_a_directed_graph_has_the_weights_that_methods_for_directed_graphs_mix_with(solver):
    whole, pushed = problem(), topologies.Static(CIRCLE, weights=topologies.push)
    given, graph = (consensus.solve(whole, network, solver, rounds=5, start=np.ones(5)) for network in (pushed, CIRCLE))
    assert graph.w.tobytes() == given.w.tobytes()


# How runs end: tolerance, divergence, interruption, warnings, progress bars.


def test_tolerance_stops_at_the_first_recorded_round_that_meets_it():
    p = problem("squared", consensus.L2(0.1))
    solver = GradientTracking(0.05)
    full = consensus.solve(p, GRAPH, solver, rounds=400, record_every=10).history
    met = np.maximum(full["stationarity"], full["disagreement"]) <= 1e-3
    result = consensus.solve(p, GRAPH, solver, rounds=400, record_every=10, tolerance=1e-3)
    assert result.rounds == full["round"][met.argmax()] < 400
    assert "1e-3" in result.reason.replace("0.001", "1e-3")
    np.testing.assert_array_equal(result.history["objective"], full["objective"][: met.argmax() + 1])


@pytest.mark.parametrize(
    "solver", [DGD(1e3), NEXT(FullLinearization(1e-4), 1.0), NEXT(PartialLinearization(1e-9, "local"), 1.0)]
)
def test_divergence_keeps_the_history(solver):
    X, y = data()
    p = consensus.Problem(
        consensus.MLP([4, 5, 1], "quadratic"),
        consensus.SquaredLoss(),
        consensus.partition(X, y, 6, "sorted"),
        consensus.L2(1e-3),
    )
    with pytest.raises(consensus.DivergenceError, match=r"diverged in round \d+.*1e150.*smaller step") as caught:
        consensus.solve(p, GRAPH, solver, rounds=3000, record_every=1)
    error = caught.value
    assert type(solver).__name__ in str(error)
    assert error.solver is solver
    assert error.history.rows == error.round >= 1
    assert error.history["round"].tolist() == list(range(error.round))


def test_a_gradient_that_is_no_number_at_the_start_leads_to_the_costs_and_not_to_the_step_alone():
    p = consensus.Problem.from_functions(
        lambda w: np.sqrt(w - 2).sum(axis=1), lambda w: 0.5 / np.sqrt(w - 2), agents=6, parameters=1
    )
    with pytest.raises(consensus.DivergenceError, match=r"round 1: .* gradients at the start: are they finite\?") as caught:
        consensus.solve(p, GRAPH, DGD(0.1), rounds=5, start=np.ones(1))
    assert caught.value.history.rows == 1


@pytest.mark.parametrize("sign", [1, -1])
def test_too_large_is_divergence_too(sign):
    grow = consensus.Problem.from_functions(lambda w: -(w**2).sum(axis=1), lambda w: -2.0 * w, agents=6, parameters=1)
    with pytest.raises(consensus.DivergenceError, match=r"round 30: [^?]*\. Take a smaller step") as caught:
        consensus.solve(grow, GRAPH, DGD(1e4), rounds=100, start=sign * np.ones(1))
    # Each round multiplies by 1 + 1.2e5, so 1e150 is passed in round 30.
    assert caught.value.round == 30


class _InterruptedRound(DGD):
    def step(self, problem, network, state):
        if state.round == 3:
            raise KeyboardInterrupt
        return super().step(problem, network, state)


def test_interruption_keeps_everything():
    p = problem("squared", consensus.L2(0.02))
    with pytest.raises(KeyboardInterrupt, match="after round 3") as caught:
        consensus.solve(p, GRAPH, _InterruptedRound(0.1), rounds=10, record_every=1)
    result = caught.value.result
    assert result.history["round"].tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(result.w, consensus.solve(p, GRAPH, DGD(0.1), rounds=3).w)


def test_the_progress_bar_is_silent_without_a_terminal(capfd):
    p = problem("squared", consensus.L2(0.02))
    consensus.solve(p, GRAPH, DGD(0.1), rounds=5, progress=True)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_the_progress_bar_shows_on_a_terminal(monkeypatch):
    primary, secondary = os.openpty()
    termios.tcsetwinsize(secondary, (24, 80))
    with os.fdopen(secondary, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        consensus.solve(problem("squared", consensus.L2(0.02)), GRAPH, DGD(0.1), rounds=5, progress=True)
        terminal.flush()
        shown = ""
        while "5/5" not in shown:  # comes in pieces; a test that waits for ever is ended from outside
            shown += os.read(primary, 100_000).decode()
    os.close(primary)
    assert "DGD" in shown
    assert "5/5" in shown


def test_a_run_that_ends_above_its_start_is_warned_of(forked):
    p = problem("squared", consensus.L2(0.02), MLP)
    with pytest.warns(
        UserWarning, match=r"ended above its start: the objective was .* and is .* now\. Take a smaller"
    ) as caught:
        history = consensus.solve(p, GRAPH, GradientTracking(5.0, batch=4), rounds=3).history
    first, *_, last = history["objective"]
    assert f"was {first:.6g} and is {last:.6g} now" in str(caught[0].message)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="^SynchronousSGD.* ended above its start"):
        consensus.centralized.solve(p, consensus.centralized.SynchronousSGD(4, 5.0), rounds=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        consensus.solve(p, GRAPH, GradientTracking(0.05), rounds=3)


def test_disconnected_networks_are_warned_of():
    p = problem("squared", consensus.L2(0.1))
    graph = nx.disjoint_union(topologies.ring(4), topologies.path(2))
    with pytest.warns(UserWarning, match=r"never jointly connected.*2 parts of sizes \[4, 2\] \(agents "):
        consensus.solve(p, graph, DGD(0.1), rounds=1)
