"""Stochastic methods: where they end, and what they reject."""

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus import solvers
from consensus._arrays.parallel import one_blas_thread
from consensus.compression import TopK
from consensus.engines.stacked import StackedNetwork
from consensus.problems import Batch
from consensus.surrogates import FullLinearization
from tests.helpers.quadratics import optimum, quadratic
from tests.helpers.steps_by_hand import SCHEDULES
from tests.helpers.stochastic import LAZY, curved, rest_of_descent
from tests.helpers.turns import with_slow

RIDGE = quadratic(8, 7, 8)
BEST = np.tile(optimum(RIDGE), (8, 1))


@pytest.mark.parametrize(
    "solver",
    [solvers.GTSAGA(0.08), solvers.GTSARAH(0.08, 1, period=8), solvers.GTVR(0.08, 1, probability=0.1), solvers.RelaySGD(0.05)],
    ids=lambda one: type(one).__name__,
)
def test_those_without_noise_in_the_end_reach_the_optimum_itself(solver):
    result = consensus.solve(RIDGE, topologies.ring(8), solver, rounds=2500, record_every=100, tolerance=1e-9)
    np.testing.assert_allclose(result.w, BEST, rtol=0, atol=1e-8)


class Two:
    """A user's rule: two of eight samples, drawn for all rounds beforehand."""

    places = np.random.default_rng(6).integers(8, size=(1000, 8, 2))

    def check(self, problem):
        pass

    def at(self, problem, round):
        return Batch(self.places[round], np.full((8, 2), 4.0))


TWO = Two()
NETWORK = topologies.Static(topologies.erdos_renyi(8, 0.5, seed=2), weights=topologies.lazy(topologies.metropolis))
STAR = topologies.Static(topologies.star(8))
FULL = FullLinearization(1.0)
HALVED = ("QGDSGDm", "DecentLaM")  # their momentum makes steps twice as long
BIASED = {
    "DGD": solvers.DGD,
    "SGP": solvers.SGP,
    "DSGDm": lambda a, batch: solvers.DSGDm(a, batch, momentum=0.5),
    "QGDSGDm": lambda a, batch: solvers.QGDSGDm(a / 2, batch, momentum=0.5),
    "DecentLaM": lambda a, batch: solvers.DecentLaM(a / 2, batch, momentum=0.5),
}
UNBIASED = {
    "D2": solvers.D2,
    "GradientTracking": lambda a, batch: solvers.GradientTracking(a, batch=batch),
    "MoTEF": lambda a, batch: solvers.MoTEF(TopK(5), a, gamma=0.5, momentum=0.5, batch=batch),
    "GTHSGD": lambda a, batch: solvers.GTHSGD(a, batch, beta=0.5),
    "KGT": lambda a, batch: solvers.KGT(a / 2, 2, batch=batch),
    "LED": lambda a, batch: solvers.LED(a / 2, 2, batch=batch),
    "NEXT": lambda a, batch: solvers.NEXT(FULL, a, batch=batch, averaging=0.5),
    "SONATA": lambda a, batch: solvers.SONATA(FULL, a, batch=batch, averaging=1.0),
    "RelaySGD": lambda a, batch: solvers.RelaySGD(a, batch).prepared(RIDGE, STAR),
}


def limit(name, step):
    """Where whole gradients end: at the optimum; with a bias at ``X = W X - a G(X)`` (DGD), ``X = W (X - a G(X))`` (others)."""
    if name in UNBIASED:
        return BEST
    outer = np.eye(8) if name == "DGD" else None
    return rest_of_descent(RIDGE, NETWORK.weights(0).toarray(), step / 2 if name in HALVED else step, outer)


