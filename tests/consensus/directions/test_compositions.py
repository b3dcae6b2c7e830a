"""Solvers with directions are the methods that papers state, to rounding."""

import dataclasses

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.directions import Adam, AdamW, Clip, Momentum, Muon
from consensus.engines import StackedNetwork
from consensus.solvers import DGD, KGT, SGP, GradientTracking, QGDSGDm
from tests.helpers import directions_by_hand as by_hand

AGENTS, ROUNDS = 5, 40
NETWORK = topologies.Static(topologies.ring(AGENTS))
W = NETWORK.weights(NETWORK.key(0)).toarray()
CLOSE = {"rtol": 0, "atol": 1e-12}


def problem(hidden=(6,), outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((40, 4)), rng.standard_normal((40, outputs))
    shards = consensus.partition(X, y, AGENTS, "sorted", seed=seed)
    return consensus.Problem(consensus.MLP([4, *hidden, outputs]), consensus.SquaredLoss(), shards)


def start(p, seed=1):
    return 0.5 * np.random.default_rng(seed).standard_normal((AGENTS, p.parameters))


def run(p, solver, rounds=ROUNDS, network=NETWORK):
    return consensus.solve(p, network, solver, rounds=rounds, start=start(p), record_every=rounds)


def test_gradient_tracking_with_adam_is_gt_adam():
    p = problem()
    for most in (1e6, 1e-4):  # in the second run it bounds the means of squares
        solver = GradientTracking(0.01, order="cta", direction=Adam(saturation=most))
        wanted = by_hand.gt_adam(p.average_gradient, W, start(p), 0.01, ROUNDS, most=most)
        np.testing.assert_allclose(run(p, solver).w, wanted, **CLOSE)


def test_dgd_with_adam_w_is_decentralised_adam_w():
    p = problem()
    wanted = by_hand.decentralised_adam_w(p.average_gradient, W, start(p), 0.01, ROUNDS, decay=0.1)
    np.testing.assert_allclose(run(p, DGD(0.01, direction=AdamW(weight_decay=0.1))).w, wanted, **CLOSE)


@pytest.mark.parametrize("hidden", [(), (6,), (6, 3)], ids=str)
def test_gradient_tracking_with_muon_is_de_muon(hidden):
    """Which mixes the first gradients once before they are trackers, and tracks momenta: the same with a static W."""
    p, theta = problem(hidden), 0.2
    adam = AdamW(weight_decay=0.0)
    muon = Muon(momentum=1 - theta, nesterov=False, weight_decay=0.0, scale="none", others=adam)
    places = [(part.start, *part.shape) for part in p.model.layout if len(part.shape) == 2]
    vectors = np.concatenate([range(part.start, part.start + part.shape[0]) for part in p.model.layout if len(part.shape) == 1])
    wanted = by_hand.de_muon(p.average_gradient, W, start(p), 0.02, ROUNDS, theta, places, vectors)
    solver, mixing = GradientTracking(0.02, direction=muon), StackedNetwork(NETWORK, p.dtype)
    state = solver.init(p, start(p))
    state = state._replace(y=W @ state.y)
    for _ in range(ROUNDS):
        state = solver.step(p, mixing, state)
    np.testing.assert_allclose(state.w, wanted, **CLOSE)


@pytest.mark.parametrize("direction", [Momentum(0.8), Adam(), Muon(), Clip(0.3, AdamW())], ids=repr)
def test_one_local_step_of_kgt_tracks_gradients(direction):
    """Its trackers Y = G + C are those of gradient tracking, with one exchange of X and Y a round."""
    p, alpha = problem(), 0.01
    x, g = start(p), p.average_gradient(start(p))
    y, memory = g, direction.init(p, x)
    for _ in range(ROUNDS):
        memory, d = direction.step(p, memory, y, x)
        x = W @ (x - alpha * d)
        new = p.average_gradient(x)
        y, g = W @ y + new - g, new
    np.testing.assert_allclose(run(p, KGT(alpha, local_steps=1, direction=direction)).w, x, **CLOSE)


def test_local_steps_share_one_memory_and_a_correction():
    p, alpha, steps = problem(), 0.01, 3
    x, c, adam = start(p), np.zeros((AGENTS, p.parameters)), Adam()
    memory = adam.init(p, x)
    for _ in range(ROUNDS):
        local, slopes = x, []
        for _ in range(steps):
            slopes.append(p.average_gradient(local) + c)
            memory, d = adam.step(p, memory, slopes[-1], local)
            local = local - alpha * d
        z = np.mean(slopes, axis=0)
        x, c = W @ (x + 0.5 * (local - x)), c - z + W @ z
    np.testing.assert_allclose(run(p, KGT(alpha, steps, scale=0.5, direction=adam)).w, x, **CLOSE)


@pytest.mark.parametrize("solver", [DGD(0.05), GradientTracking(0.05), KGT(0.05), QGDSGDm(0.01, 3), SGP(0.05, 3)], ids=repr)
def test_momentum_of_nothing_and_a_wide_clip_change_nothing(solver):
    p = problem()
    network = topologies.Static(topologies.ring(AGENTS), weights=topologies.push) if isinstance(solver, SGP) else NETWORK
    wanted = run(p, solver, network=network).w
    for direction in (Momentum(0.0), Clip(1e9), Clip(1e9, Momentum(0.0))):
        found = run(p, dataclasses.replace(solver, direction=direction), network=network).w
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)


