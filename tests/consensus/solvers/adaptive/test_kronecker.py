"""Kronecker factors of layers, against explicit Jacobians, and what is made of their sums."""

import numpy as np
import pytest
from problems import AGENTS, problem

import consensus
import topologies
from consensus.solvers import AdaptiveNEXT
from consensus.solvers.adaptive import gauss_newton, sketch
from consensus.solvers.adaptive.kronecker import Kronecker
from consensus.solvers.adaptive.news import News

MODELS = {"linear": consensus.Linear(4, outputs=3), "deep": consensus.MLP([4, 3, 2, 3], activation="softplus")}


def made(kind, loss="classes"):
    return problem(loss, consensus.L2(0.1), MODELS[kind], "sizes")


def stack(p, seed=0):
    return 0.7 * np.random.default_rng(seed).standard_normal((p.agents, p.parameters))


def summed(p, curvature, round=0, step=0, change=0):
    """What comes of sums over the network that are exact."""
    total = [np.broadcast_to(block.sum(axis=0), block.shape) for block in flat(curvature.mixed(None))]
    news = News(0, whole(curvature.mixed(None), iter(total)), None, step, change, None, None)
    return curvature.of_network(p, None, round, news)


def flat(factors):
    return [block for pair in factors.pairs() for block in pair]


def whole(factors, blocks):
    return type(factors).row((next(blocks), next(blocks)) for _ in factors.pairs())


@pytest.mark.parametrize("formed", [1 << 22, 20], ids=["at once", "in parts"])
@pytest.mark.parametrize("kind", MODELS)
def test_the_factors_are_sums_over_samples(kind, formed, monkeypatch):
    """By the rows of the Jacobian: those of the weights are the products of inputs and the sensitivities, which the biases'
    have alone."""
    monkeypatch.setattr(gauss_newton, "_FORMED", formed)
    p, found = made(kind), None
    w = stack(p)
    found = gauss_newton.kronecker(p, w)
    X = p.shards.features
    J = p.model.jacobian(w, X).reshape(*X.shape[:2], 3, p.parameters)
    S = p.loss.curvature(p.model.predict(w, X), p.shards.targets)
    inputs = X
    for (start, m, k), (A, G) in zip(p.model.matrices, found, strict=True):
        D = J[..., start + m * k : start + m * k + k]
        np.testing.assert_allclose(G, np.einsum("as,asok,asop,aspl->akl", p.weights, D, S, D), rtol=0, atol=1e-14)
        ones = np.concatenate([inputs, np.ones((*inputs.shape[:2], 1))], axis=2)
        np.testing.assert_allclose(A, np.einsum("as,asm,asn->amn", p.weights, ones, ones), rtol=0, atol=1e-14)
        layer = w[:, start : start + (m + 1) * k].reshape(AGENTS, m + 1, k)
        inputs = np.log1p(np.exp(ones @ layer))


def test_of_the_squared_loss_of_a_linear_model_it_is_the_curvature():
    p = problem("squared", consensus.L2(0.1), consensus.Linear(4), "sizes")
    H, _ = summed(p, Kronecker.at_start(p, np.zeros((AGENTS, 5))))
    X = np.concatenate([p.shards.features, np.ones((*p.shards.features.shape[:2], 1))], axis=2)
    hessian = np.einsum("as,asm,asn->mn", p.weights, X, X)
    d, slope, tau = stack(p), stack(p, 1), np.linspace(0.1, 0.2, AGENTS)
    np.testing.assert_allclose(H.square(d), np.einsum("am,mn,an->a", d, hessian, d), rtol=1e-12)
    expected = [-np.linalg.solve(hessian + t * np.eye(5), g) for t, g in zip(tau, slope, strict=True)]
    np.testing.assert_allclose(H.minimiser(tau, d, slope, None), expected, rtol=0, atol=1e-12)


def test_a_block_of_agents_has_the_same_bits():
    p = made("deep")
    w = stack(p)
    curvature = Kronecker.at_start(p, w)
    H, _ = curvature.of_network(p, None, 0, News(0, curvature.mixed(None), None, None, None, None, None))
    d = H.minimiser(np.ones(AGENTS), w, w, None)
    for rows in (slice(0, 2), slice(2, 6)):
        block = Kronecker.at_start(p.restrict(rows), w[rows])
        part, _ = block.of_network(p, None, 0, News(0, block.mixed(None), None, None, None, None, None))
        np.testing.assert_array_equal(part.minimiser(np.ones(AGENTS)[rows], w[rows], w[rows], None), d[rows])
        np.testing.assert_array_equal(part.square(w[rows]), H.square(w)[rows])


@pytest.mark.parametrize("kind", MODELS)
def test_the_minimiser_has_no_slope(kind):
    p = made(kind)
    H, _ = summed(p, Kronecker.at_start(p, stack(p)))
    slope, tau, h = stack(p, 1), np.linspace(0.1, 0.2, AGENTS), 1.0
    d = H.minimiser(tau, slope, slope, None)

    def cost(d):
        return np.vecdot(slope, d) + (H.square(d) + tau * np.vecdot(d, d)) / 2

    for seed in range(2, 6):  # of a quadratic a difference is exact
        along = stack(p, seed)
        np.testing.assert_allclose((cost(d + h * along) - cost(d - h * along)) / (2 * h), 0, rtol=0, atol=1e-11)
    assert (cost(d) < 0).all()


def test_the_scale_is_the_trace():
    p = made("deep")
    curvature = Kronecker.at_start(p, stack(p))
    unit, (scale, share) = np.eye(p.parameters), curvature.scale(p, np.zeros((AGENTS, 2)), np.zeros((AGENTS, 2)))
    alone = curvature.of_network(p, None, 0, News(0, curvature.mixed(None), None, None, None, None, None))[0]
    trace = sum(alone.square(np.tile(e, (AGENTS, 1))) for e in unit)
    np.testing.assert_allclose(scale, AGENTS * trace, rtol=1e-12)
    assert share == 3e-3


def test_the_stretch_is_what_the_last_step_has_shown_and_the_first_factor_is_sent_once():
    p = made("deep")
    w = stack(p)
    H, kept = summed(p, Kronecker.at_start(p, w))
    kept = kept.moved(p, w)
    assert [block.shape[1] for block in flat(kept.mixed(None))] == [0, 6, 10, 3, 6, 6]
    step = stack(p, 1)
    for shown, stretch in ((2.5, 2.5), (40.0, 4.0), (1e-3, 0.25), (-1.0, 1.0)):
        along = shown * H.square(step) / np.vecdot(step, step)
        change = (along + 0.1)[:, None] * step  # r's own curvature is no part of it
        new, after = summed(p, kept, 1, step, change)
        np.testing.assert_allclose(after.stretch, stretch, rtol=1e-12)
        np.testing.assert_allclose(new.square(step), stretch * H.square(step), rtol=1e-10)


def test_a_run_with_factors_ends_where_one_with_directions_does(monkeypatch):
    """On all kinds of networks: the curvature decides on the way, not on the end."""
    p = problem("classes", consensus.L2(0.1), MODELS["linear"])
    expected = consensus.solve(p, topologies.ring(AGENTS), AdaptiveNEXT(), rounds=30).w
    monkeypatch.setattr(sketch, "_NUMBERS", 10)
    for schedule in (topologies.ring(AGENTS), topologies.RandomEdges(topologies.ring(AGENTS), 0.7, seed=1)):
        found = consensus.solve(p, schedule, AdaptiveNEXT(), rounds=60)
        np.testing.assert_allclose(found.w, expected, rtol=0, atol=1e-6)
