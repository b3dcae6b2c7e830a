"""Some of every agent's samples."""

from typing import NamedTuple, Self

import numpy as np

from consensus import _checks


class Batch(NamedTuple):
    """Some samples of every agent of a block, for :meth:`consensus.problems.BaseProblem.gradient`.

    Attributes
    ----------
    indices : ndarray of int (agents, size)
        The samples' places in the agents' shards.
    weights : ndarray (agents, size)
        Factors of the samples' gradients in the sum; zero where an agent uses fewer samples than others.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.problems import Batch
    >>> shards = consensus.Shards.from_list([([[1.0], [2.0], [4.0]], np.zeros(3))])
    >>> problem = consensus.Problem(consensus.Linear(1, bias=False), consensus.SquaredLoss(), shards)
    >>> problem.gradient([[1.0]], Batch(np.array([[0, 2]]), np.array([[1.0, 0.5]]))).tolist()  # (1^2 + 4^2 / 2) / 3
    [[3.0]]
    """

    indices: np.ndarray
    weights: np.ndarray


class NumberedBatch(Batch):
    """A batch with the number of its draw, a round for most solvers, by which models with dropout seed their random numbers.

    It unpacks into indices and weights alone, as every batch.

    Attributes
    ----------
    indices, weights : ndarray (agents, size)
        As in :class:`Batch`.
    draw : int
        The number of the draw, at least 0.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> shards = consensus.partition(np.eye(6), np.zeros(6), agents=2)
    >>> batch = consensus.Minibatches(2).at(consensus.Problem(consensus.Linear(6), consensus.SquaredLoss(), shards), 7)
    >>> type(batch).__name__, batch.draw, batch.indices.shape
    ('NumberedBatch', 7, (2, 2))
    """

    draw: int

    @classmethod
    def of(cls, indices: np.ndarray, weights: np.ndarray, draw: int) -> Self:
        """Return the batch.

        Parameters
        ----------
        indices, weights : ndarray (agents, size)
            As in :class:`Batch`.
        draw : int
            The number of the draw.

        Returns
        -------
        NumberedBatch
            The batch.
        """
        batch = cls(indices, weights)
        batch.draw = draw
        return batch


def checked(batch: object, agents: int, samples: int) -> Batch:
    """Return ``batch`` if its places are among so many ``samples`` of each of so many ``agents``; raise otherwise."""
    wanted = "a Batch, as consensus.Minibatches(32).at(problem, round) draws it"
    found: Batch = _checks.offers("batch", batch, ("indices", "weights"), wanted)
    places, weights = found.indices, np.shape(found.weights)
    if len(places) != agents:
        raise ValueError(f"batch must have a row for each of the {agents} agents held here; got {len(places)}")
    if weights != places.shape or places.ndim != 2:
        raise ValueError(f"indices and weights of batch must have one shape (agents, size); got {places.shape}, {weights}")
    if places.size and (places.min() < 0 or places.max() >= samples):
        agent, place = np.argwhere((places < 0) | (places >= samples))[0]
        raise ValueError(
            f"indices of batch must be places in a shard, 0 .. {samples - 1}; got {places[agent, place]} of agent {agent}"
        )
    return found
