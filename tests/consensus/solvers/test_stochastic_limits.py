"""Stochastic methods: where they end, what they count, and what is refused."""

import networkx as nx
import numpy as np
import pytest
from problems import problem
from steps_by_hand import SCHEDULES
from stochastic import LAZY, curved

import consensus
import topologies
from consensus import Minibatches
from consensus._parallel import one_blas_thread
from consensus.compression import TopK
from consensus.engines.stacked import StackedNetwork
from consensus.problems import Batch
from consensus.solvers import (
    D2,
    DGD,
    GTHSGD,
    GTSAGA,
    GTSARAH,
    GTVR,
    KGT,
    LED,
    NEXT,
    SGP,
    SONATA,
    DecentLaM,
    DSGDm,
    Gossip,
    GradientTracking,
    MoTEF,
    QGDSGDm,
    RelaySGD,
)
from consensus.step_sizes import CosineAnnealing
from consensus.surrogates import FullLinearization


@pytest.fixture(scope="module")
def ridge():
    """Ridge regression of eight agents with other means: problem, Hessians and gradients at zero of the f_i, the optimum."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((64, 6))
    y = X @ rng.standard_normal(6) + np.repeat(rng.standard_normal(8), 8) + 0.3 * rng.standard_normal(64)
    shards = consensus.partition(X, y, 8, "sizes", sizes=[8] * 8)
    p = consensus.Problem(consensus.Linear(6), consensus.SquaredLoss(), shards, consensus.L2(0.5))
    D = np.concatenate([shards.features, np.ones((8, 8, 1))], axis=2)
    H, b = D.swapaxes(1, 2) @ D / 8 + 0.5 * np.eye(7), -np.einsum("asp,as->ap", D, shards.targets[:, :, 0]) / 8
    return p, H, b, -np.linalg.solve(H.mean(axis=0), b.mean(axis=0))


@pytest.mark.parametrize(
    "solver",
    [GTSAGA(0.08), GTSARAH(0.08, 1, period=8), GTVR(0.08, 1, probability=0.1), RelaySGD(0.05)],
    ids=lambda one: type(one).__name__,
)
def test_those_without_noise_in_the_end_reach_the_optimum_itself(solver, ridge):
    p, _, _, best = ridge
    result = consensus.solve(p, topologies.ring(8), solver, rounds=2500, record_every=100, tolerance=1e-9)
    np.testing.assert_allclose(result.w, np.tile(best, (8, 1)), rtol=0, atol=1e-8)


class Pairs:
    """A user's rule: two of eight samples, drawn for all rounds beforehand."""

    places = np.random.default_rng(6).integers(8, size=(1000, 8, 2))

    def check(self, problem):
        pass

    def at(self, problem, round):
        return Batch(self.places[round], np.full((8, 2), 4.0))


TWO = Pairs()
BIASED = {
    "DGD": lambda a, batch=TWO: DGD(a, batch=batch),
    "SGP": lambda a, batch=TWO: SGP(a, batch=batch),
    "DSGDm": lambda a, batch=TWO: DSGDm(a, batch=batch, momentum=0.5),
    "QGDSGDm": lambda a, batch=TWO: QGDSGDm(a / 2, batch=batch, momentum=0.5),
    "DecentLaM": lambda a, batch=TWO: DecentLaM(a / 2, batch=batch, momentum=0.5),
}
UNBIASED = {
    "D2": lambda a: D2(a, batch=TWO),
    "GradientTracking": lambda a: GradientTracking(a, batch=TWO),
    "MoTEF": lambda a: MoTEF(TopK(5), a, gamma=0.5, momentum=0.5, batch=TWO),
    "GTHSGD": lambda a: GTHSGD(a, batch=TWO, beta=0.5),
    "KGT": lambda a: KGT(a / 2, 2, batch=TWO),
    "LED": lambda a: LED(a / 2, 2, batch=TWO),
    "NEXT": lambda a: NEXT(FullLinearization(1.0), a, batch=TWO, averaging=0.5),
    "SONATA": lambda a: SONATA(FullLinearization(1.0), a, batch=TWO, averaging=1.0),
    "RelaySGD": lambda a: RelaySGD(a, batch=TWO).prepared(curved(), RELAYS),
}
NETWORK = topologies.Static(topologies.erdos_renyi(8, 0.5, seed=2), weights=topologies.lazy(topologies.metropolis))


