"""Gradients that JAX compiles with the loss are those of the loss by itself."""

import numpy as np
import pytest

import consensus
from consensus.losses import CrossEntropy, Huber, LogisticLoss, SquaredLoss

pytest.importorskip("jax")


@pytest.mark.parametrize("loss", [CrossEntropy(), LogisticLoss(), SquaredLoss(), Huber(0.3)], ids=str)
def test_a_compiled_gradient_is_that_of_the_loss(loss):
    """Logits up to a thousand; shards of unequal sizes; an agent by itself gets the same bits."""
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
