"""Sums over samples that are read as they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from consensus._arrays.parallel import for_chunks
from consensus._arrays.rows import empty
from consensus.frameworks.torch_loss import TorchLoss
from consensus.problems.batch import Batch, checked
from consensus.problems.problem import Problem
from consensus.problems.samples import (
    ChunkFunction,
    SampleSums,
    Then,
    added_up,
    by_agent,
    done,
    of_batches,
    trains_apart,
    unpadded,
)
from consensus.streaming.lazy_shards import LazyShards
from topologies import _names


class LazySums(SampleSums):
    """Sums over the samples of a :class:`consensus.problems.LazyProblem`.

    Gradients of batches have the bits of those of a :class:`consensus.Problem` with the same samples. So have sums over all
    samples if every shard is read at once; otherwise they are sums of parts.
    """

    shards: LazyShards  # type: ignore[assignment]  # what reads the features of Shards is overridden
    trial: Problem | None  #: of the first samples alone, by which test sets are checked; None with a collate function
    _scale: np.ndarray  # c, a number
    _sample: tuple[int, ...]  # the shape of a sample's features, and their dtype, and how many targets it has
    _features: np.dtype
    _columns: int
    _only: Batch | None = None  # the samples that are all of a sampled problem

    @property
    def samples_at_once(self) -> int:
        return min(self.shards.chunk, super().samples_at_once)

    def _make_kernel_calls(self) -> None:
        return None  # no kernel takes all samples at once

    def _over_samples(
        self, function: ChunkFunction, w: np.ndarray, row: tuple[int, ...], batch: Batch | None = None, then: Then = done
    ) -> np.ndarray:
        if batch is not None:
            self.work.samples += int(np.count_nonzero(batch.weights))
        arrays: tuple[np.ndarray, ...] = w, (out := empty((self.agents, *row), self.dtype))
        most, sizes = self.shards.most, self.shards.sizes
        chosen = self._chosen(self._only if batch is None else batch)
        few = min(most, self.samples_at_once) if chosen is None else chosen.indices.shape[1]
        several = chosen is None and most > few  # of the whole network, so that all engines have equal bits
        plan, everyone = self._plan_for(few), np.arange(self.agents)
        if of_batches(self.loss) or (batch is not None and trains_apart(self.model)):
            function, arrays = by_agent(function, self.model, self.loss, batch), (*arrays, self.rows)
        elif self.trial is not None and plan.alone:
            function = unpadded(function)

        def passes(agents: np.ndarray) -> Iterator[tuple[slice, Any, np.ndarray, np.ndarray]]:
            if chosen is not None:
                yield from self._read(agents, chosen.indices[agents], self._scale * chosen.weights[agents])
                return
            for start in range(0, int(sizes[agents].max()), few):
                places = np.arange(start, min(start + few, most))
                c = np.where(places < sizes[agents, None], self._scale, 0).astype(self.dtype)
                yield from self._read(agents, np.broadcast_to(places, c.shape), c)

        def chunk(rows: slice) -> None:
            blocks = [array[rows] for array in arrays]
            if several:
                added_up(function, passes(everyone[rows]), *blocks)
            else:
                for some, x, d, c in passes(everyone[rows]):
                    own, result, *numbers = (block[some] for block in blocks)
                    function(own, x, d, c, result, *numbers)
            then(rows, out[rows])

        for_chunks(chunk, self.agents, plan.touched, 0, plan.streamed, plan.shared)
        return out

    def _chosen(self, batch: Batch | None) -> Batch | None:
        """Return a batch that has been checked: its places are samples of the agents."""
        if batch is None:
            return None
        batch, sizes = checked(batch, self.agents, self.shards.most), self.shards.sizes[:, None]
        if (batch.indices >= sizes).any():
            agent, place = np.argwhere(batch.indices >= sizes)[0]
            raise ValueError(
                f"indices of batch must be samples of the agents; got {batch.indices[agent, place]} of agent "
                f"{self.rows[agent]}, which has {sizes[agent, 0]}"
            )
        return batch

    def _read(
        self, agents: np.ndarray, places: np.ndarray, c: np.ndarray
    ) -> Iterator[tuple[slice, Any, np.ndarray, np.ndarray]]:
        """Yield ``rows, x, d, c`` of the samples at ``places``, without those of weight zero: zeros in arrays of all agents.

        Collated inputs x are of one agent at a time.
        """
        if self.trial is None:
            for row, agent in enumerate(agents.tolist()):
                if places[row, 0] >= self.shards.sizes[agent]:
                    continue  # all of its samples have been read
                real = c[row] != 0
                real[0] |= not real.any()
                inputs, targets = self.shards.read(agent, places[row, real])
                yield slice(row, row + 1), [inputs], self._checked(agent, targets)[None], c[row : row + 1, real]
            return
        x = np.zeros((*c.shape, *self._sample), self._features)
        d = np.zeros((*c.shape, self._columns), self.dtype)
        for row, agent in enumerate(agents.tolist()):
            real = c[row] != 0
            if real.any():
                inputs, targets = self.shards.read(agent, places[row, real])
                if inputs.shape[1:] != self._sample or targets.shape[1] != self._columns:
                    name = _names.agent(self.shards.rows[agent], self.shards.labels)
                    raise ValueError(
                        f"samples of {name} must have features {self._sample} and {self._columns} "
                        f"targets, as those of the first agent; got {inputs.shape[1:]} and {targets.shape[1]}"
                    )
                x[row, real], d[row, real] = inputs, self._checked(agent, targets)
        yield slice(None), x, d, c

    def _checked(self, agent: int, targets: np.ndarray) -> np.ndarray:
        """Return targets in the run's dtype; raise ``ValueError`` if they are none of the loss's."""
        d, outputs = targets.astype(self.dtype), self.model.outputs
        if isinstance(self.loss, TorchLoss):  # which would try its function anew, and PyTorch checks targets by itself
            return d
        if outputs % self._columns == 0:  # those of ragged texts are as many as their tokens
            outputs = outputs // self._columns * d.shape[1]
        try:
            self.loss.check(d, outputs)
        except ValueError as error:
            raise ValueError(f"targets of {_names.agent(self.rows[agent], self.shards.labels)} do not fit: {error}") from error
        return d
