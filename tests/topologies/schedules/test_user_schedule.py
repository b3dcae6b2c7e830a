"""A user's schedule with the required members of ScheduleLike alone."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

import consensus
import topologies
from consensus.solvers import GradientTracking
from consensus.testing import check_schedule


@dataclass(frozen=True)
class Visits:
    """In every round a random agent is the centre of a star, with Metropolis weights."""

    agents: int
    seed: int = 0

    def key(self, round):
        return int(np.random.default_rng([self.seed, round]).integers(self.agents))

    def weights(self, key):
        matrix = np.eye(self.agents)
        matrix[key] = matrix[:, key] = 1 / self.agents
        others = np.arange(self.agents) != key
        matrix[others, others] -= 1 / self.agents
        return sparse.csr_array(matrix)


NETWORK: topologies.ScheduleLike = Visits(agents=8, seed=1)


def test_its_conditions_and_its_gap_are_those_of_a_star():
    check_schedule(NETWORK, mixing="symmetric")
    found = topologies.conditions(NETWORK)
    assert found.positive_diagonal
    assert (found.period, found.window, found.components, found.static) == (None, 1, 1, False)
    # W = I - L / A, with L the Laplacian of a star, whose eigenvalues are 0, 1 (A - 2 times) and A.
    assert topologies.spectral_gap(NETWORK.weights(3)) == pytest.approx(1 / 8, rel=1e-12)
    star = np.zeros((8, 8))
    star[3] = star[:, 3] = np.arange(8) != 3
    np.testing.assert_allclose(NETWORK.weights(3).toarray(), topologies.metropolis(star).toarray(), rtol=0, atol=1e-15)


def test_a_solver_runs_on_it():
    targets = np.random.default_rng(0).standard_normal((8, 3))
    problem = consensus.Problem.from_functions(
        lambda w: ((w - targets) ** 2).sum(axis=1) / 2, lambda w: w - targets, agents=8, parameters=3
    )
    result = consensus.solve(problem, NETWORK, GradientTracking(0.1), rounds=200, engine="stacked")
    np.testing.assert_allclose(result.w, np.tile(targets.mean(axis=0), (8, 1)), rtol=0, atol=1e-12)
