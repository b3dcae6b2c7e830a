"""Several exchanges in place of one: polynomials of the mixing matrices, and what the solver inside adds."""

from types import MappingProxyType

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import DATOS, DGD, NEXT, OPAPC, Gossip, PushPull
from consensus.surrogates import FullLinearization
from tests.helpers.problems import problem
from tests.helpers.quadratics import NETWORKS, dense, quadratic
from tests.helpers.steps_by_hand import AGENTS, GRAPH, SCHEDULES

L2 = consensus.L2(0.1)


@pytest.mark.parametrize("exchanges", [1, 2, 5, 9])
def test_accelerated_gossip_is_the_chebyshev_polynomial_of_the_matrix(exchanges):
    schedule = topologies.Static(topologies.ring(9))
    matrix = schedule.weights(0).toarray()
    gap = topologies.spectral_gap(matrix)
    values, vectors = np.linalg.eigh(matrix)
    polynomial = np.polynomial.chebyshev.Chebyshev.basis(exchanges)
    expected = (vectors * (polynomial(values / (1 - gap)) / polynomial(1 / (1 - gap)))) @ vectors.T
    w, network = np.random.default_rng(0).standard_normal((9, 4)), StackedNetwork(schedule, np.float64)
    (after,) = Gossip(DGD(0.1), exchanges, gap=gap).around(network).mix(0, w)
    np.testing.assert_allclose(after, expected @ w, rtol=0, atol=1e-13)
    assert network.exchanges == exchanges


@pytest.mark.parametrize("gap", [None, 0.4])
def test_several_exchanges_mix_with_the_matrices_of_their_rounds_and_carry_what_is_beside(gap):
    network = SCHEDULES["random"] if gap is None else SCHEDULES["static"]
    solver, x = Gossip(DGD(0.1), 3, gap), np.random.default_rng(0).standard_normal((AGENTS, 5))
    for round in (0, 2):
        matrices = [network.weights(network.key(3 * round + k)) for k in range(3)]
        plain = StackedNetwork(network, np.float64)
        (mixed,) = solver.around(plain).mix(round, x, beside=7)
        assert plain.floats == (5 + 7) * plain.messages
        product = solver.matrices(network)
        np.testing.assert_allclose(product.weights(product.key(round)) @ x, mixed, atol=1e-13)
        if gap is None:
            np.testing.assert_allclose(mixed, matrices[2] @ (matrices[1] @ (matrices[0] @ x)), atol=1e-13)


def test_averages_are_repeated_too():
    """Push-pull both mixes and averages, in each of the exchanges."""
    network, x = StackedNetwork(SCHEDULES["random"], np.float64), np.random.default_rng(0).standard_normal((AGENTS, 5))
    several = Gossip(PushPull(0.1), 2).around(network)
    mixed, averaged = several.mix_and_average(1, x, x)
    for found, one in ((mixed, network.mix), (averaged, network.average), (several.average(1, x)[0], network.average)):
        np.testing.assert_array_equal(found, one(3, *one(2, x))[0])


def test_chebyshev_exchanges_speed_opapc_up():
    p, network = quadratic(8), NETWORKS["ring of 8"]
    plain, sped = (
        consensus.solve(p, network, solver, rounds=2000, tolerance=1e-9).rounds
        for solver in (OPAPC(), Gossip(OPAPC(), 3, topologies.spectral_gap(dense(network))))
    )
    assert sped < plain


class Reporting(DGD):
    """A solver with a column of its own, and wide messages."""

    history_columns = MappingProxyType({"largest": np.max})

    def report(self, state):
        return np.abs(state.w).max(axis=1, keepdims=True)

    def width(self, problem):
        return 17 * problem.parameters


def test_gossip_keeps_what_its_solver_adds():
    p = problem("squared", L2)
    wrapped = Gossip(Reporting(0.05), 3)
    result = consensus.solve(p, GRAPH, wrapped, rounds=5)
    assert wrapped.width(p) == 17 * p.parameters
    assert result.history["largest"][-1] == np.abs(result.w).max()
    assert result.history["exchanges"][-1] == 3 * 5
    assert result.history["floats"][-1] == p.parameters * result.history["messages"][-1]
    local = consensus.local.CVXPYSolver(lambda w: [w >= 0.5])
    prox = Gossip(NEXT(FullLinearization(1.0), 0.3, local=local), 2).prox(p)
    np.testing.assert_allclose(prox(np.zeros(p.parameters), 1.0), 0.5, atol=1e-6)


def test_what_cannot_be_repeated_is_refused():
    with pytest.raises(TypeError, match="DATOS finds its exchanges by itself"):
        Gossip(DATOS(), 2)
    with pytest.raises(TypeError, match="solver must be a Solver"):
        Gossip(None, 2)
