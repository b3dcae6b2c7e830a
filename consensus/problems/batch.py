"""Some of every agent's samples."""

from typing import Any, NamedTuple

import numpy as np

from consensus import _checks


class Batch(NamedTuple):
    """Some of the samples of every agent of a block, for :meth:`consensus.Problem.gradient`.

    Fields: ``indices`` (agents, size), the samples' places in the agent's shard; ``weights`` (agents, size), by which their
    gradients are multiplied before they are added; zero where an agent uses fewer samples than others.
    """

    indices: np.ndarray
    weights: np.ndarray


def checked(batch: Any, agents: int, samples: int) -> Batch:
    """``batch`` if it is one of places among so many ``samples`` of each of so many ``agents``; raise otherwise."""
    wanted = "a Batch, as consensus.Minibatches(32).at(problem, round) draws it"
    places = _checks.offers("batch", batch, ("indices", "weights"), wanted).indices
    if len(places) != agents:
        raise ValueError(f"batch must have a row for each of the {agents} agents held here; got {len(places)}")
    if np.shape(batch.weights) != places.shape or places.ndim != 2:
        shapes = f"{places.shape}, {np.shape(batch.weights)}"
        raise ValueError(f"indices and weights of batch must have one shape (agents, size); got {shapes}")
    if places.size and (places.min() < 0 or places.max() >= samples):
        agent, place = np.argwhere((places < 0) | (places >= samples))[0]
        found = f"{places[agent, place]} of agent {agent}"
        raise ValueError(f"indices of batch must be places in a shard, 0 .. {samples - 1}; got {found}")
    return batch
