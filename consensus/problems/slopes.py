"""Slopes of the package's losses as functions of JAX, so that gradients of its models are one compiled call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from consensus.losses import CrossEntropy, Huber, LogisticLoss, SquaredLoss
from consensus.losses.base import Loss
from consensus.models.base import Model
from consensus.models.jax import JAX


def traceable(model: Model, loss: Loss) -> Callable[..., Any] | None:
    """``(outputs, targets, weights) -> weights times the loss's derivative``, of an agent's samples (samples, ...).

    For ``model.pull_back``; None if the model has none, or the loss is a user's own.
    """
    return _slope(loss) if type(model) is JAX and type(loss) in _SLOPES else None


@functools.lru_cache(maxsize=64)  # one function for a loss: the model keeps by it what is compiled
def _slope(loss):
    return lambda outputs, targets, weights: weights[:, None] * _SLOPES[type(loss)](loss, outputs, targets)


def _softmax(loss, outputs, targets):
    import jax

    return jax.nn.softmax(outputs) - (targets == jax.numpy.arange(outputs.shape[-1]))


def _sigmoid(loss, outputs, targets):
    import jax

    return jax.nn.sigmoid(outputs) - targets


_SLOPES: dict[type, Callable[..., Any]] = {
    CrossEntropy: _softmax,
    LogisticLoss: _sigmoid,
    SquaredLoss: lambda loss, outputs, targets: outputs - targets,
    Huber: lambda loss, outputs, targets: (outputs - targets).clip(-loss.delta, loss.delta),
}