@pytest.mark.parametrize("name", with_slow([*BIASED, *UNBIASED], *[*BIASED, *UNBIASED][1::2]))
def test_the_square_of_the_neighbourhood_halves_with_the_step(name):
    """That of the agents' mean around the limit, for independent draws; a bias halves itself.

    (Without replacement it falls by four; around the mean the agents' own noise is of second order, too.)
    """
    make, spreads = (BIASED | UNBIASED)[name], {}
    for step in (0.04, 0.02):
        end, solver, path = limit(name, step), make(step, TWO), []
        network = StackedNetwork(STAR if name == "RelaySGD" else NETWORK, RIDGE.dtype)
        state = solver.init(RIDGE, end)
        with one_blas_thread():
            for _ in range(350):
                state = solver.step(RIDGE, network, state)
                path.append(state.w)
        spreads[step] = np.square(np.mean(np.array(path[100:]) - end, axis=1)).sum(axis=1).mean()
    assert spreads[0.04] / spreads[0.02] == pytest.approx(2, rel=0.15)
    if name in BIASED:
        whole = make(0.02, None)  # without noise it stays there
        state = whole.init(RIDGE, end)
        state = state._replace(m=RIDGE.average_gradient(end)) if name == "DSGDm" else state  # its momenta end there
        after = whole.step(RIDGE, network, whole.step(RIDGE, network, state))
        np.testing.assert_allclose(after.w, end, rtol=0, atol=1e-12)
        biases = [np.linalg.norm(limit(name, step) - BEST) for step in (0.0004, 0.0002)]
        assert biases[0] / biases[1] == pytest.approx(2, rel=0.02)


def test_d2_rejects_weights_with_which_agents_never_agree():
    """On a ring of six, weights of 1/3 have the eigenvalue -1/3: a mode that turns its sign for ever."""
    p, ring = curved(), topologies.ring(6)
    with pytest.raises(ValueError, match=r"eigenvalues are all above -1/3, and the least of .* is -0\.333333: give .*lazy"):
        consensus.solve(p, ring, solvers.D2(0.05), rounds=1)
    assert solvers.D2().prepared(p, LAZY).step_size == pytest.approx(1 / p.lipschitz().max(), rel=1e-5)


@pytest.mark.filterwarnings("ignore:RelaySGD.*theory needs", "ignore:.*never jointly connected")
def test_relay_sgd_asks_for_one_connected_network():
    for network, match in (
        (SCHEDULES["random"], r"along a tree that stays as it is, and .* changes: give a static network"),
        (
            nx.disjoint_union(topologies.ring(3), topologies.ring(3)),
            "along a tree that joins all agents, and .* falls into parts",
        ),
    ):
        with pytest.raises(ValueError, match=match):
            consensus.solve(curved(), network, solvers.RelaySGD(0.1), rounds=1)
    with pytest.raises(TypeError, match=r"the tree is not known yet: solver\.prepared"):
        solvers.RelaySGD(0.1).init(curved(), np.zeros((6, 31)))
    with pytest.raises(TypeError, match="solver of Gossip cannot be RelaySGD, which takes messages one by one"):
        solvers.Gossip(solvers.RelaySGD(0.1), 2)


def test_tables_that_would_be_too_large_are_rejected_with_their_size():
    """Of a linear model it is a number a sample and output, however many features there are."""
    shards = consensus.partition(np.ones((4000, 100)), np.ones(4000), 4)
    wide, linear = (
        consensus.Problem(model, consensus.SquaredLoss(), shards, consensus.L2(0.1))
        for model in (consensus.MLP([100, 100, 1]), consensus.Linear(100))
    )
    with pytest.raises(ValueError, match=r"GTSAGA remembers 10,201 numbers .* up to 1,000 samples an agent 311 MB .* 256"):
        consensus.solve(wide, topologies.ring(4), solvers.GTSAGA(0.1), rounds=1)
    assert solvers.GTSAGA(0.1).init(linear, np.zeros((4, 101))).table.shape == (4, 1000, 1)
    functions = consensus.Problem.from_functions(lambda w: w[:, 0], np.ones_like, agents=6, parameters=1)
    with pytest.raises(TypeError, match="GTSAGA needs a model"):
        consensus.solve(functions, LAZY, solvers.GTSAGA(0.1), rounds=1)
