"""Differential privacy: epsilons as published, clipped gradients by hand, noise that cancels, what is refused."""

import math

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes
from consensus.models import Torch
from consensus.privacy import Private, epsilon
from consensus.privacy.accountant import noisy_edges
from consensus.privacy.gradients import Noise, PrivateProblem
from consensus.solvers import DADMM, DATOS, DGD, GTVR, NEXT, OPAPC, Gossip, GradientTracking, ProxGT, TreeLBFGS
from consensus.surrogates import PartialLinearization
from consensus.testing import check_solver
from tests.helpers.refusals import refusals

AGENTS, SIZES = 6, [9, 4, 7, 5, 8, 6]
RING = topologies.Static(topologies.ring(AGENTS))


def problem(kind="MLP", regularizer=None, **more):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(39, 3)), rng.normal(size=39)
    shards = consensus.partition(X, y, agents=AGENTS, scheme="sizes", sizes=SIZES, **more)
    model = consensus.MLP([3, 4, 1]) if kind == "MLP" else consensus.Linear(3)
    return consensus.Problem(model, consensus.SquaredLoss(), shards, regularizer or consensus.L2(0.1))


@pytest.mark.parametrize(("noise", "correlated", "expected"), [(107.35, 0.0, 3.0), (28.0, 1074.0, 2.891)])
def test_epsilon_on_a_ring_of_sixteen_is_as_published(noise, correlated, expected):
    found = epsilon(topologies.ring(16), 1000, clip=1.0, noise=noise, correlated=correlated, delta=1e-5)
    assert found == pytest.approx(expected, abs=1e-3)
    solver = Private(DGD(0.1), clip=0.5, noise=noise / 2, correlated=correlated / 2)
    assert solver.epsilon(topologies.Static(topologies.ring(16)), 1000) == pytest.approx(found, rel=1e-12)


def test_epsilon_is_the_least_over_the_orders_of_renyi_divergences():
    graph, noise, correlated, rounds, delta = nx.star_graph(4), 3.0, 5.0, 7, 1e-6
    inverse = np.linalg.inv(noise**2 * np.eye(5) + correlated**2 * nx.laplacian_matrix(graph).toarray())
    orders = 1 + np.geomspace(1e-3, 1e4, 2_000_001)
    # Gaussians with means 2 C apart at one agent, and a covariance for all: alpha / 2 times the squared Mahalanobis distance.
    divergence = orders / 2 * (2 * 1.5) ** 2 * inverse.diagonal().max()
    best = (rounds * divergence + math.log(1 / delta) / (orders - 1)).min()
    assert epsilon(graph, rounds, 1.5, noise, correlated, delta) == pytest.approx(best, rel=1e-9)


def test_local_noise_agrees_with_a_public_accountant():
    accounting = pytest.importorskip("dp_accounting")
    rdp, orders = pytest.importorskip("dp_accounting.rdp"), 1 + np.geomspace(1e-2, 1e3, 4001)
    # Its mechanism has sensitivity one, ours 2 C; one of its events is one gradient.
    event = accounting.SelfComposedDpEvent(accounting.GaussianDpEvent(20.0 / 2), 40)
    accountant = rdp.RdpAccountant(orders, accounting.NeighboringRelation.REPLACE_SPECIAL).compose(event)
    sharp = accountant.get_epsilon(1e-5)  # by a later conversion, which is never worse
    ours = epsilon(topologies.ring(5), 40, clip=1.0, noise=20.0)
    assert sharp <= ours <= 1.2 * sharp


