"""The local problem: its minimiser, and tau while the local cost does not bear the model out."""

import numpy as np
import pytest
from problems import AGENTS, problem

import consensus
from consensus.local.low_rank import low_rank
from consensus.solvers.adaptive.damping import Damping
from consensus.solvers.adaptive.local import solve
from consensus.solvers.adaptive.quadratic import LowRank, Quadratic

RNG = np.random.default_rng(0)
MODEL = Quadratic(np.zeros(AGENTS), RNG.standard_normal((AGENTS, 5)), LowRank.of(RNG.standard_normal((AGENTS, 5, 2))))
W = RNG.standard_normal((AGENTS, 5))
TAU = np.linspace(0.5, 1.0, AGENTS)
DAMPING = Damping(TAU, np.ones(AGENTS), np.zeros(AGENTS), np.zeros(AGENTS))


class Doubts:
    """A curvature with errors of the local models: as many as an agent is given are far too large, two chunks of agents."""

    def __init__(self, times):
        self.left = np.array(times)

    def each_local_model(self, problem, w, test):
        for rows in (slice(0, 2), slice(2, AGENTS)):

            def error(d, rows=rows):
                assert d.shape == (rows.stop - rows.start, 5)
                large = self.left[rows] > 0
                self.left[rows] -= 1
                return np.where(large, 1e9, 0.0)

            test(rows, error, np.zeros(rows.stop - rows.start))


@pytest.mark.parametrize("regularizer", [consensus.L2(0.3), consensus.L1(0.3)], ids=str)
def test_it_is_the_minimiser_for_the_tau_used(regularizer):
    p = problem("logistic", regularizer)
    d, damping = solve(p, W, MODEL, DAMPING, Doubts([0, 1, 2, 3, 0, 9]))
    doubled = np.array([0, 1, 2, 2, 0, 2])
    weight, prox = (0.3, None) if regularizer.quadratic else (0.0, regularizer)
    expected = low_rank(MODEL.H.V, TAU * 2.0**doubled + weight, W, MODEL.slope, prox)
    np.testing.assert_allclose(d, expected, rtol=0, atol=1e-12)
    assert damping.tries.tolist() == (1 + doubled).tolist()
    # What doubled twice keeps one of them: the next round's trial may need less.
    np.testing.assert_array_equal(damping.tau, TAU * np.maximum(1, 2.0 ** (doubled - 1)))
    assert p.work.solves == 1
    assert p.work.iterations == AGENTS + doubled.sum()


@pytest.mark.parametrize("regularizer", [consensus.L2(0.3), consensus.L1(0.3)], ids=str)
def test_an_error_is_too_large_from_a_quarter_of_the_promised_decrease(regularizer):
    p = problem("logistic", regularizer)
    d, _ = solve(p, W, MODEL, DAMPING, Doubts([0] * AGENTS))
    square = np.square(np.einsum("apk,ap->ak", MODEL.H.V, d)).sum(axis=1)
    promised = -(MODEL.slope * d).sum(axis=1) - square / 2
    if regularizer.quadratic:
        promised -= 0.15 * np.square(d).sum(axis=1)  # r's slope is in G
    else:
        promised -= regularizer.value(W + d) - regularizer.value(W)
    assert (promised > 0).all()

    class Error:
        """The same error at every trial."""

        def __init__(self, part, rounding):
            self.part, self.rounding = part, rounding

        def each_local_model(self, problem, w, test):
            test(slice(0, AGENTS), lambda d: self.part * promised, self.rounding * promised)

    for part, rounding, tries in ((0.2499, 0.0, 1), (0.2501, 0.0, 3), (0.3, 0.06, 1)):
        assert (solve(p, W, MODEL, DAMPING, Error(part, rounding))[1].tries == tries).all()


def test_an_error_that_is_no_number_is_too_large():
    class Lost:
        """A model far away from the local cost."""

        def each_local_model(self, problem, w, test):
            test(slice(0, AGENTS), lambda d: np.full(AGENTS, np.nan), np.zeros(AGENTS))

    assert (solve(problem("logistic"), W, MODEL, DAMPING, Lost())[1].tries == 3).all()