def test_clips_hold_each_agent_to_its_norm():
    p, rng = problem(), np.random.default_rng(0)
    g = rng.standard_normal((AGENTS, p.parameters)) * np.array([0, 1e-3, 1e-2, 1, 1e3])[:, None]
    _, d = Clip(0.5).step(p, Clip(0.5).init(p, g), g, g)
    norms = [np.sqrt(sum(x * x for x in row)) for row in g]
    for row, own, norm in zip(d, g, norms, strict=True):
        np.testing.assert_allclose(row, own if norm <= 0.5 else own * 0.5 / norm, rtol=1e-14)


def test_sgp_and_qg_dsgdm_step_along_directions():
    """Some rounds by hand."""
    p, alpha = problem(), 0.01
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (0, 3)]  # masses are unequal after a round
    push = topologies.Static(nx.DiGraph(edges), weights=topologies.push)
    C = push.weights(push.key(0)).toarray()
    adam = Adam()
    x, u, mass, memory = start(p), start(p), np.ones((AGENTS, 1)), adam.init(p, start(p))
    y, momentum, own = start(p), np.zeros_like(x), adam.init(p, start(p))
    for _ in range(5):
        memory, d = adam.step(p, memory, p.average_gradient(x), x)
        u, mass = C @ (u - alpha * d), C @ mass
        x = u / mass
        own, d = adam.step(p, own, p.average_gradient(y), y)
        new = W @ (y - alpha * (0.9 * momentum + d))
        y, momentum = new, 0.9 * momentum + 0.1 / alpha * (y - new)
    np.testing.assert_allclose(run(p, SGP(alpha, direction=adam), 5, push).w, x, **CLOSE)
    np.testing.assert_allclose(run(p, QGDSGDm(alpha, direction=adam), 5).w, y, **CLOSE)


@pytest.mark.parametrize("direction", [Adam(), Muon(nesterov=False), Clip(0.2, Momentum())], ids=repr)
def test_what_is_tracked_stays_the_gradient(direction):
    p, network = problem(), topologies.Matchings(AGENTS, seed=0)
    solver = GradientTracking(0.01, direction=direction)
    state, mixing = solver.init(p, start(p)), StackedNetwork(network, p.dtype)
    for _ in range(20):
        state = solver.step(p, mixing, state)
        np.testing.assert_allclose(state.y.sum(axis=0), p.average_gradient(state.w).sum(axis=0), rtol=0, atol=1e-12)


def test_gradient_tracking_with_adam_comes_to_a_stationary_point_from_unlike_agents():
    p = problem(hidden=())
    rule = consensus.step_sizes.InverseSqrt(0.05)
    found = consensus.solve(p, NETWORK, GradientTracking(rule, direction=Adam()), rounds=3000, record_every=3000).history
    assert found["stationarity"][-1] < 1e-3 * found["stationarity"][0]
