"""Methods with minibatches: batches that are whole shards, what trackers keep, what is counted, and settings."""

from functools import partial

import numpy as np
import pytest

import consensus
import topologies
from consensus import Minibatches, solvers
from consensus.compression import Quantize, TopK
from consensus.step_sizes import CosineAnnealing
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.engine_harness import assert_same
from tests.helpers.problems import PUSH, problem
from tests.helpers.refusals import refusals
from tests.helpers.steps_by_hand import MLP, SCHEDULES, states
from tests.helpers.stochastic import LAZY, RULE, assert_equal_methods, curved

P = curved()
FULL = FullLinearization(1.0)

DESCENT = "D2 DecentLaM DGD DSGDm GradientTracking GTHSGD GTSARAH GTVR KGT LED QGDSGDm RelaySGD SGP"
SURROGATES = (FullLinearization(2.0), PartialLinearization(0.5), PartialLinearization(0.3, "local"))
COMPRESSED = [partial(getattr(solvers, name), Quantize(4)) for name in ("BEER", "CGT", "ChocoSGD", "LEAD", "MoTEF")]
BATCHED = [partial(getattr(solvers, name), 0.02) for name in DESCENT.split()]
BATCHED += [partial(make, 0.02) for make in COMPRESSED]
BATCHED += [partial(kind, surrogate, 0.3) for kind in (solvers.NEXT, solvers.SONATA) for surrogate in SURROGATES]


@pytest.mark.parametrize("make", BATCHED, ids=lambda make: " ".join(map(str, (make.func.__name__, *make.args))))
@pytest.mark.filterwarnings("ignore:LEAD's theory needs convex")
def test_a_batch_of_everything_is_the_whole_gradient_to_the_bit(make):
    whole, batched, few = (consensus.solve(P, LAZY, make(batch=size), rounds=6) for size in (None, 16, 3))
    assert_same(batched, whole)
    assert not np.array_equal(few.w, whole.w)


def test_whole_batches_make_exact_methods():
    assert_equal_methods(P, (solvers.D2(0.05, 16), LAZY), (solvers.ExactDiffusion(0.05), SCHEDULES["static"]))
    assert_equal_methods(
        problem("squared", None, MLP), (solvers.GTHSGD(0.05, 10, beta=0.3), LAZY), (solvers.ProxGT(0.05), LAZY)
    )


TRACKING = [partial(kind, 0.05) for kind in (solvers.GTHSGD, solvers.GTSAGA, solvers.GTSARAH, solvers.GTVR)]
TRACKING += [partial(solvers.GradientTracking, 0.05, order) for order in ("atc", "cta")]
TRACKING += [partial(kind, FULL, 0.3, averaging=0.5) for kind in (solvers.NEXT, solvers.SONATA)]
TRACKING += [partial(kind, TopK(3), 0.02, 0.3) for kind in (solvers.BEER, solvers.CGT, solvers.MoTEF)]


