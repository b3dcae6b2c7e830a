"""A regularizer of one's own needs value and prox, and what else a method asks for."""

import numpy as np
import pytest

import consensus
import topologies
from consensus import solvers
from consensus.solvers import DGD, NEXT, SONATA, AdaptiveNEXT, GradientTracking
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.problems import problem

RING = topologies.ring(6)


class Abs:
    """The least a regularizer can be: |w|_1 / 50."""

    def value(self, w):
        return 0.02 * np.abs(w).sum(axis=-1)

    def prox(self, v, step):
        return np.sign(v) * np.maximum(np.abs(v) - 0.02 * step, 0)


@pytest.mark.parametrize("solver", [NEXT, SONATA])
def test_value_and_prox_are_enough_where_no_more_is_needed(solver):
    method = solver(FullLinearization(4.0), 0.5)
    own, known = (consensus.solve(problem(regularizer=r), RING, method, rounds=30) for r in (Abs(), consensus.L1(0.02)))
    np.testing.assert_allclose(own.w, known.w, rtol=1e-12, atol=1e-14)
    for name in ("objective", "stationarity"):
        np.testing.assert_allclose(own.history[name], known.history[name], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("solver", "error", "words"), [
    (AdaptiveNEXT(), TypeError, r"AdaptiveNEXT needs Abs\.quadratic"),
    (NEXT(PartialLinearization(1.0), 0.1), TypeError, r"PartialLinearization needs Abs\.quadratic"),
    (DGD(0.1), ValueError, r"DGD needs a smooth regularizer"),
    (GradientTracking(0.1), ValueError, r"GradientTracking needs a smooth regularizer"),
    (solvers.PushDIGing(0.1), ValueError, r"PushDIGing needs a smooth regularizer"),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_what_needs_more_says_so_before_any_work(solver, error, words):
    with pytest.raises(error, match=words):
        consensus.solve(problem(regularizer=Abs()), RING, solver, rounds=1)


def test_a_regularizer_that_says_more_than_it_has_is_refused():
    class Smooth(Abs):
        smooth = True

    class Jacobian(Abs):
        def prox_jvp(self, v, step, d):
            return d

    class Nonconvex(Abs):
        is_convex = False

    with pytest.raises(TypeError, match=r"DGD needs Smooth\.gradient, which is missing"):
        consensus.solve(problem(regularizer=Smooth()), RING, DGD(0.1), rounds=1)
    missing = r"Jacobian\.quadratic, Jacobian\.squares, Jacobian\.strong_convexity, Jacobian\.active"
    with pytest.raises(TypeError, match=f"AdaptiveNEXT needs {missing}"):
        consensus.solve(problem(regularizer=Jacobian()), RING, rounds=1)
    with pytest.raises(TypeError, match=r"needs Nonconvex\.convex, Nonconvex\.smooth_value, Nonconvex\.smooth_gradient, which"):
        problem(regularizer=Nonconvex())
