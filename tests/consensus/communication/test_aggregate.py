"""What agents hear message by message is what they mix, and counts as that. ``engine_cases`` has it on all engines."""

import numpy as np
import pytest

import topologies
from consensus.communication import Messages
from consensus.communication.plans import Plans
from consensus.compression import Sparse
from consensus.engines import StackedNetwork
from tests.helpers import engine_cases

RNG = np.random.default_rng(0)
SCHEDULES = {**engine_cases.NETWORKS, "directed": topologies.Static(engine_cases.GRAPH.to_directed(), weights=topologies.push)}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_heard_mixes_to_what_mix_gives(name, dtype):
    schedule = SCHEDULES[name]
    one, other = StackedNetwork(schedule, dtype, strict=True), StackedNetwork(schedule, dtype, strict=True)
    blocks = RNG.standard_normal((7, 5)), RNG.standard_normal(7), RNG.standard_normal((7, 2, 3))
    packed = Sparse.largest(RNG.standard_normal((7, 6)).astype(dtype), 2)
    for round in range(3):
        mixed = other.mix(round, *blocks[:2], packed, beside=2)
        found = one.aggregate(round, lambda heard: heard.mixed(), *blocks[:2], packed, beside=2)
        for ours, theirs in zip(found, mixed, strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=8 * np.finfo(dtype).eps)
        (whole,) = one.aggregate(round, lambda heard: heard.mixed(), blocks[2])
        (flat,) = other.mix(round, blocks[2].reshape(7, 6))
        np.testing.assert_allclose(whole.reshape(7, 6), flat, rtol=0, atol=8 * np.finfo(dtype).eps)
    assert one.counts == other.counts
    assert one.record == other.record


def test_every_message_is_there_with_its_sender_receiver_and_weight():
    schedule, x = SCHEDULES["static"], RNG.standard_normal((7, 5))
    dense = schedule.weights(0).toarray()

    def rule(heard):
        pairs = list(zip(heard.receivers.tolist(), heard.senders.tolist(), strict=True))
        assert pairs == [(i, j) for i in range(7) for j in range(7) if i != j and dense[i, j]]
        np.testing.assert_array_equal(heard.weights, [dense[pair] for pair in pairs])
        np.testing.assert_array_equal(heard.own_weights, dense.diagonal())
        np.testing.assert_array_equal(heard.rows[heard.sources], x[heard.senders])
        np.testing.assert_array_equal(heard.differences(), x[heard.senders] - x[heard.receivers])
        return 2 * heard.own

    np.testing.assert_array_equal(StackedNetwork(schedule, float).aggregate(0, rule, x)[0], 2 * x)


@pytest.mark.parametrize("rows", [slice(2, 5), slice(5, 7)])
def test_a_block_knows_its_agents_from_their_neighbours(rows):
    schedule, x = SCHEDULES["static"], RNG.standard_normal((7, 5))
    dense, own = schedule.weights(0).toarray(), np.arange(rows.start, rows.stop)
    plan = Plans(schedule, rows, np.dtype(float), lambda whole, matrix: (matrix, None)).at(0, "mix")
    heard = Messages.of(plan, rows, x, x[rows])
    np.testing.assert_array_equal(heard.own_weights, dense.diagonal()[rows])
    pairs = list(zip(own[heard.receivers].tolist(), heard.senders.tolist(), strict=True))
    assert pairs == [(i, j) for i in own.tolist() for j in range(7) if i != j and dense[i, j]]
    np.testing.assert_allclose(heard.mixed(), dense[rows] @ x, atol=1e-14)