@pytest.mark.parametrize("make", TRACKING, ids=lambda make: f"{make.func.__name__} {make.args[-1]}")
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_trackers_add_up_to_the_estimates(schedule, make):
    for state in states(make(batch=RULE), P, SCHEDULES[schedule], 20):
        tracked = state.y + state.change if make.func is solvers.GTSARAH else state[2] * getattr(state, "mass", 1.0)
        estimates = next(getattr(state, name) for name in ("average", "momentum", "v", "gradient") if hasattr(state, name))
        np.testing.assert_allclose(tracked.mean(axis=0), estimates.mean(axis=0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("solver", [solvers.SGP(0.02, RULE), solvers.SONATA(FULL, 0.3, batch=RULE)], ids=["SGP", "SONATA"])
def test_masses_add_up(solver):
    for state in states(solver, P, PUSH, 20):
        assert state.mass.sum() == pytest.approx(6, rel=1e-13)
    assert np.ptp(state.mass) > 0.1


@pytest.mark.parametrize("make", [solvers.DGD, solvers.GradientTracking])
def test_a_number_of_samples_is_a_rule(make):
    assert make(0.05, batch=3) == make(0.05, batch=Minibatches(3))
    assert make(0.05).batch is None
    assert "batch=Minibatches(size=3, seed=0, replacement=False)" in repr(make(0.05, batch=3))


def test_the_history_counts_samples():
    """3 of 4, 16, 9, 11, 7 and 13 samples in each of 13 rounds, less in the last round of an epoch."""
    ring, sizes = topologies.ring(6), [4, 16, 9, 11, 7, 13]
    history = consensus.solve(P, ring, solvers.DGD(0.05, batch=3), rounds=13, record_every=1).history
    expected = [sum(min(3, n - round % -(-n // 3) * 3) for n in sizes) for round in range(13)]
    assert history["samples"].tolist() == [0, *np.cumsum(expected)]
    assert history["gradients"].tolist() == list(range(14))
    whole = consensus.solve(P, ring, solvers.GradientTracking(0.05), rounds=2, record_every=1).history
    assert whole["samples"].tolist() == [60, 120, 180]
    assert history["epochs"].tolist() == (history["samples"] / 60).tolist()
    assert whole["epochs"].tolist() == [1, 2, 3]


def test_estimates_count_every_sample_that_they_look_at():
    """Whole gradients of 60 samples, two gradients of a batch: but SAGA remembers the second."""
    two = Minibatches(2, replacement=True)
    for solver, rounds in (
        (solvers.GTSAGA(0.02, two), 12),
        (solvers.GTHSGD(0.02, two), 24),
        (solvers.GTSARAH(0.02, two, period=2), 24),
    ):
        samples = np.diff(consensus.solve(P, LAZY, solver, rounds=4, record_every=1).history["samples"], prepend=0)
        expected = [60, rounds, 60, rounds, 60] if isinstance(solver, solvers.GTSARAH) else [60] + 4 * [rounds]
        assert samples.tolist() == expected


@pytest.mark.parametrize("make", [solvers.D2, *COMPRESSED])
def test_theory_has_no_step_for_batches(make):
    name = getattr(make, "func", make).__name__
    with pytest.raises(TypeError, match=f"{name} has no bound on its step for batches from theory: give step_size="):
        consensus.solve(problem("squared", consensus.L2(0.1)), LAZY, make(batch=3), rounds=1)


test_refusals = refusals(
    (lambda: solvers.QGDSGDm(0.1, momentum=1), ValueError, "momentum must be a finite number >= 0 and < 1; got 1"),
    (lambda: solvers.QGDSGDm(0.1, averaging=-0.1), ValueError, "averaging must be .*got -0.1"),
    (lambda: solvers.GTHSGD(0.1, beta=0), ValueError, "beta must be a finite number > 0 and <= 1; got 0"),
    (lambda: solvers.DecentLaM(0.1, momentum=1), ValueError, "momentum must be .*< 1; got 1"),
    (lambda: solvers.GTSARAH(0.1, period=0), ValueError, "period must be a whole number >= 1; got 0"),
    (lambda: solvers.GTVR(0.1, probability=0), ValueError, "probability must be a finite number > 0 and <= 1; got 0"),
    (lambda: solvers.GTVR(0.1, seed=-1), ValueError, "seed must be a whole number >= 0; got -1"),
    (lambda: solvers.GTHSGD(0), ValueError, "step_size must be a finite number > 0; got 0"),
    (lambda: solvers.NEXT(FULL, 0.5, averaging=0.5), ValueError,
     r"averaging is of gradients from batches: give batch=, or leave averaging=0\.5"),
    (lambda: solvers.NEXT(FULL, 0.5, batch=3, averaging=2.0), ValueError, r"^averaging must be .* <= 1; got 2\.0"),
    (lambda: consensus.solve(P, LAZY, solvers.QGDSGDm(CosineAnnealing(0.1, 3)), rounds=6), ValueError,
     r"step_size=CosineAnnealing.* in round 3 must be a finite number > 0; got 0\.0"),
)  # fmt: skip
