"""The weight of all samples of a network, by which a mean loss is divided."""

import numpy as np

from consensus.data import Shards
from consensus.losses.base import Loss


def total_weight(loss: Loss, shards: Shards) -> float:
    """Return the sum over the whole network of the weights of samples, times those that the loss gives their labels.

    Raise ``ValueError`` if it is zero, or if it takes the labels of agents that are not held here.
    """
    of_labels = loss.label_weights(shards.targets) if hasattr(loss, "label_weights") else 1.0
    if not isinstance(of_labels, np.ndarray):
        of_samples: float | None = getattr(shards, "total_weight", None)
        return float(of_labels) * (shards.samples if of_samples is None else of_samples)
    if shards.agents < shards.network_size:
        raise ValueError(
            f"reduction='mean' divides by the weights of all labels of the network with {loss}, and these are shards of "
            f"{shards.agents} of {shards.network_size} agents: take reduction='sum', and divide the weights by their total"
        )
    total = float(np.vecdot(shards.weights, of_labels, dtype=np.float64).sum())
    if not total:
        raise ValueError(f"samples must have labels that count with {loss}; in these shards all have the weight zero")
    return total


def scaled(weights: np.ndarray, factor: float) -> np.ndarray:
    """Return weights times a factor; zeros, the padding of smaller shards, are not touched, and take no memory."""
    found: np.ndarray = np.zeros(weights.shape, weights.dtype)
    np.multiply(weights, weights.dtype.type(factor), out=found, where=weights != 0)
    return found
