"""Noise on messages: what it changes, and what tracking conserves under it."""

from typing import NamedTuple

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes
from consensus.solvers import DGD, GradientTracking, Needs, PushPull, Solver
from consensus.studies import Gaussian, NoisyMessages, Rounding
from tests.helpers.refusals import refusals

CENTRES = np.random.default_rng(0).standard_normal((6, 3))
PROBLEM = consensus.Problem.from_functions(
    lambda w, rows: ((w - CENTRES[rows]) ** 2).sum(axis=1), lambda w, rows: 2 * (w - CENTRES[rows]), agents=6, parameters=3
)
RING = topologies.ring(6)


def last(solver, rounds, **options):
    return consensus.solve(PROBLEM, RING, solver, rounds=rounds, start=np.ones(3), **options)


def test_without_noise_it_is_the_method():
    plain, quiet = last(GradientTracking(0.05), 30), last(NoisyMessages(GradientTracking(0.05), Gaussian(0.0)), 30)
    assert np.allclose(plain.w, quiet.w, rtol=0, atol=1e-13)


class State(NamedTuple):
    round: int
    w: np.ndarray


class Averaging(Solver):
    needs = Needs()

    def init(self, problem, w):
        return State(0, w)

    def step(self, problem, network, state):
        return State(state.round + 1, *network.mix(state.round, state.w))


@pytest.mark.filterwarnings("ignore:.* ended above its start")
def test_an_exchange_with_rounding_by_hand():
    W = topologies.metropolis(RING).toarray()
    w = np.random.default_rng(1).standard_normal((6, 3))
    found = consensus.solve(PROBLEM, RING, NoisyMessages(Averaging(), Rounding(0.5)), rounds=1, start=w).w
    own = np.diag(np.diag(W))
    assert np.allclose(found, own @ w + (W - own) @ (np.round(w / 0.5) * 0.5), rtol=0, atol=1e-14)


def test_the_sum_over_agents_walks_at_random_by_the_weights_of_others():
    """Each round adds sum_j (1 - W_jj) e_j: on a ring of six, with W_jj = 1 / 3, a variance of 6 (2 / 3)^2 s^2."""
    problem = consensus.Problem.from_functions(lambda w: 0 * w[:, 0], lambda w: 0 * w, agents=6, parameters=20_000)
    noisy, deviation = NoisyMessages(Averaging(), Gaussian(0.1), seed=7), 0.1
    for rounds in (1, 9):
        total = consensus.solve(problem, RING, noisy, rounds=rounds, start=np.zeros(20_000)).w.sum(axis=0)
        assert abs(total.var() / (rounds * 6 * (2 / 3) ** 2 * deviation**2) - 1) < 0.05


@pytest.mark.slow
def test_tracking_does_not_come_back_and_dgd_does():
    """The trackers' sum is off for good: the mean goes on drifting, while that of DGD stays near the optimum."""
    off = {}
    for name, solver in (("tracking", GradientTracking(0.05)), ("DGD", DGD(0.05))):
        result = last(NoisyMessages(solver, Gaussian(1e-2)), 1600, record_every=4)
        off[name] = result.history["stationarity"]
    assert np.median(off["tracking"][-50:]) > 1.7 * np.median(off["tracking"][5:20])
    assert np.median(off["DGD"][-50:]) < 1.3 * np.median(off["DGD"][5:20])


@pytest.mark.slow
def test_engines_and_seeds():
    noisy = NoisyMessages(GradientTracking(0.05), Gaussian(0.01), seed=4)
    one, other = last(noisy, 10), last(noisy, 10, engine=Processes(2))
    assert (one.w == other.w).all()
    assert (last(NoisyMessages(GradientTracking(0.05), Gaussian(0.01), seed=5), 10).w != one.w).any()


@pytest.mark.parametrize("noise", [Gaussian(0.1), Rounding(0.1)])
def test_what_is_sent_is_checked(noise):
    with pytest.raises(TypeError, match="rows must be an array of real numbers"):
        noise.received(None, np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"draws must have the shape of rows, \(2, 3\); got \(3,\)"):
        noise.received(np.ones((2, 3)), np.ones(3))


test_refusals = refusals(
    (lambda: NoisyMessages(PushPull(0.1), Gaussian(0.1)), TypeError, "doubly stochastic"),
    (lambda: NoisyMessages(DGD(0.1), 0.1), TypeError, "noise must be Gaussian"),
    (lambda: Gaussian(-1.0), ValueError, "deviation"),
    (lambda: Rounding(0.0), ValueError, "step"),
)
