"""Directions that all agents draw alike, and what products with them tell."""

import functools

import numpy as np
import pytest
from problems import AGENTS, SCHEDULES, problem

import consensus
from consensus.engines.stacked import StackedNetwork
from consensus.solvers.adaptive import sketch
from consensus.solvers.adaptive.blocks import Nothing
from consensus.solvers.adaptive.damping import Damping
from consensus.solvers.adaptive.news import News
from consensus.solvers.adaptive.quadratic import Quadratic
from consensus.solvers.adaptive.sketch import Sketch, columns, directions, stretched, updated


def test_directions_are_orthonormal_and_drawn_from_their_seed():
    basis = directions(30, 7, 4, np.dtype(float))
    np.testing.assert_allclose(basis.T @ basis, np.eye(7), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(directions(30, 7, 4, np.dtype(float)), basis)
    assert np.abs(basis.T @ directions(30, 7, 5, np.dtype(float))).max() < 0.9
    assert directions(30, 7, 4, np.dtype(np.float32)).dtype == np.float32


def test_there_are_as_many_as_parameters_up_to_a_limit(monkeypatch):
    assert columns(problem()) == 5
    assert Sketch.numbers(problem()) == 25
    wide = problem(model=consensus.MLP([4, 30, 1]))
    assert columns(wide) == 64
    monkeypatch.setattr(sketch, "_NUMBERS", 500)
    assert columns(wide) == 500 // wide.parameters == 2


def hessians(p, w):
    """Of every agent's squared loss of a linear model."""
    X = np.concatenate([p.shards.features, np.ones((*p.shards.features.shape[:2], 1))], axis=2)
    return np.einsum("am,amp,amq->apq", p.weights, X, X)


def test_the_scale_is_the_trace_of_the_networks_curvature_as_the_own_cost_has_it():
    p = problem()
    w = np.zeros((AGENTS, 5))
    scale, share = Sketch.at_start(p, w).scale(p, w, np.zeros_like(w))
    np.testing.assert_allclose(scale, AGENTS * np.trace(hessians(p, w), axis1=1, axis2=2), rtol=1e-12)
    assert share == 3e-3


def test_a_cost_without_curvature_gives_a_step_as_long_as_w():
    p, w = problem(), np.random.default_rng(0).standard_normal((AGENTS, 5))
    flat = Sketch(*(np.zeros((AGENTS, 5, 5)) for _ in range(2)), np.zeros(AGENTS))
    gradient = np.random.default_rng(1).standard_normal((AGENTS, 5))
    scale, _ = flat.scale(p, w, gradient)
    np.testing.assert_allclose(AGENTS * np.linalg.norm(gradient, axis=1) / scale, 1 + np.linalg.norm(w, axis=1), rtol=1e-12)


def network(name):
    return StackedNetwork(SCHEDULES[name], np.float64)


def news(rounded=None, exchanges=0, tau=1e-3, known=None):
    """What exchanges brought to agents with that tau."""
    still, damping = np.zeros((AGENTS, 5)), Damping(*np.tile([[tau], [1.0], [0.0], [0.0]], AGENTS))
    return News(exchanges, Nothing(), rounded, still, still, damping, known)


def test_the_networks_sums_give_the_factor_of_its_curvature():
    """Almost exactly, as there are as many directions as parameters."""
    p, w, net = problem(), np.zeros((AGENTS, 5)), network("directed")
    own = Sketch.at_start(p, w)
    total = np.broadcast_to(own.rounded(net).sum(axis=0), own.products.shape)
    (V, _), kept = own.of_network(p, net, 0, news(total, known=Quadratic(None, None, own.unknown())))
    H = hessians(p, w).sum(axis=0)
    np.testing.assert_allclose(V @ V.swapaxes(1, 2), np.broadcast_to(H, V.shape), rtol=0, atol=1e-3 * np.trace(H))
    assert np.abs(kept.basis[0].T @ own.basis[0]).max() < 0.99  # others are drawn
    assert (kept.moved(p, w).basis == kept.basis[0]).all()


def test_new_products_replace_what_they_tell_and_leave_the_rest():
    """The new matrix has the new products, and the old ones where they are conjugate to the new directions."""
    rng = np.random.default_rng(0)
    V, root = rng.standard_normal((2, 20, 8)), rng.standard_normal((20, 20))
    H, basis = root @ root.T, directions(20, 3, 0, np.dtype(float))
    new = updated(V, basis, np.broadcast_to(H @ basis, (2, 20, 3)))
    assert new.shape == V.shape
    for old, found in zip(V, new, strict=True):
        np.testing.assert_allclose(found @ (found.T @ basis), H @ basis, rtol=0, atol=2e-2 * np.abs(H).max())
        apart = np.linalg.svd(basis.T @ old @ old.T)[2][3:].T  # conjugate to the directions, as old has it
        error = found @ (found.T @ apart) - (old @ (old.T @ apart) + _low(H, basis) @ apart)
        np.testing.assert_allclose(error, 0, rtol=0, atol=2e-2 * np.abs(H).max())


def test_the_last_step_stretches_the_curvature():
    """The new matrix brings the step to the change, and is the old one on what is conjugate to the step."""
    rng = np.random.default_rng(0)
    V, root = rng.standard_normal((4, 20, 8)), rng.standard_normal((20, 20))
    H, step = root @ root.T, rng.standard_normal((4, 20))
    change = step @ H
    change[1] *= -1  # no convex function's
    step[2] = change[2] = 0
    change[3] = 0.01 * (V[3] @ (V[3].T @ step[3]))  # much less than is known
    new = stretched(V, step, change, np.full(4, np.trace(H)))
    assert new.shape == V.shape
    np.testing.assert_allclose(new[0] @ (new[0].T @ step[0]), change[0], rtol=1e-10)
    apart = np.linalg.svd(step[:1] @ V[0] @ V[0].T)[2][1:].T
    added = np.outer(change[0], change[0]) / (step[0] @ change[0])
    np.testing.assert_allclose(new[0] @ (new[0].T @ apart), (V[0] @ V[0].T + added) @ apart, rtol=0, atol=1e-10)
    assert (new[1:] == V[1:]).all()
    steep = np.vecdot(change[:1], change[:1]) / np.vecdot(step[:1], change[:1])  # the largest eigenvalue of what is added
    assert (stretched(V[:1], step[:1], change[:1], 0.999 * steep) == V[:1]).all()
    assert (stretched(V[:1], step[:1], change[:1], 1.001 * steep) == new[:1]).all()


def _low(H, basis):
    return H @ basis @ np.linalg.solve(basis.T @ H @ basis, basis.T @ H)


MANY = functools.partial(problem, "logistic", consensus.L2(0.1), consensus.MLP([4, 12, 1]))  # 73 parameters


@pytest.mark.parametrize("exchanges", [2, 3, 4])
def test_along_trees_all_get_one_curvature_as_near_as_tau_asks(exchanges):
    p, net, tau = MANY(), network("static"), 1e-2
    own = Sketch.at_start(p, np.tile(p.model.init(np.random.default_rng(0)), (AGENTS, 1)))
    assert own.mixed(net) == ()
    (V, _), kept = own.of_network(p, net, 0, news(exchanges=exchanges, tau=tau))
    assert (V[0] == V).all()
    total = own.products.sum(axis=0)
    rounded = V[0] @ (V[0].T @ own.basis[0])
    assert 0 < np.linalg.norm(rounded - total, 2) < 2 * tau  # an eighth of it, and what the Nystrom factor's shift adds
    assert net.floats == net.hubs(exchanges).messages(net.rows) * own.products[0].size
    assert net.bytes < 1.25 * net.floats  # ten bits a number would be much
    # The next directions: half of them are V's, and they are the same for all.
    assert (kept.basis == kept.basis[0]).all()
    left = np.linalg.svd(V[0])[0][:, :32]
    np.testing.assert_allclose(np.linalg.norm(kept.basis[0].T @ left, axis=0), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(kept.basis[0].T @ kept.basis[0], np.eye(64), rtol=0, atol=1e-13)
    assert (kept.moved(p, np.zeros((AGENTS, 73))).basis == kept.basis[0]).all()


def test_steps_are_a_common_unit_times_powers_of_two():
    p, net = MANY(), network("static")
    own = Sketch.at_start(p, np.tile(p.model.init(np.random.default_rng(0)), (AGENTS, 1)))
    for tau in (1e-2, 3e-3 * np.arange(1, 7)):
        damped = news(exchanges=4)._replace(damping=news().damping._replace(tau=np.broadcast_to(tau, AGENTS)))
        seen = []
        net.total = lambda blocks, exchanges: (seen.append(blocks.step), (blocks.values.sum(axis=0), blocks.step))[1]  # noqa: B023
        own = own.of_network(p, net, 0, damped)[1]
    ratio = np.log2(seen[0] / own.unit)
    np.testing.assert_array_equal(ratio, np.round(ratio))
    assert len(set(ratio)) > 2


def test_curvature_that_is_the_same_everywhere_is_sent_once():
    p, w, net = problem(), np.zeros((AGENTS, 5)), network("static")
    H, kept = Sketch.at_start(p, w).of_network(p, net, 0, news(exchanges=4))
    np.testing.assert_allclose(H.V[0] @ H.V[0].T, hessians(p, w).sum(axis=0), rtol=0, atol=1e-6)
    sent = net.bytes
    moved = kept.moved(p, w + 1)
    assert moved.products.shape == (AGENTS, 5, 0)
    assert moved.of_network(p, net, 1, news(known=Quadratic(None, None, H)))[0] is H
    assert net.bytes == sent


def test_local_models_that_are_exact_are_not_tested():
    def test(*_):
        raise AssertionError

    w = np.zeros((AGENTS, 5))
    Sketch.at_start(problem(), w).each_local_model(problem(), w, test)
    with pytest.raises(AssertionError):
        Sketch.at_start(problem("logistic"), w).each_local_model(problem("logistic"), w, test)
