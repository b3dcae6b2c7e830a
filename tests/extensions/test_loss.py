"""A loss of one's own, in a file of its own: poisson.py."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import PoissonRegressor

import consensus
import topologies
from consensus.local import CVXPYSolver
from consensus.solvers import NEXT, AdaptiveNEXT, GradientTracking
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.extensions import poisson
from tests.extensions.poisson import Poisson

AGENTS, WEIGHT = 5, 0.1


def data():
    rng = np.random.default_rng(0)
    X = 0.5 * rng.standard_normal((80, 4))
    return X, rng.poisson(np.exp(X @ rng.standard_normal(4))).astype(float)


def problem():
    shards = consensus.partition(*data(), AGENTS, "sizes", sizes=[6, 30, 9, 20, 15])
    return consensus.Problem(consensus.Linear(4, bias=False), Poisson(), shards, consensus.L2(WEIGHT))


def test_it_is_one_short_file():
    assert len(Path(poisson.__file__).read_text().splitlines()) < 60


@pytest.mark.parametrize(("solver", "rounds"), [
    (NEXT(PartialLinearization(0.5), 0.5), 300),
    (NEXT(FullLinearization(5.0), 0.5), 600),
    (AdaptiveNEXT(), 30),
    (GradientTracking(0.2), 600),
], ids=["partial", "full", "adaptive", "tracking"])  # fmt: skip
def test_agents_find_scikit_learns_regression(solver, rounds):
    X, y = data()
    fitted = PoissonRegressor(alpha=WEIGHT, fit_intercept=False, tol=1e-12, max_iter=1000, solver="newton-cholesky").fit(X, y)
    result = consensus.solve(problem(), topologies.ring(AGENTS), solver, rounds=rounds, record_every=rounds, test=data())
    np.testing.assert_allclose(result.w, np.tile(fitted.coef_, (AGENTS, 1)), rtol=0, atol=1e-7)
    assert result.history["test_error"][-1] == pytest.approx(np.square(fitted.predict(X) - y).mean(), rel=1e-6)


def test_what_it_lacks_is_said():
    X, y = data()
    with pytest.raises(ValueError, match=r"Poisson takes counts 0, 1, 2, \.\.\. as targets"):
        consensus.Problem(consensus.Linear(4), Poisson(), consensus.partition(X, y - 0.5, AGENTS))
    solver = NEXT(PartialLinearization(1.0), 0.5, local=CVXPYSolver())
    with pytest.raises(TypeError, match=r"Poisson\(\) has no CVXPY expression: define one, or use consensus\.local\.Exact"):
        consensus.solve(problem(), topologies.ring(AGENTS), solver, rounds=1)