RELAYS = topologies.Static(topologies.star(8))


def limit(name, step, H, b, best):
    """Where whole gradients end: at the optimum; with a bias at ``X = W X - a G(X)`` (DGD), ``X = W (X - a G(X))`` (others)."""
    if name in UNBIASED:
        return np.tile(best, (8, 1))
    step = step / 2 if name in ("QGDSGDm", "DecentLaM") else step
    W, whole = np.kron(NETWORK.weights(0).toarray(), np.eye(7)), np.zeros((56, 56))
    for agent in range(8):
        whole[7 * agent : 7 * agent + 7, 7 * agent : 7 * agent + 7] = H[agent]
    mixed = np.eye(56) if name == "DGD" else W
    return np.linalg.solve(np.eye(56) - W + step * mixed @ whole, -step * mixed @ b.ravel()).reshape(8, 7)


@pytest.mark.parametrize("name", [*BIASED, *UNBIASED])
def test_the_square_of_the_neighbourhood_halves_with_the_step(name, ridge):
    """That of the agents' mean around the limit, for independent draws; a bias halves itself.

    (Without replacement it falls by four; around the mean the agents' own noise is of second order, too.)
    """
    p, H, b, best = ridge
    spreads = {}
    for step in (0.04, 0.02):
        end = limit(name, step, H, b, best)
        network = StackedNetwork(RELAYS if name == "RelaySGD" else NETWORK, p.dtype)
        solver = (BIASED | UNBIASED)[name](step)
        state, path = solver.init(p, end), []
        with one_blas_thread():
            for _ in range(350):
                state = solver.step(p, network, state)
                path.append(state.w)
        spreads[step] = np.square(np.mean(np.array(path[100:]) - end, axis=1)).sum(axis=1).mean()
    assert spreads[0.04] / spreads[0.02] == pytest.approx(2, rel=0.15)
    if name in BIASED:
        whole = BIASED[name](0.02, None)  # without noise it stays there
        there = whole.init(p, end)
        there = there._replace(m=p.average_gradient(end)) if name == "DSGDm" else there  # its momenta end there
        after = whole.step(p, network, whole.step(p, network, there))
        np.testing.assert_allclose(after.w, end, rtol=0, atol=1e-12)
        biases = [np.linalg.norm(limit(name, step, H, b, best) - best) for step in (0.0004, 0.0002)]
        assert biases[0] / biases[1] == pytest.approx(2, rel=0.02)


# What is refused --------------------------------------------------------------------------------------------------------


def test_d2_refuses_weights_with_which_agents_never_agree():
    """On a ring of six, weights of 1/3 have the eigenvalue -1/3: a mode that turns its sign for ever."""
    p, ring = curved(), topologies.ring(6)
    with pytest.raises(ValueError, match=r"eigenvalues are all above -1/3, and the least of .* is -0\.333333: give .*lazy"):
        consensus.solve(p, ring, D2(0.05), rounds=1)
    assert D2().prepared(p, LAZY).step_size == pytest.approx(1 / p.lipschitz().max(), rel=1e-5)
    with pytest.raises(TypeError, match="D2 has no bound on its step for batches from theory: give step_size="):
        consensus.solve(p, LAZY, D2(batch=3), rounds=1)


