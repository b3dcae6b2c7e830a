"""Predicted seconds: by hand on small networks, and the constants of a cluster found again."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import consensus
import topologies
from consensus import centralized
from consensus.costs import Cluster, Load, load
from consensus.solvers import DGD, TreeLBFGS

STAR, RING, COMPLETE = topologies.star(8), topologies.ring(8), topologies.complete(8)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    shards = consensus.partition(rng.standard_normal((40, 3)), rng.standard_normal(40), agents=8, seed=0)
    return consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), shards, consensus.L2(0.1))


def history(problem, network, solver=None):
    return consensus.solve(problem, network, solver or DGD(0.01), rounds=10, record_every=1).history


def test_the_hub_of_a_star_is_its_busiest_machine(problem):
    run = history(problem, STAR)
    found = load(run, problem, STAR)
    # The hub sends to seven and hears seven, four numbers each, in ten rounds; it has an eighth of all samples.
    np.testing.assert_array_equal(found.bytes, 14 * 4 * 8 * np.arange(11))
    assert found.waits == 8
    assert found.flops[-1] == pytest.approx(6 * 4 * 5 * 10)
    np.testing.assert_allclose(found.adds, 7 * 4 * np.arange(11))
    np.testing.assert_array_equal(load(run, problem).bytes, found.bytes)


@pytest.mark.parametrize(
    # Two halves of the ring touch twice: each sends two rows and gets two. In a complete graph a row goes once to the other.
    ("network", "machines", "rows"),
    [(RING, 2, 4), (RING, 1, 0), (COMPLETE, 2, 8)],
)
def test_agents_of_one_machine_send_one_another_nothing(problem, network, machines, rows):
    assert load(history(problem, network), problem, network, machines).bytes[-1] == rows * 4 * 8 * 10


def test_sums_over_a_tree_are_counted_at_its_root(problem):
    """Finding the tree of a star takes two exchanges of a word; then everyone's message goes to the centre, and one back."""
    solver = TreeLBFGS(rounded=False)
    found = 14 * 2 * 8 + 7 * 8  # words, and the scale that comes down
    sent = load(history(problem, STAR, solver), problem, STAR).bytes
    np.testing.assert_array_equal(sent[1:], found + 14 * 5 * 8 * np.arange(1, 11))
    run = history(problem, RING, solver)
    assert load(run, problem, RING).bytes[-1] > 1.1 * 2 * run["bytes"][-1] / 8  # more than evenly
    with pytest.raises(ValueError, match="machines must be 8, one for each agent, because the edges"):
        load(run, problem, RING, machines=2)


def test_everything_goes_through_the_server(problem):
    found = load(centralized.solve(problem, centralized.FedAvg(0.01, 3), rounds=10).history, problem)
    assert found.bytes[-1] == 2 * 8 * 4 * 8 * 10
    assert found.waits == 8
    flops, adds, sent = 6 * 4 * 5 * 30, 8 * 4 * 10, 0.5 * 10 + found.bytes[-1] / 1e3
    assert Cluster(0.5, 1e3, 1e4).seconds(found)[-1] == pytest.approx(sent + (flops + 4 * adds) / 1e4)
    assert Cluster(0.5, 1e3, 1e4, adds=1e2).seconds(found)[-1] == pytest.approx(sent + flops / 1e4 + adds / 1e2)


def test_the_slowest_of_many_is_that_of_draws():
    cluster, rng = Cluster(0, 1, 1, stragglers=0.3), np.random.default_rng(0)
    assert cluster.slowest(1) == Cluster(0, 1, 1).slowest(10**6) == 1
    for machines in (2, 10, 1000):
        drawn = np.exp(0.3 * rng.standard_normal((2000, machines)) - 0.045).max(axis=1).mean()
        assert cluster.slowest(machines) == pytest.approx(drawn, rel=0.03)
    for spread, machines in ((0.3, 2), (1.0, 10), (2.0, 1000)):  # the mean, not the value at the mean of z

        def density(z, spread=spread, machines=machines):
            return machines * np.exp(spread * z - spread**2 / 2) * norm.pdf(z) * norm.cdf(z) ** (machines - 1)

        mean = quad(density, -10, 20, limit=200)[0]
        assert Cluster(0, 1, 1, stragglers=spread).slowest(machines) == pytest.approx(mean, rel=1e-8)


def test_a_cluster_is_found_again_from_what_it_took():
    rng, true = np.random.default_rng(0), Cluster(1e-3, 1e8, 1e9, adds=1e7)
    parts = [10.0 ** rng.uniform(low, low + 2, (4, 1)) * [[1], [1e4], [1e5], [1e3]] for low in (2, 3, 2, 3, 2, 3)]
    loads = [Load(exchanges, size, flops, 4, adds) for exchanges, size, flops, adds in parts]
    found = Cluster.fitted(loads, [true.seconds(one)[-1] for one in loads])
    for name in ("latency", "bandwidth", "flops", "adds"):
        assert getattr(found, name) == pytest.approx(getattr(true, name), rel=1e-6)


def test_wrong_arguments_are_errors_by_name(problem):
    for name, value in {"latency": -1, "bandwidth": 0, "flops": -1, "stragglers": -0.1, "adds": 0}.items():
        with pytest.raises(ValueError, match=f"{name} must be"):
            Cluster(**({"latency": 0, "bandwidth": 1, "flops": 1} | {name: value}))
    with pytest.raises(ValueError, match="at least three loads"):
        Cluster.fitted([], [])
    with pytest.raises(ValueError, match="history has no rows"):
        load(consensus.History(), problem)