@pytest.mark.parametrize("kind", ["MLP", "Linear"])
@pytest.mark.parametrize("batch", [None, 3])
def test_gradients_are_means_of_clipped_ones_with_the_noise(kind, batch):
    p, rng = problem(kind), np.random.default_rng(1)
    w = rng.normal(size=(AGENTS, p.parameters))
    drawn = None if batch is None else consensus.Minibatches(batch).at(p, 0)
    none = np.zeros(0, int)
    noise = Noise(1.5, 0.3, 0.0, 5, none, none)
    found = PrivateProblem(p, noise, 11).average_gradient(w, drawn)
    norms = []
    for agent, size in enumerate(SIZES):
        places = range(size) if batch is None else drawn.indices[agent][drawn.weights[agent] > 0]
        X, y = p.shards.features[agent], p.shards.targets[agent]
        clipped = []
        for place in places:
            alone = consensus.Problem(p.model, p.loss, consensus.partition(X[[place]], y[[place]], agents=1))
            gradient = AGENTS * size / sum(SIZES) * alone.gradient(w[[agent]])[0]
            clipped.append(gradient * min(1, 1.5 / np.linalg.norm(gradient)))
        norms += map(np.linalg.norm, clipped)
        own = np.random.default_rng([5, 0x6F776E, agent, 11, 0]).standard_normal(p.parameters)
        expected = np.mean(clipped, axis=0) + 0.3 * own + 0.1 * w[agent]
        assert np.allclose(found[agent], expected, rtol=0, atol=1e-12)
    assert 0 < np.isclose(norms, 1.5).sum() < len(norms)  # some were clipped


def test_without_clipping_and_noise_it_is_the_solver_inside():
    for regularizer in (consensus.L2(0.1), consensus.SCAD(0.1)):
        p = problem(regularizer=regularizer)
        plain = DGD(0.05, batch=3) if regularizer.smooth else ProxGT(0.05)
        private = Private(plain, clip=1e9, noise=1e-300)
        one, other = (consensus.solve(p, RING, solver, rounds=20) for solver in (plain, private))
        assert np.allclose(one.w, other.w, rtol=0, atol=1e-12)
        assert one.history["samples"][-1] == other.history["samples"][-1]


def test_correlated_noise_has_the_covariance_of_the_laplacian_and_sums_to_zero():
    graph = topologies.erdos_renyi(AGENTS, 0.5, seed=1)
    first, second = np.array(sorted(map(sorted, graph.edges))).T
    agents, size = np.arange(AGENTS), 200_000
    found = Noise(1.0, 0.5, 2.0, 0, first, second).drawn(agents, size, 0)
    expected = 0.25 * np.eye(AGENTS) + 4 * nx.laplacian_matrix(graph, sorted(graph)).toarray()
    assert abs(found @ found.T / size - expected).max() < 6 * 2 * expected.max() / math.sqrt(size)
    alone = Noise(1.0, 0.5, 0.0, 0, first, second).drawn(agents, size, 0)
    assert np.allclose((found - alone).sum(axis=0), 0, rtol=0, atol=1e-12)
    some = Noise(1.0, 0.5, 2.0, 0, first, second).drawn(agents[[4, 1]], 50, 0)
    assert np.array_equal(some, Noise(1.0, 0.5, 2.0, 0, first, second).drawn(agents, 50, 0)[[4, 1]])


@pytest.mark.slow
def test_correlated_noise_hurts_less_than_local_noise_of_the_same_privacy():
    p, network = problem("Linear"), topologies.Static(topologies.complete(AGENTS))
    rounds, clip = 400, 0.5
    correlated = Private(DGD(0.05), clip, noise=0.15, correlated=3.0)
    target = correlated.epsilon(network, rounds)
    local = Private(DGD(0.05), clip, noise=0.15 * 2.2)
    assert local.epsilon(network, rounds) > target  # and is less private
    ends = [
        np.mean([consensus.solve(p, network, s, rounds=rounds, record_every=rounds).history["objective"][-1] for s in seeds])
        for seeds in (
            [Private(one.solver, clip, one.noise, one.correlated, seed) for seed in range(5)] for one in (correlated, local)
        )
    ]
    best = consensus.solve(p, network, DGD(0.05), rounds=rounds).history["objective"][-1]
    assert ends[0] - best < 0.5 * (ends[1] - best)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [DGD(0.02, batch=3), GradientTracking(0.02, batch=3)])
