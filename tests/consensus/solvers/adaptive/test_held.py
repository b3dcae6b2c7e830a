"""What agents hold: combinations of all agents' data that their probes show."""

import numpy as np
import pytest
from exchanges import COMMON, OWN, mass_and_data, own_fit, products

import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers.adaptive import held as held_module
from consensus.solvers.adaptive.held import PROBES, Held

EVERY = OWN | COMMON


def made(schedule, exchanges):
    held = Held(StackedNetwork(schedule, np.float64), *mass_and_data(schedule.agents))
    for k in range(exchanges):
        held.mix(k)
    assert held.exchanges == exchanges
    return held


@pytest.mark.parametrize("name", EVERY)
def test_probes_say_what_the_data_are_combinations_of(name):
    """Among few agents a probe is how much of an agent's start is in what is held."""
    held, (_, data) = made(EVERY[name], 4), mass_and_data(EVERY[name].agents)
    per_mass = held.probes()[:, -1]
    np.testing.assert_allclose(held.last.data / held.last.mass, per_mass @ data, rtol=0, atol=1e-12)
    assert (held.goal == 1 / EVERY[name].agents).all()


@pytest.mark.parametrize("name", EVERY)
def test_exchanges_are_products_of_the_matrices(name):
    held, chain = made(EVERY[name], 4), products(EVERY[name], 4)
    expected = chain / chain.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(held.probes(), expected.swapaxes(0, 1), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", EVERY)
def test_estimates_are_those_of_the_best_combination(name):
    schedule = EVERY[name]
    combined, _ = own_fit(schedule, 3)  # of whatever spans the same
    _, data = mass_and_data(schedule.agents)
    np.testing.assert_allclose(made(schedule, 3).estimates(), combined @ data, rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", ["path", "periodic", "directed"])
def test_what_is_kept_does_not_grow_and_what_goes_leaves_its_best_combination(name, monkeypatch):
    monkeypatch.setattr(held_module, "_KEPT", 4)
    schedule = EVERY[name]
    held, mean = made(schedule, 0), mass_and_data(schedule.agents)[1].mean(axis=0)
    misfits, left = [], []
    for k in range(30):
        held.mix(k)
        misfits.append(held.misfit())
        left.append(np.linalg.norm(held.estimates() - mean))
        assert held.probes().shape[1] == len(held._sent) <= 4
    assert held.exchanges == 30
    # Each has all combinations before it, too, but for directions that the fit leaves out: below 1.5e-6 of the largest.
    assert (np.diff(misfits, axis=0) < 1.5e-6).all()
    assert left[-1] < 0.1 * left[1]
    np.testing.assert_allclose(held.last.data.sum(axis=0), schedule.agents * mean, rtol=0, atol=1e-9)


def test_many_agents_have_few_probes():
    schedule = topologies.Static(topologies.star(PROBES + 1))
    held = made(schedule, 1)
    assert held.last.probes.shape == (PROBES + 1, PROBES)
    start = held.probes()[:, 0]
    assert set(np.unique(start)) == {-1, 1}
    np.testing.assert_allclose(held.goal, start.mean(axis=0), rtol=0, atol=1e-15)
    np.testing.assert_allclose(held.last.probes, schedule.weights(0) @ start, rtol=0, atol=1e-12)
