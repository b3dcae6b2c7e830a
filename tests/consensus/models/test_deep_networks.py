"""Five kinds of deep networks against loops by hand in their frameworks, on graphs that stand still and that change."""

import functools

import numpy as np
import pytest

from experiments.benchmarks import deep
from experiments.benchmarks.networks import NETWORKS

SMALL, ROUNDS = True, 6


@functools.cache  # compiled once
def network_and_problem(name):
    network = NETWORKS[name](8, SMALL)
    return network, deep.problem_of(network)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", deep.SCHEDULES)
@pytest.mark.parametrize("name", NETWORKS)
def test_single_precision_rounds_are_those_by_hand(name, schedule):
    pytest.importorskip("jax" if name == "GPT" else "torch")
    (network, problem), graphs = network_and_problem(name), deep.SCHEDULES[schedule](8)
    run = deep.run_of(network, graphs, ROUNDS)
    found, by_hand = deep.ours(network, problem, graphs, run)[0], network.rounds(run)
    assert found.dtype == by_hand.dtype == np.float32
    assert np.abs(by_hand - run.start).max() > 1e-3 * np.abs(by_hand).max()  # they moved
    assert np.ptp(by_hand, axis=0).max() > 0
    np.testing.assert_allclose(found, by_hand, rtol=0, atol=1e-6 * np.abs(by_hand).max())