def test_relay_sgd_asks_for_one_connected_network():
    with (
        pytest.raises(ValueError, match=r"along a tree that stays as it is, and .* changes: give a static network"),
        pytest.warns(UserWarning, match="needs mixing matrices with the condition 'static'"),
    ):
        consensus.solve(curved(), SCHEDULES["random"], RelaySGD(0.1), rounds=1)
    with (
        pytest.raises(ValueError, match=r"along a tree that joins all agents, and .* falls into parts"),
        pytest.warns(UserWarning, match="never jointly connected"),
    ):
        consensus.solve(curved(), nx.disjoint_union(topologies.ring(3), topologies.ring(3)), RelaySGD(0.1), rounds=1)
    with pytest.raises(TypeError, match=r"the tree is not known yet: solver\.prepared"):
        RelaySGD(0.1).init(curved(), np.zeros((6, 31)))
    with pytest.raises(TypeError, match="solver of Gossip cannot be RelaySGD, which takes messages one by one"):
        Gossip(RelaySGD(0.1), 2)


def test_tables_that_would_be_too_large_are_refused_with_their_size():
    """Of a linear model it is a number a sample and output, however many features there are."""
    X, y = np.ones((4000, 100)), np.ones(4000)
    shards = consensus.partition(X, y, 4)
    wide = consensus.Problem(consensus.MLP([100, 100, 1]), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    named = (
        r"GTSAGA remembers 10,201 numbers of every sample of MLP.* up to 1,000 samples an agent 311 MB in all, and at most 256"
    )
    with pytest.raises(ValueError, match=named):
        consensus.solve(wide, topologies.ring(4), GTSAGA(0.1), rounds=1)
    linear = consensus.Problem(consensus.Linear(100), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    assert GTSAGA(0.1).init(linear, np.zeros((4, 101))).table.shape == (4, 1000, 1)
    functions = consensus.Problem.from_functions(lambda w: w[:, 0], np.ones_like, agents=6, parameters=1)
    with pytest.raises(TypeError, match="GTSAGA needs a model"):
        consensus.solve(functions, LAZY, GTSAGA(0.1), rounds=1)


def test_estimates_count_every_sample_that_they_look_at():
    """Whole gradients of 60 samples, two gradients of a batch: but SAGA remembers the second."""
    p = problem("squared", consensus.L2(0.1), scheme="sizes")
    two = Minibatches(2, replacement=True)
    for solver, rounds in ((GTSAGA(0.02, two), 12), (GTHSGD(0.02, two), 24), (GTSARAH(0.02, two, period=2), 24)):
        samples = np.diff(consensus.solve(p, LAZY, solver, rounds=4).history["samples"], prepend=0)
        expected = [60, rounds, 60, rounds, 60] if isinstance(solver, GTSARAH) else [60] + 4 * [rounds]
        assert samples.tolist() == expected


def test_a_step_of_zero_is_refused_where_it_divides():
    with pytest.raises(ValueError, match=r"step_size=CosineAnnealing.* in round 3 must be a finite number > 0; got 0\.0"):
        consensus.solve(curved(), LAZY, QGDSGDm(CosineAnnealing(0.1, 3)), rounds=6)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: QGDSGDm(0.1, momentum=1), "momentum must be a finite number >= 0 and < 1; got 1"),
        (lambda: QGDSGDm(0.1, averaging=-0.1), "averaging must be .*got -0.1"),
        (lambda: GTHSGD(0.1, beta=0), "beta must be a finite number > 0 and <= 1; got 0"),
        (lambda: DecentLaM(0.1, momentum=1), "momentum must be .*< 1; got 1"),
        (lambda: GTSARAH(0.1, period=0), "period must be a whole number >= 1; got 0"),
        (lambda: GTVR(0.1, probability=0), "probability must be a finite number > 0 and <= 1; got 0"),
        (lambda: GTVR(0.1, seed=-1), "seed must be a whole number >= 0; got -1"),
        (lambda: GTHSGD(0), "step_size must be a finite number > 0; got 0"),
    ],
)
def test_bad_settings_are_named(make, match):
    with pytest.raises(ValueError, match=match):
        make()
