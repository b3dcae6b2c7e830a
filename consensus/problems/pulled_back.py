"""The backward pass of a sum of losses."""

import numpy as np

from consensus.losses.base import Loss
from consensus.models import Model, linearize


def pulled_back(
    model: Model, loss: Loss, x: np.ndarray, d: np.ndarray, c: np.ndarray, w: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """Write the gradients of ``sum_m c_m l(f(w, x_m), d_m)`` into ``out`` (agents, P), and return f, by one pass."""
    own = getattr(model, "linearize", None)  # enough for a single product with the Jacobian
    outputs, linearization = own(w, x) if own else linearize(model, w, x)
    slopes = loss.gradient(outputs, d)
    slopes *= c[:, :, None]
    linearization.vjp(slopes, out=out)
    return outputs
