"""A regularizer with nothing but value and prox, in a file of its own: largest.py."""

from pathlib import Path

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

from consensus.local import CVXPYSolver
from consensus.solve import solve
from consensus.solvers import DGD, NEXT, SONATA, AdaptiveNEXT
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization
from consensus.testing import check_regularizer
from tests.extensions import largest
from tests.extensions.largest import Largest
from tests.helpers.problems import data, problem
from tests.helpers.turns import with_slow

NETWORK = nx.octahedral_graph()
SOLVERS = {
    "the default": (AdaptiveNEXT(), 80),
    "full": (NEXT(FullLinearization(4.0), 0.5), 600),
    "partial": (NEXT(PartialLinearization(1.0), 0.8), 40),
    "SONATA": (SONATA(FullLinearization(4.0), 0.5), 600),
}


def test_it_is_one_short_file():
    assert len(Path(largest.__file__).read_text().splitlines()) < 60


def test_it_keeps_the_contract_and_its_prox_is_the_minimiser():
    check_regularizer(Largest(0.7), steps=(0.1, 1.0, 30.0))
    with pytest.raises(TypeError, match=r"Largest\(weight=0\.7\) has no prox_jvp"):
        Largest(0.7).prox_jvp(np.ones(3), 1.0, np.ones(3))


@pytest.mark.parametrize("name", with_slow(SOLVERS, "the default"))
def test_agents_find_the_optimum(name):
    solver, rounds = SOLVERS[name]
    p = problem("squared", Largest(0.5))
    X, y = data()
    w = cp.Variable(5)
    cost = cp.sum_squares(X @ w[:4] + w[4] - y) / (2 * len(y)) + 0.5 * cp.norm_inf(w)
    cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    result = solve(p, NETWORK, solver, rounds=rounds, record_every=rounds)
    assert result.history["stationarity"][-1] < 1e-8
    np.testing.assert_allclose(result.w, np.tile(w.value, (6, 1)), rtol=0, atol=1e-5)
    largest = np.abs(result.mean).max()
    assert np.isclose(np.abs(result.mean), largest, rtol=1e-9).sum() > 1  # several are held at the largest


@pytest.mark.parametrize(("solver", "error", "match"), [
    (DGD(0.1), ValueError, r"DGD needs a smooth regularizer, and Largest\(weight=0\.5\) is not"),
    (NEXT(PartialLinearization(1.0), 0.5, local=CVXPYSolver()), TypeError, r"Largest\(weight=0\.5\) has no CVXPY expression"),
    (NEXT(Blocks(PartialLinearization(1.0), 2), 0.5), ValueError, r"Largest\(weight=0\.5\) does not separate"),
])  # fmt: skip
def test_what_it_lacks_is_said_before_any_work(solver, error, match):
    with pytest.raises(error, match=match):
        solve(problem("squared", Largest(0.5)), NETWORK, solver, rounds=1)
