"""Directions that all agents draw alike, and what products with them tell."""

import numpy as np
import pytest
from problems import AGENTS, problem

import consensus
from consensus.solvers.adaptive import sketch
from consensus.solvers.adaptive.sketch import Sketch, columns, directions


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
    flat = Sketch(np.zeros((AGENTS, 5, 5)))
    gradient = np.random.default_rng(1).standard_normal((AGENTS, 5))
    scale, _ = flat.scale(p, w, gradient)
    np.testing.assert_allclose(AGENTS * np.linalg.norm(gradient, axis=1) / scale, 1 + np.linalg.norm(w, axis=1), rtol=1e-12)


@pytest.mark.parametrize("round", [0, 3])
def test_the_networks_sums_give_the_factor_of_its_curvature(round):
    """Exactly, as there are as many directions as parameters."""
    p, w = problem(), np.zeros((AGENTS, 5))
    own = Sketch.at_start(p, w) if round == 0 else Sketch.at_start(p, w).moved(p, w, round)
    total = Sketch(np.broadcast_to(own.products.sum(axis=0), own.products.shape))
    V, kept = own.of_network(p, round, total, None, None)
    H = hessians(p, w).sum(axis=0)
    np.testing.assert_allclose(V.V @ V.V.swapaxes(1, 2), np.broadcast_to(H, V.V.shape), rtol=0, atol=1e-6)
    assert kept is own


def test_local_models_that_are_exact_are_not_tested():
    def test(*_):
        raise AssertionError

    w = np.zeros((AGENTS, 5))
    Sketch.at_start(problem(), w).each_local_model(problem(), w, test)
    with pytest.raises(AssertionError):
        Sketch.at_start(problem("logistic"), w).each_local_model(problem("logistic"), w, test)
