"""How runs end: tolerance, divergence, interruption, warnings, progress bars."""

import os
import termios
import warnings

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.solvers import DGD, NEXT, GradientTracking
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.problems import data, problem

GRAPH = topologies.erdos_renyi(6, 0.5, seed=3)
MLP = consensus.MLP([4, 5, 1])


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