def test_it_keeps_the_contract_of_solvers_and_has_equal_bits_on_workers(solver, forked):
    private, p = Private(solver, clip=1.0, noise=0.1, correlated=0.5), problem()
    assert check_solver(private, p, RING).errors
    one, other = (consensus.solve(p, RING, private, rounds=12, engine=engine) for engine in ("stacked", Processes(2)))
    assert np.array_equal(one.w, other.w)
    again = consensus.solve(p, RING, Private(solver, 1.0, 0.1, 0.5, seed=1), rounds=12)
    assert abs(again.w - one.w).max() > 1e-3


STOCHASTIC = "dropout or batch normalisation"


def test_changing_networks_and_problems_without_single_samples_are_rejected():
    private, moving = Private(DGD(0.1), 1.0, 1.0, correlated=1.0), topologies.LinkFailure(RING, 0.1)
    with pytest.raises(ValueError, match="cancels between neighbours on a static network, and LinkFailure"):
        consensus.solve(problem(), moving, private, rounds=1)
    local = Private(Gossip(DGD(0.01), 2), 1.0, 1.0)
    assert consensus.solve(problem(), moving, local, rounds=2).rounds == 2  # local noise needs no neighbours
    functions = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=6, parameters=1)
    with pytest.raises(TypeError, match="clips the gradients of samples"):
        consensus.solve(functions, RING, local, rounds=1)
    torch = pytest.importorskip("torch")
    p, module = problem(), torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Dropout(0.5))
    with pytest.raises(TypeError, match=STOCHASTIC):
        consensus.solve(
            consensus.Problem(Torch(module), p.loss, p.shards), RING, Private(DGD(0.1, batch=2), 1.0, 1.0), rounds=1
        )


def test_every_gradient_has_noise_of_its_own():
    p, found = problem(), []
    w = np.zeros((AGENTS, p.parameters))
    solver = Private(DGD(0.1), clip=1.0, noise=0.5).prepared(p, RING)
    start, first = solver._seen(p, 0), []
    for seen in (start, start, solver._seen(p, 1)):
        found.append(seen.average_gradient(w))
    for noise in (found[1] - found[0], found[2] - found[0], found[2] - found[1]):  # twice in the start, and in the first round
        assert (abs(noise) > 1e-9).all()
    np.testing.assert_array_equal(solver._seen(p, 0).average_gradient(w), found[0])

    class Spy(DGD):
        def init(self, problem, w):
            first.append(problem.average_gradient(w))
            return super().init(problem, w)

        def step(self, problem, network, state):
            first.append(problem.average_gradient(state.w))
            return super().step(problem, network, state)

    consensus.solve(p, RING, Private(Spy(1e-12), clip=1.0, noise=0.5), rounds=1, start=w[0])
    start, step = first[-2:]
    assert (abs(step - start) > 1e-9).all()


@pytest.mark.parametrize("clip", [0.05, 0.4, 1.0])
def test_gradients_that_are_shorter_than_the_clip_stay(clip):
    p, none = problem("Linear"), np.zeros(0, int)
    w = np.zeros((AGENTS, p.parameters))
    found = PrivateProblem(p, Noise(clip, 1e-300, 0.0, 5, none, none), 0).gradient(w)
    expected = np.zeros_like(w)
    for agent, size in enumerate(SIZES):
        X, y = p.shards.features[agent, :size], p.shards.targets[agent, :size]
        each = AGENTS * size / sum(SIZES) * np.array([sample(p, X[[m]], y[[m]], w[agent]) for m in range(size)])
        norms = np.linalg.norm(each, axis=1)
        expected[agent] = (each * np.minimum(1, clip / norms)[:, None]).mean(axis=0) / AGENTS
    np.testing.assert_allclose(found - p._add_share(np.zeros_like(w), w), expected, atol=1e-14)


def sample(p, X, y, w):
    alone = consensus.Problem(p.model, p.loss, consensus.partition(X, y, agents=1))
    return alone.gradient(w[None])[0]


def test_an_arc_is_an_edge_of_noise_whichever_way_it_goes():
    arcs = nx.DiGraph([(0, 1), (2, 1), (2, 3), (3, 0)])  # upwards and downwards
    network = topologies.Static(arcs, weights=topologies.push)
    assert [pair.tolist() for pair in noisy_edges(network)] == [[0, 0, 1, 2], [1, 3, 2, 3]]
    assert epsilon(network, 10, 1.0, 2.0, 3.0) == epsilon(arcs.to_undirected(), 10, 1.0, 2.0, 3.0)


