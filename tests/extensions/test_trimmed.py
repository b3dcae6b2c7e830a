"""An aggregation rule of one's own, in a file of its own: trimmed.py."""

from pathlib import Path

import numpy as np
from scipy.stats import trim_mean

import consensus
import topologies
from consensus.robust import Attack
from consensus.solvers import DGD, Gossip
from consensus.testing import check_robust, check_solver
from tests.extensions import trimmed
from tests.extensions.trimmed import TrimmedMean

COMPLETE = topologies.Static(topologies.complete(9))
CENTRES = np.random.default_rng(0).standard_normal((9, 3))


def test_it_is_one_short_file():
    assert len(Path(trimmed.__file__).read_text().splitlines()) < 60


def test_it_keeps_the_contract():
    assert "with byzantine_weight=0 the rule is W x" in check_robust(TrimmedMean(DGD(0.1), 2 / 9)).errors
    check_robust(TrimmedMean(DGD(0.1), 0.1))
    check_solver(TrimmedMean(Gossip(DGD(0.1), 2), 0.2), network=COMPLETE)


def test_on_a_complete_graph_it_is_the_trimmed_mean_of_the_others():
    problem = consensus.Problem.from_functions(lambda w: 0 * w[:, 0], lambda w: 0 * w, agents=9, parameters=3)
    found = consensus.solve(problem, COMPLETE, TrimmedMean(DGD(0.1), 2 / 9), rounds=1, start=CENTRES).w
    for agent, own in enumerate(CENTRES):
        others = trim_mean(np.delete(CENTRES, agent, axis=0), 2 / 8)  # of 4 entries
        np.testing.assert_allclose(found[agent], own + 4 / 9 * (others - own), rtol=0, atol=1e-14)


def test_honest_agents_stay_among_their_centres():
    problem = consensus.Problem.from_functions(
        lambda w, rows: ((w - CENTRES[rows]) ** 2).sum(axis=1) / 18,
        lambda w, rows: (w - CENTRES[rows]) / 9,
        agents=9,
        parameters=3,
    )

    def far(messages, byzantine):
        return np.full((byzantine.sum(), 3), 1e6)

    solver = Attack(TrimmedMean(DGD(0.1), 2 / 9), byzantine=[2, 5], attack=far)
    result = consensus.solve(problem, COMPLETE, solver, rounds=300)
    honest = np.delete(CENTRES, [2, 5], axis=0)
    assert (honest.min(axis=0) < result.mean).all()
    assert (result.mean < honest.max(axis=0)).all()
