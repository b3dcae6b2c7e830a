"""Recorded rounds, counts and measured quantities; bounds that stop a run."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.observe import Due, total
from consensus.observe.gather import NAMES
from consensus.observe.measure import agents_mean, squared_distances
from consensus.observe.recorder import Recorder
from consensus.observe.stopping import Stopper
from consensus.solvers import DGD
from tests.helpers.problems import problem

RING = topologies.ring(6)


def test_due_rounds():
    due = Due(rounds=10, saves=4, next=3)
    assert [round for round in range(11) if due.recorded(round)] == [3, 4, 5, 6, 7, 8, 9, 10]  # one of them, and next moves on
    late = Due(rounds=100, every=10, next=30)
    assert [late.passed(round) for round in (29, 30, 73, 100)] == [None, 30, 70, 100]
    assert late.recorded(70)  # workers that never stop may have passed the next one
    assert [round for round in range(11) if due.saved(round)] == [0, 4, 8, 10]
    assert [round for round in range(11) if due(round)] == [0, 3, 4, 8, 10]
    assert not Due(rounds=10).saved(10)


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        ({}, None),
        ({"tolerance": 1e-3, "exchanges": 15, "seconds": 3.5}, None),
        ({"tolerance": 2e-3, "exchanges": 14}, "stationarity and disagreement at most 0.002 at round 7"),
        ({"exchanges": 14, "seconds": 3.0}, "14 exchanges done at round 7"),
        ({"seconds": 3.0}, "time budget of 3 s used up at round 7"),
    ],
)
def test_the_first_bound_that_is_reached_is_the_reason(bounds, reason):
    row = {"round": 7, "stationarity": 1e-3, "disagreement": 2e-3, "exchanges": 14, "seconds": 3.0}
    assert Stopper(**bounds).reason(row) == reason


def test_counts_of_blocks_are_summed_unless_they_are_those_of_each_agent():
    blocks = [{name: 10 * k + block for k, name in enumerate(NAMES)} for block in (1, 2)]
    each = ("exchanges", "gradients", "solves")
    assert total(blocks) == {name: 10 * k + 1 if name in each else 20 * k + 3 for k, name in enumerate(NAMES)}


def test_epochs_are_passes_over_the_data_of_all_agents():
    p = problem()
    recorder = Recorder(p, DGD(0.1))
    recorder.attach(p.restrict([0, 1]), recorder.gather)  # the block of a worker or rank
    counts = dict.fromkeys(NAMES, 0) | {"samples": 2 * p.shards.samples, "gradients": 2}
    assert recorder.record(0, np.zeros((2, p.parameters)), np.zeros(p.parameters), None, counts, 0.0)["epochs"] == 2


def test_test_errors_of_the_mean_and_of_the_worst_agent():
    p, w = problem(), np.random.default_rng(0).standard_normal((6, 5))
    X, y = np.random.default_rng(1).standard_normal((9, 4)), np.arange(9.0)
    history = consensus.solve(p, RING, DGD(0.1), rounds=0, start=w, test=(X, y)).history
    errors = ((X @ w[:, :4].T + w[:, 4] - y[:, None]) ** 2).mean(axis=0)
    assert history["test_error_worst"][0] == pytest.approx(errors.max(), rel=1e-12)
    assert history["test_error"][0] == pytest.approx(((X @ w.mean(axis=0)[:4] + w.mean(axis=0)[4] - y) ** 2).mean(), rel=1e-12)


def test_seconds_of_a_resumed_run_include_those_before_the_checkpoint(tmp_path):
    path = tmp_path / "run.ckpt"
    before = consensus.solve(problem(), RING, DGD(0.05), rounds=6, checkpoint=path).history["seconds"]
    with np.load(path) as file:
        np.testing.assert_array_equal(file["history.seconds"], before)
    resumed = consensus.solve(problem(), RING, DGD(0.05), rounds=9, resume=path).history["seconds"]
    assert (np.diff(resumed) >= 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("agents", [3, 6, 7, 49])
def test_agents_that_agree_have_their_point_as_mean_and_no_disagreement(agents, dtype):
    point = np.random.default_rng(agents).standard_normal(100).astype(dtype)
    w = np.tile(point, (agents, 1))
    np.testing.assert_array_equal(agents_mean(w), point)
    assert not squared_distances(w, agents_mean(w)).any()
