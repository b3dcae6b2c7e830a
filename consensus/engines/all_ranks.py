"""What ranks gather for the observer."""

import signal
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from consensus._files import Hold
from consensus.checkpoint import Checkpoint, write
from consensus.engines import rank_files
from consensus.engines.ranks import Ranks
from consensus.observe.counts import total
from consensus.observe.protocols import Masks

T = TypeVar("T")
_PART_BYTES = 1 << 20  # of the rows that are on all ranks at a time


class AllRanks:
    """The :class:`consensus.observe.Gather` of ranks with blocks of ``sizes`` agents.

    ``signal`` is one by which the system has told this rank to end, 0 if there is none; ranks hear of it as they gather counts.
    """

    def __init__(self, ranks: Ranks, sizes: np.ndarray) -> None:
        self.ranks, self.sizes = ranks, sizes
        self.signal = self._signal_of_any = 0
        self._masks: Masks | None = None
        self._sums = 0  # that were masked

    def rows(self, block: np.ndarray) -> np.ndarray:
        return self.ranks.allgather_rows(block, self.sizes)

    def parts(self, block: np.ndarray) -> Iterator[np.ndarray]:
        ends = np.cumsum(self.sizes)
        starts, agents = ends - self.sizes, int(ends[-1])
        few = max(1, _PART_BYTES // max(1, block[:1].nbytes))
        for first in range(0, agents, few):
            low, high = (np.clip(edge, starts, ends) - starts for edge in (first, first + few))
            yield self.ranks.allgather_rows(block[low[self.ranks.me] : high[self.ranks.me]], high - low)

    def chain(self, step: Callable[[np.ndarray], np.ndarray], value: np.ndarray) -> np.ndarray:
        return self.ranks.chain(step, value)

    def masked_sum(self, codes: np.ndarray, masks: Callable[[range], Masks]) -> np.ndarray:
        if self.ranks.size > 1:
            if self._masks is None:
                end = int(self.sizes[: self.ranks.me + 1].sum())
                self._masks = masks(range(end - int(self.sizes[self.ranks.me]), end))
                self._masks.agree(self.rows(self._masks.public))
            codes = codes + self._masks.drawn(self._sums, codes.shape[1])
            self._sums += 1
        return self.chain(lambda total: total + codes.sum(axis=0), np.zeros(codes.shape[1], np.uint64))

    def total(self, counts: dict[str, Any], seconds: float) -> tuple[dict[str, Any], float]:
        theirs, times, signals = zip(*self.ranks.allgather((counts, seconds, self.signal)), strict=True)
        self._signal_of_any = max(signals)
        return total(theirs), max(times)

    def preempted(self) -> str | None:
        """Return which signal told one of the ranks to end, None if none did."""
        return f"told to end by {signal.Signals(self._signal_of_any).name}" if self._signal_of_any else None

    def once(self, function: Callable[[], T]) -> T:
        return self.ranks.broadcast(function() if self.ranks.me == 0 else None)

    def decide(self, function: Callable[[Callable[[], np.ndarray]], T], block: np.ndarray) -> T:
        if self.ranks.me:
            answer: tuple[T] | None
            while True:
                answer = self.ranks.broadcast(None)
                if answer is not None:
                    return answer[0]
                self.ranks.gather_rows(block, self.sizes)  # for which the first rank asks
        over = False

        def everyone() -> np.ndarray:
            if over:
                raise RuntimeError("the rows of other ranks are there while a callback runs: keep a copy of info.w then")
            self.ranks.broadcast(None)
            return self.ranks.gather_rows(block, self.sizes)

        result = function(everyone)
        over = True
        self.ranks.broadcast((result,))
        return result

    def save(self, hold: Hold, checkpoint: Checkpoint) -> None:
        if self.ranks.size == 1:
            write(hold.path, checkpoint)
        else:
            rank_files.save(self.ranks, self.sizes, hold, checkpoint)
