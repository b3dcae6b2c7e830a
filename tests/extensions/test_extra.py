"""A solver of one's own, in a file of its own: extra.py. Its laws, and that all else knows of it what the file says."""

from pathlib import Path

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes
from consensus.solvers import Gossip, check_needs, table
from consensus.testing import check_solver
from tests.extensions import extra
from tests.extensions.extra import EXTRA
from tests.helpers.problems import AGENTS, GRAPH, data, problem
from tests.helpers.steps_by_hand import states

STATIC = topologies.Static(GRAPH)


def test_it_is_one_short_file():
    assert len(Path(extra.__file__).read_text().splitlines()) < 60


def test_it_finds_the_least_squares_solution():
    X, y = data()
    design = np.column_stack([X, np.ones(len(X))])
    expected = np.linalg.lstsq(design, y, rcond=None)[0]
    result = consensus.solve(problem("squared"), STATIC, EXTRA(0.2), rounds=2500, record_every=2500)
    np.testing.assert_allclose(result.w, np.tile(expected, (AGENTS, 1)), rtol=0, atol=1e-10)
    assert result.history["disagreement"][-1] < 1e-12


def test_its_steps_are_the_papers_recursion():
    p, W, alpha = problem("logistic", consensus.L2(0.1)), STATIC.weights(0).toarray(), 0.1
    found = [state.w for state in states(EXTRA(alpha), p, STATIC, rounds=6)]
    np.testing.assert_allclose(found[1], W @ found[0] - alpha * p.average_gradient(found[0]), rtol=0, atol=1e-14)
    for x, y, z in zip(found, found[1:], found[2:], strict=False):
        change = p.average_gradient(y) - p.average_gradient(x)
        np.testing.assert_allclose(z, y + W @ y - (x + W @ x) / 2 - alpha * change, rtol=0, atol=1e-13)


@pytest.mark.slow
def test_it_keeps_the_contract(forked):
    report = check_solver(EXTRA(0.1), engines=[Processes(workers=2)])
    assert "a regularizer that is not smooth is refused" in report.errors


def test_what_its_theory_misses_is_warned_of():
    mlp = problem("squared", model=consensus.MLP([4, 3, 1]))
    with pytest.warns(UserWarning, match=r"^EXTRA's theory needs convex costs, and .*MLP.* need not be"):
        check_needs(EXTRA(0.1), mlp, STATIC)
    with pytest.warns(UserWarning, match=r"EXTRA's theory needs mixing matrices with the condition 'static'"):
        consensus.solve(problem("squared"), topologies.RandomEdges(GRAPH, 0.5, seed=1), EXTRA(0.1), rounds=1)


def test_it_is_listed_where_it_is_given():
    *others, row = table(EXTRA).rows
    assert tuple(others) == table().rows
    needs = ("smooth", "convex", "symmetric, static", "no")
    assert row == ("EXTRA", "Shi et al. 2015", *needs, "1", "w", "step_size; give a step")
    assert row[:-1] == table(EXTRA(0.1)).rows[-1][:-1]
    assert any(line.startswith("EXTRA ") for line in repr(table(EXTRA)).splitlines()[-2:])


def test_gossip_takes_it():
    p = problem("squared")
    history = consensus.solve(p, STATIC, Gossip(EXTRA(0.1), 3), rounds=10, record_every=1).history
    assert history["exchanges"][-1] == 30
    assert topologies.check(STATIC, Gossip(EXTRA(0.1), 3)).refusal is None
