"""Gradients that a model computes together with the loss, as JAX compiles them."""

import numpy as np
import pytest

import consensus
from consensus.losses import CrossEntropy, Huber, LogisticLoss, SquaredLoss
from tests.helpers.turns import with_slow


@pytest.mark.parametrize(
    "loss", with_slow([CrossEntropy(), Huber(0.3), LogisticLoss(), SquaredLoss()], LogisticLoss(), SquaredLoss()), ids=str
)
def test_a_compiled_gradient_is_that_of_the_loss(loss):
    """Logits up to a thousand; shards of unequal sizes; an agent alone gets the same bits."""
    pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 4)) * np.logspace(-2, 3, 12)[:, None]
    outputs = 3 if isinstance(loss, CrossEntropy) else 1
    y = rng.integers(0, max(2, outputs), 12)
    shards = consensus.partition(X, y, 3, "sizes", sizes=[6, 4, 2])
    model = consensus.models.JAX(lambda weights, x: x @ weights, np.zeros((4, outputs)))
    problem = consensus.Problem(model, loss, shards, consensus.L2(0.1))
    w = rng.standard_normal((3, problem.parameters))

    found, linearization = problem.linearize(w, slice(None))
    wanted = linearization.vjp(loss.gradient(found, shards.targets) * problem.weights[:, :, None])
    gradient = problem.gradient(w)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-11, atol=1e-14 * np.abs(wanted).max())
    np.testing.assert_array_equal(problem.restrict(slice(1, 2)).gradient(w[1:2]), gradient[1:2])
    assert problem.work.samples == 12


def test_a_derived_loss_is_not_compiled_as_its_base():
    pytest.importorskip("jax")

    class Doubled(SquaredLoss):
        def gradient(self, outputs, targets):
            return 2 * super().gradient(outputs, targets)

    model = consensus.models.JAX(lambda weights, x: x @ weights, np.zeros((4, 1)))
    assert model.gradient_of(SquaredLoss()) is not None
    assert model.gradient_of(Doubled()) is None


def test_a_model_with_a_faster_gradient_is_asked_for_it():
    class Scale:
        """f(w, x) = w x, with the gradient of squared errors in one line."""

        parameters = outputs = 1

        def init(self, rng):
            return np.zeros(1)

        def predict(self, w, x):
            return x * w[:, :, None]

        def vjp(self, w, x, u):
            raise AssertionError("not the faster way")

        jvp = vjp

        def gradient_of(self, loss):
            def gradient(w, x, targets, weights, out):
                out[...] = (weights * (x * (x * w[:, :, None] - targets))[:, :, 0]).sum(axis=1, keepdims=True)

            return gradient if isinstance(loss, SquaredLoss) else None

    x, w = np.arange(1.0, 7.0), np.array([[1.0], [3.0]])
    problem = consensus.Problem(Scale(), SquaredLoss(), consensus.partition(x[:, None], 2 * x, 2))
    curvature = (problem.weights * problem.shards.features[:, :, 0] ** 2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(problem.gradient(w), curvature * (w - 2), rtol=1e-14)
    with pytest.raises(AssertionError, match="not the faster way"):
        consensus.Problem(Scale(), Huber(0.3), problem.shards).gradient(w)
