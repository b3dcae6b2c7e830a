"""A parameter server in shards, in memory that the replicas share with it."""

from typing import NamedTuple

import numpy as np

from consensus.workers.blocks import blocks_of
from consensus.workers.locks import Locks
from consensus.workers.shared_memory import SharedArray


class ParameterServer(NamedTuple):
    """The parameters in slices, each with its part of Adagrad's sums, under a lock of its own.

    Attributes
    ----------
    slices : list of slice
        The parameters of each of the S shards.
    w, sums : SharedArray (P,)
        Parameters, and Adagrad's sums of squared gradients.
    versions : SharedArray (S,)
        Number of updates of each shard.
    locks : Locks
        A lock for each shard, and a last one that is free for other uses.
    learning_rate : float
        Step size.
    adagrad : bool
        Whether Adagrad sets the steps.
    """

    slices: list[slice]
    w: SharedArray
    sums: SharedArray
    versions: SharedArray
    locks: Locks
    learning_rate: float
    adagrad: bool

    @classmethod
    def of(
        cls, w: np.ndarray, sums: np.ndarray, versions: np.ndarray, learning_rate: float, adagrad: bool
    ) -> "ParameterServer":
        """Return one with these parameters and sums (P,), in as many shards as there are ``versions``."""
        memory = tuple(SharedArray(array.shape, array.dtype) for array in (w, sums, versions))
        for shared, array in zip(memory, (w, sums, versions)):
            shared.array[...] = array
        locks = Locks(SharedArray((len(versions) + 1,), np.uint8))
        return cls(blocks_of(len(w), len(versions)), memory[0], memory[1], memory[2], locks, learning_rate, adagrad)

    def fetch(self, into: np.ndarray, seen: np.ndarray) -> None:
        """Copy the parameters ``into`` (P,), shard after shard, and their versions into ``seen`` (S,)."""
        for shard, part in enumerate(self.slices):
            with self.locks.held(shard):
                into[part] = self.w.array[part]
                seen[shard] = self.versions.array[shard]

    def push(self, gradient: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """Apply a ``gradient`` (P,), shard after shard; return its staleness (S,), the updates of each shard since ``seen``.

        With Adagrad ``sums += gradient^2, w -= learning_rate gradient / sqrt(sums)``, else ``w -= learning_rate gradient``.
        """
        late = np.empty(len(self.slices), np.int64)
        w, sums, versions = self.w.array, self.sums.array, self.versions.array
        for shard, part in enumerate(self.slices):
            own = gradient[part]
            with self.locks.held(shard):
                late[shard] = versions[shard] - seen[shard]
                if self.adagrad:
                    sums[part] += own**2
                    own = own / np.sqrt(np.where(sums[part] > 0, sums[part], 1))
                w[part] -= self.learning_rate * own
                versions[shard] += 1
        return late
