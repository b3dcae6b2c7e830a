"""The agents' own estimate of the spectral gap."""

import numpy as np
import pytest

import topologies

GRAPHS = {
    "ring": topologies.ring(12),
    "grid": topologies.grid(3, 4),
    "random": topologies.erdos_renyi(15, 0.3, seed=1),
    "path": topologies.path(7),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_every_agent_comes_close_to_the_gap(name):
    schedule = topologies.Static(GRAPHS[name])
    found = topologies.estimate_gap(schedule, exchanges=400)
    np.testing.assert_allclose(found.gaps, topologies.spectral_gap(schedule.weights(0)), rtol=2e-2)
    assert found.exchanges == 400
    assert found.floats == 200 * 8 + 200 * 200


def test_a_power_iteration_errs_on_the_side_of_a_large_gap():
    schedule = topologies.Static(topologies.path(20))
    gap = topologies.spectral_gap(schedule.weights(0))
    short, long = (topologies.estimate_gap(schedule, exchanges=n).gaps.mean() for n in (40, 800))
    assert gap * (1 - 1e-9) <= long < short


def test_complete_graphs_agree_at_once():
    assert topologies.estimate_gap(topologies.Static(topologies.complete(6))).gaps.min() > 1 - 1e-12


def test_bad_input():
    with pytest.raises(ValueError, match="exchanges"):
        topologies.estimate_gap(topologies.Static(topologies.ring(4)), exchanges=3)