def test_losses_of_batches_and_settings_by_the_data_are_rejected():
    torch = pytest.importorskip("torch")
    private, p = Private(DGD(0.1), 1.0, 1.0), problem()
    normal = Torch(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)).double())
    with pytest.raises(TypeError, match=STOCHASTIC):
        private.check(consensus.Problem(normal, p.loss, p.shards))
    loss = consensus.losses.TorchLoss(lambda f, d: ((f - d) ** 2).mean() - f.mean() * d.mean(), over="batch")
    with pytest.raises(TypeError, match="is a loss of whole batches"):
        private.check(consensus.Problem(Torch(torch.nn.Linear(3, 1).double()), loss, p.shards))
    with pytest.raises(ValueError, match="must have a momentum: the default of OPAPC would depend on the data"):
        Private(OPAPC(0.1), 1.0, 1.0)


@pytest.mark.parametrize("settings", [(1e308, 1.0), (1.0, 1e-200), (1e200, 1e200), (1e154, 1.0)])
def test_an_epsilon_that_is_no_float_is_refused(settings):
    ring, (clip, noise) = topologies.ring(4), settings
    with pytest.raises(ValueError, match=r"clip, noise and correlated must have squares, .*take noise=1, and clip below 1e100"):
        epsilon(ring, 10**9, *settings)
    each = 2 * min(clip / noise, 9e99) ** 2  # of Gaussian noise on all entries
    wanted = 1e9 * each + 2 * math.sqrt(1e9 * each * math.log(1e5))
    assert epsilon(ring, 10**9, min(clip / noise, 9e99), 1.0) == pytest.approx(wanted, rel=1e-12)


def test_correlated_noise_that_rounds_the_other_away_is_refused():
    for correlated, noise in ((1e200, 1.0), (1.1e6, 1.0), (1.0, 1e-7)):
        with pytest.raises(ValueError, match=r"correlated must be at most 1e\+06 times noise.*take correlated=1e\+06 \* noise"):
            epsilon(topologies.complete(4), 5, 1.0, noise, correlated)
    # (I + c^2 (4 I - 1 1^T))^-1 has the diagonal 1/4 + 3/4 / (1 + 4 c^2).
    each = 2 * (0.25 + 0.75 / (1 + 4e12))
    wanted = 5 * each + 2 * math.sqrt(5 * each * math.log(1e5))
    assert epsilon(topologies.complete(4), 5, 1.0, 1.0, 1e6) == pytest.approx(wanted, rel=1e-3)


test_refusals = refusals(
    (lambda: Private(DGD(0.1), 0.0, 1.0), ValueError, "clip must be"),
    (lambda: Private(DGD(0.1), 1.0, 0), ValueError, "noise must be"),
    (lambda: Private(DGD(0.1), 1.0, 1.0, -1.0), ValueError, "correlated must be"),
    (lambda: Private(DGD(0.1), 1.0, 1.0, seed=-1), ValueError, "seed must be"),
    (lambda: Private(GradientTracking(), 1.0, 1.0), ValueError, "must have a step_size: the default of GradientTracking would"),
    (lambda: Private(NEXT(PartialLinearization(1.0), 0.1), 1.0, 1.0), TypeError, "one of gradients alone.* NEXT needs more"),
    (lambda: Private(DADMM(), 1.0, 1.0), TypeError, "DADMM needs more"),
    (lambda: Private(GTVR(0.1, batch=2), 1.0, 1.0), TypeError, "one of gradients alone.* GTVR needs more"),
    (lambda: Private(DATOS(), 1.0, 1.0), TypeError, "DATOS finds its exchanges by itself"),
    (lambda: Private(TreeLBFGS(), 1.0, 1.0), TypeError, "sums along a tree"),
    (lambda: epsilon(topologies.ring(3), 0, 1.0, 1.0), ValueError, "gradients must be"),
    (lambda: epsilon(topologies.ring(3), 1, 1.0, 1.0, delta=1.0), ValueError, "delta must be"),
)
