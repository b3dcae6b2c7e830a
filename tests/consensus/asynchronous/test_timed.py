"""Solvers with rounds under the simulated clock."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.asynchronous import Simulated
from consensus.solvers import DGD, NEXT, Gossip
from consensus.surrogates import PartialLinearization
from tests.helpers.problems import AGENTS, problem


def test_a_round_lasts_as_long_as_its_slowest_agent_and_message():
    whole, ring = problem(), topologies.ring(AGENTS)
    delay = np.full((AGENTS, AGENTS), 0.25)
    delay[2, 3] = 2.0
    descent = DGD(0.02)
    plain = consensus.solve(whole, ring, descent, rounds=5)
    timed = consensus.solve(
        whole, ring, descent, rounds=5, record_every=1, engine=Simulated([1.0, 3.0, 1.0, 1.0, 1.0, 1.0], delay)
    )
    assert timed.w.tobytes() == plain.w.tobytes()
    np.testing.assert_allclose(timed.history["clock"], 5.0 * np.arange(6))
    np.testing.assert_array_equal(timed.history["wakes"], AGENTS * np.arange(6))
    several = consensus.solve(whole, ring, Gossip(descent, 3), rounds=5, record_every=1, engine=Simulated(1.0, 0.25))
    np.testing.assert_allclose(several.history["clock"], 1.75 * np.arange(6))
    assert repr(timed.solver) == repr(descent)


def test_a_lost_message_of_a_round_is_sent_again():
    history = consensus.solve(
        problem(),
        topologies.ring(AGENTS),
        DGD(0.02),
        rounds=200,
        engine=Simulated(1.0, 0.5, loss=0.5),
        record_every=200,
    ).history
    assert 0.8 < history["lost"][-1] / (200 * 2 * AGENTS) < 1.2  # one half, one quarter, ...
    assert history["clock"][-1] > 200 * (1 + 2 * 0.5)


def test_rounds_under_the_clock_go_on_from_a_checkpoint(tmp_path):
    whole, ring, solver = problem(), topologies.ring(AGENTS), NEXT(PartialLinearization(1.0), 0.3)
    clock = Simulated((0.5, 1.5), (0.0, 1.0), 0.2)
    once = consensus.solve(whole, ring, solver, rounds=12, engine=clock)
    consensus.solve(whole, ring, solver, rounds=5, engine=clock, checkpoint=tmp_path / "run")
    again = consensus.solve(whole, ring, solver, rounds=12, engine=clock, resume=tmp_path / "run")
    assert again.w.tobytes() == once.w.tobytes()
    np.testing.assert_array_equal(again.history["clock"], once.history["clock"])


def test_networks_that_change_are_refused():
    changing = topologies.RandomEdges(topologies.ring(AGENTS), 0.5, seed=0)
    with pytest.raises(ValueError, match="Simulated needs a network that does not change"):
        consensus.solve(problem(), changing, DGD(0.02), rounds=1, engine=Simulated())
