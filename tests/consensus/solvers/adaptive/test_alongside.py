"""Blocks in twelve bits beside exchanges: their sums are kept, and estimates of them are as near as twelve bits allow."""

import numpy as np
import pytest
from exchanges import OWN, mass_and_data

from consensus.engines.stacked import StackedNetwork
from consensus.packing import Quantised
from consensus.solvers.adaptive.alongside import Alongside
from consensus.solvers.adaptive.first_exchanges import find_pace

P, COUNT = 9, 4


@pytest.mark.parametrize("name", OWN)
def test_sums_are_kept_and_estimated(name):
    schedule = OWN[name]
    A, network = schedule.agents, StackedNetwork(schedule, np.float64)
    blocks = np.random.default_rng(0).standard_normal((A, P, COUNT))
    along, plain = Alongside(network, blocks), StackedNetwork(schedule, np.float64)
    mass, data = mass_and_data(A)
    held = find_pace(along, mass, data, 0.05)[0]
    alone = find_pace(plain, mass, data, 0.05)[0]
    np.testing.assert_array_equal(held.estimates(), alone.estimates())  # what it goes with notices nothing
    exact = blocks.sum(axis=0)
    for q in along._held:
        np.testing.assert_allclose(q.sum(axis=0), exact, rtol=0, atol=1e-12)
    assert np.abs(along._held[-1] - blocks).max() > 0.1  # they mix
    off = np.linalg.norm(along.total() - exact, axis=(1, 2)) / np.linalg.norm(exact)
    assert off.max() < 0.2  # the misfit of the averages, and twelve bits
    assert network.exchanges == plain.exchanges
    message = len(Quantised.nearest(blocks.reshape(A, -1), 12).codes[0]) + 8
    assert network.bytes - plain.bytes == network.messages * message == network.messages * (P * COUNT * 3 // 2 + 8)
