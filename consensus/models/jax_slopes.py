"""Derivatives of losses as functions of JAX, so that gradients of its models are one compiled call."""

import functools
from collections.abc import Callable
from typing import Any


@functools.lru_cache(maxsize=64)  # one function for a loss: the model keeps by it what is compiled
def slope_of(loss: Any) -> Callable[..., Any] | None:
    """``(outputs, targets, weights) -> weights times the loss's derivative``, of an agent's samples (samples, ...).

    None if the loss has no ``jax_gradient``, or inherits one but has a ``gradient`` of its own.
    """
    kind = type(loss)
    owner: Any = next((one for one in kind.__mro__ if "jax_gradient" in vars(one)), None)
    if owner is None or kind.gradient is not owner.gradient:
        return None
    return lambda outputs, targets, weights: weights[:, None] * loss.jax_gradient(outputs, targets)
