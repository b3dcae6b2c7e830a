"""Local problems split into blocks of coordinates."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg

from consensus.local import Exact
from consensus.regularizers import L1, L2, Box, ElasticNet, GroupL1, L2Ball, NonNegative
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization
from tests.helpers.linear_systems import WAYS, explicit, solved
from tests.helpers.local_problems import TAU, TIGHT, centre, local_problem, minimisers, objective


@pytest.mark.parametrize("count", [1, 2, 7, 21])
@pytest.mark.parametrize(
    "regularizer",
    [None, L2(0.2), L1(0.1), ElasticNet(0.1, 0.2), NonNegative(), Box(-0.3, np.linspace(0.1, 0.5, 21))],
    ids=lambda r: type(r).__name__,
)
def test_a_split_full_linearization_gives_the_unsplit_answer_bit_by_bit(regularizer, count):
    p, surrogate = local_problem("huber", regularizer), FullLinearization(TAU)
    assert minimisers(p, Blocks(surrogate, count)).w.tobytes() == minimisers(p, surrogate).w.tobytes()


def test_a_split_of_whole_groups_keeps_them():
    r = GroupL1(0.1, [range(0, 3), range(4, 7), range(7, 11), range(12, 20)], 21)
    p, surrogate = local_problem("huber", r), FullLinearization(TAU)
    assert minimisers(p, Blocks(surrogate, 2)).w.tobytes() == minimisers(p, surrogate).w.tobytes()


@pytest.mark.parametrize("sizes", [[1, 12, 5], [12]], ids=str)  # the second: fewer agents than cores
@pytest.mark.parametrize("count", [1, 2, 7, 21])
@pytest.mark.parametrize("linear", ["auto", *WAYS])
def test_each_block_solves_its_own_system(linear, count, sizes):
    p, inner = local_problem("squared", L2(0.2), sizes=sizes), PartialLinearization(TAU)
    surrogate = Blocks(inner, count)
    v = solved(p, surrogate, linear)
    slices = surrogate.slices(p.parameters)
    assert len(slices) == count
    for agent in range(p.agents):
        for block in slices:
            expected = scipy.linalg.solve(*explicit(p, inner, agent, block), assume_a="pos")
            assert np.linalg.norm(v[agent, block] - expected) <= 1e-11 * np.linalg.norm(expected)


@pytest.mark.parametrize("count", [2, 7])
def test_each_block_minimises_over_its_own_coordinates(count):
    p, inner = local_problem("squared", L1(0.1)), PartialLinearization(TAU)
    w = centre(p)[0]
    surrogate = Blocks(inner, count)
    points = minimisers(p, surrogate).w
    for agent in range(p.agents):
        for block in surrogate.slices(p.parameters):
            H, u = explicit(p, PartialLinearization(TAU), agent, block)
            u += 0.1 * w[agent, block]  # explicit() takes the L1's weight for an L2's
            H -= 0.1 * np.eye(len(u))
            x = cp.Variable(len(u))
            v = x - w[agent, block]
            cost = cp.quad_form(v, cp.psd_wrap(H)) / 2 - u @ v + 0.1 * cp.norm1(x)
            cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL", **TIGHT)
            mine, theirs = w[agent].copy(), w[agent].copy()
            mine[block], theirs[block] = points[agent, block], x.value
            mine, theirs = objective(p, inner, agent, np.array([mine, theirs]))
            assert abs(mine - theirs) <= 1e-9
            np.testing.assert_array_equal(points[agent, block] == 0, np.abs(x.value) < 1e-6)


@pytest.mark.parametrize("regularizer", [L2Ball(0.7), GroupL1(0.1, [range(9, 12)], 21)], ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("inner", [FullLinearization(TAU), PartialLinearization(TAU)], ids=str)
def test_a_split_that_cuts_the_regularizer_is_refused(inner, regularizer):
    surrogate = Blocks(inner, 2)
    with pytest.raises(ValueError, match="does not separate") as error:
        Exact().check(surrogate, local_problem("squared", regularizer))
    assert str(regularizer) in str(error.value)
    assert str(surrogate) in str(error.value)
    assert f"use {inner} unsplit" in str(error.value)
