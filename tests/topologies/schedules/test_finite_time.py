"""Schedules that reach the exact average, and random shifts."""

import math
from functools import reduce

import networkx as nx
import numpy as np
import pytest

from tests.helpers.refusals import refusals
from topologies import BaseGraph, EquiDyn, EquiStatic, HyperHypercube, SimpleBaseGraph
from topologies.analysis import contraction
from topologies.schedules.finite_time import shortest_factors, smooth_part


def dense(network):
    return [network.weights(key).toarray() for key in range(network.period)]


@pytest.mark.parametrize("peers", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", [SimpleBaseGraph, BaseGraph])
def test_a_period_of_few_peers_gives_the_exact_average_of_any_number_of_agents(kind, peers):
    for agents in [*range(1, 20), 25, 33, 45, 50, 81, 127]:
        network = kind(agents, peers)
        matrices = dense(network)
        assert abs(reduce(np.matmul, matrices[::-1]) - 1 / agents).max() < 1e-15
        assert max(degree for n in range(network.period) for _, degree in nx.Graph(network.graph(n)).degree) <= peers
        assert all(np.array_equal(matrix, matrix.T) and matrix.diagonal().min() > 1e-9 for matrix in matrices)
        assert agents == 1 or network.period <= 2 * math.log(agents, peers + 1) + 2 + 1e-9  # Theorem 1


@pytest.mark.parametrize(("agents", "simple", "base"), [(25, 9, 9), (50, 11, 10), (100, 13, 11), (6, 5, 4), (64, 6, 6)])
def test_periods_with_one_peer_are_as_published(agents, simple, base):
    assert SimpleBaseGraph(agents).period == simple
    assert BaseGraph(agents).period == base


@pytest.mark.parametrize(("agents", "peers"), [(22, 4), (26, 5), (34, 5), (25, 1), (50, 1), (45, 2)])
def test_base_graphs_have_never_a_longer_period_than_simple_ones(agents, peers):
    """Of the first three the groups of a product would take a round more."""
    assert BaseGraph(agents, peers).period <= SimpleBaseGraph(agents, peers).period


def fewest(number, most):
    """The least number of factors from 2 to ``most``, by trying all; infinity if there are none."""
    if number == 1:
        return 0
    return min((1 + fewest(number // size, most) for size in range(2, most + 1) if number % size == 0), default=math.inf)


@pytest.mark.parametrize("kind", [SimpleBaseGraph, BaseGraph, HyperHypercube])
def test_more_peers_than_agents_are_all_others(kind):
    np.testing.assert_allclose(kind(12, 10**30).weights(0).toarray(), 1 / 12, rtol=1e-12)


@pytest.mark.parametrize(("most", "numbers"), [(2, range(1, 40)), (5, range(1, 130)), (8, [60, 216, 648]), (12, [144, 900])])
def test_factors_are_the_fewest(most, numbers):
    """Of 216 and 900 not the largest first: 6 * 6 * 6, not 8 * 3 * 3 * 3."""
    for number in numbers:
        if fewest(number, most) < math.inf:
            factors = shortest_factors(number, most)
            assert len(factors) == fewest(number, most)
            assert math.prod(factors) == number
            assert list(factors) == sorted(factors)
            assert all(2 <= factor <= most for factor in factors)
        else:
            assert smooth_part(number, most) < number


def test_the_base_two_graph_of_five_agents_is_the_one_of_the_paper():
    halves, meeting = np.eye(5), np.eye(5)
    for i, j in ((0, 1), (2, 3)):
        halves[np.ix_((i, j), (i, j))] = 0.5
    meeting[np.ix_((0, 4), (0, 4))] = [[0.2, 0.8], [0.8, 0.2]]
    meeting[np.ix_((1, 2), (1, 2))] = 0.5
    found = dense(SimpleBaseGraph(5))
    assert np.allclose(found[0], halves, rtol=0, atol=1e-16)
    assert np.allclose(found[2], meeting, rtol=0, atol=1e-16)
    assert sorted(SimpleBaseGraph(5).graph(3).edges) == [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    ("agents", "peers", "sizes"), [(8, 1, [2, 2, 2]), (6, 2, [2, 3]), (16, 3, [4, 4]), (144, 5, [4, 6, 6])]
)
def test_hyper_hypercubes_average_over_digits_with_the_fewest_factors(agents, peers, sizes):
    network = HyperHypercube(agents, peers)
    digits = np.stack(np.unravel_index(np.arange(agents), sizes[::-1]))[::-1]
    assert network.period == len(sizes)
    for place, (size, matrix) in enumerate(zip(sizes, dense(network), strict=True)):
        others = np.delete(digits, place, axis=0)
        alike = (others[:, :, None] == others[:, None]).all(axis=0)
        assert np.allclose(matrix, alike / size, rtol=0, atol=1e-15)


def test_agents_that_only_mix_agree_at_the_end_of_a_period_and_not_before():
    network, values = BaseGraph(25), np.random.default_rng(0).normal(size=(25, 3))
    spread = []
    for n in range(network.period):
        values = network.weights(network.key(n)) @ values
        spread.append(abs(values - values.mean(axis=0)).max())
    assert spread[-1] < 1e-15 < 1e-3 < min(spread[:-1])
    assert contraction(network, network.period) < 1e-7


@pytest.mark.parametrize("symmetric", [True, False])
def test_static_shifts_are_the_average_of_their_permutations(symmetric):
    for agents in (5, 50):
        matrix = EquiStatic(agents, 6, seed=1, symmetric=symmetric).weights(0).toarray()
        first = matrix[0] - np.eye(agents)[0] / agents
        assert np.allclose(matrix, [np.roll(matrix[0], place) for place in range(agents)], rtol=0, atol=1e-15)
        counts = first * agents / (agents - 1) * (12 if symmetric else 6)
        assert np.allclose(counts, counts.round(), rtol=0, atol=1e-12)
        assert round(counts.sum()) == (12 if symmetric else 6)


@pytest.mark.parametrize("symmetric", [True, False])
def test_static_shifts_mix_alike_at_any_size_if_their_number_grows_like_its_logarithm(symmetric):
    rate, chance = 0.5, 0.01
    for agents in (20, 100, 500):
        shifts = math.ceil(8 * math.log(2 * agents / chance) / (3 * rate**2))
        for seed in range(10):
            matrix = EquiStatic(agents, shifts, seed, symmetric).weights(0).toarray()
            modes = abs(np.fft.fft(matrix[0]))  # singular values of a circulant matrix
            assert modes[0] == pytest.approx(1, abs=1e-12)
            assert modes[1:].max() < rate


@pytest.mark.parametrize("agents", [2, 3, 8, 9])
def test_pairs_of_random_shifts_follow_the_definition(agents):
    network, weight = EquiDyn(agents, seed=3), (agents - 1) / (2 * agents)
    for n in range(60):
        shift, start = network.key(n)
        expected, free = np.eye(agents), set(range(agents))
        for i in np.roll(np.arange(agents), -start).tolist():
            j = (i + shift) % agents
            if {i, j} <= free:
                free -= {i, j}
                expected[np.ix_((i, j), (i, j))] = [[1 - weight, weight], [weight, 1 - weight]]
        assert np.allclose(network.weights((shift, start)).toarray(), expected, rtol=0, atol=1e-15)
    assert {network.key(n)[0] for n in range(200)} == set(range(1, agents // 2 + 1))


@pytest.mark.parametrize("agents", [4, 30, 300])
def test_directed_shifts_contract_in_expectation_as_computed_by_their_fourier_modes(agents):
    # S(u) has the eigenvalue 1/A + (A - 1)/A w^(ju) at mode j, and the mean of w^(ju) over u is -1/(A - 1).
    half = (1 - 1 / agents) / 2
    expected = (1 - half) ** 2 + half**2 - 2 * half * (1 - half) / (agents - 1)
    network, identity = EquiDyn(agents, symmetric=False), np.eye(agents) - 1 / agents
    mean = sum((m := network.weights((shift, 0)).toarray()).T @ m for shift in range(1, agents)) / (agents - 1)
    assert np.allclose(identity @ mean @ identity, expected * identity, rtol=0, atol=1e-12)
    assert network.weights(network.key(5)).sum(axis=0) == pytest.approx(1, abs=1e-15)


HUGE = 10**30


test_refusals = refusals(
    (lambda: BaseGraph(4, peers=0), ValueError, "peers must be at least 1, got 0"),
    (lambda: HyperHypercube(10, 2), ValueError, r"no prime factor above peers \+ 1 = 3, got 10; use BaseGraph\(10, peers=2\)"),
    (lambda: EquiDyn(1), ValueError, "agents must be at least 2, got 1"),
    (lambda: EquiDyn(4, seed=-1), ValueError, "seed must be at least 0, got -1"),
    (lambda: EquiStatic(4, shifts=0), ValueError, "shifts must be at least 1, got 0"),
    (lambda: EquiStatic(4, 2, symmetric=1), ValueError, "symmetric must be True or False"),
    *[(lambda kind=kind, rest=rest: kind(HUGE, *rest), ValueError, r"\(agents=1000.* would take .* bytes of memory; there are")
      for kind, rest in ((HyperHypercube, ()), (BaseGraph, (2,)), (EquiStatic, (2,)), (EquiDyn, ()))],
)  # fmt: skip
