"""The memory that worker processes and their parent share, and the network on it."""

import multiprocessing
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from consensus.communication.block import BlockNetwork
from consensus.communication.plans import Plan
from consensus.errors import WorkerError
from consensus.observe.counts import NAMES, total
from consensus.workers.barrier import Barrier
from consensus.workers.shared_memory import SharedArray
from topologies import _names
from topologies.schedules import ScheduleLike


class SharedState(NamedTuple):
    """The memory through which workers and their parent communicate: see :meth:`of`."""

    blocks: list[slice]
    barrier: Barrier
    halves: tuple[SharedArray, SharedArray]
    iterates: SharedArray
    report: SharedArray
    reported: SharedArray
    round: SharedArray
    counts: SharedArray
    traffic: SharedArray
    seconds: SharedArray
    answer: SharedArray
    labels: tuple[Hashable, ...] | None

    @property
    def parent(self) -> int:
        """The parent's place at the barrier, after the workers'."""
        return len(self.blocks)

    @classmethod
    def of(
        cls,
        blocks: list[slice],
        parameters: int,
        dtype: np.dtype,
        width: int,
        columns: int,
        labels: tuple[Hashable, ...] | None = None,
    ) -> "SharedState":
        """Return the memory for ``blocks`` of agents, for ``width`` numbers per agent to mix and ``columns`` to report.

        ``labels`` are the agents' names in messages.
        """
        agents, workers = blocks[-1].stop, len(blocks)
        return cls(
            blocks=blocks,
            barrier=Barrier(workers + 1),
            # Two halves, used in turn: when one is written again, all workers have finished reading it.
            halves=(SharedArray((width * agents,), dtype), SharedArray((width * agents,), dtype)),
            iterates=SharedArray((agents, parameters), dtype),
            report=SharedArray((agents, max(1, columns)), np.float64),
            reported=SharedArray((workers,), np.int64),  # how often each worker has reported to the parent
            round=SharedArray((workers,), np.int64),
            counts=SharedArray((workers, len(NAMES)), np.int64),
            traffic=SharedArray((agents,), np.int64),
            seconds=SharedArray((workers,), np.float64),
            # The parent's to the newest reports: whether to stop, whether to send the state, and the next round to record.
            answer=SharedArray((3,), np.int64),
            labels=labels,
        )

    def name(self, worker: int) -> str:
        """Return a worker's name in messages."""
        rows = self.blocks[worker]
        return f"worker {worker} ({_names.block(rows, self.labels)})"

    def late(self, worker: int, timeout: float) -> WorkerError:
        """Return the error that ``worker`` kept others waiting for more than ``timeout`` seconds."""
        return WorkerError(
            f"{self.name(worker)} kept the others waiting for over {timeout:g} s in round {int(self.round.array[worker]) + 1}; "
            "raise Processes(timeout=...) if its rounds take that long, or go on from a checkpoint with solve(..., resume=path)"
        )

    def totals(self) -> tuple[dict[str, Any], float]:
        """Return the network's counts and the slowest worker's seconds."""
        counts = [dict(zip(NAMES, counts, strict=True)) for counts in self.counts.array.tolist()]
        return total(counts) | {"traffic": self.traffic.array.copy()}, float(self.seconds.array.max())


class SharedNetwork(BlockNetwork):
    """A network in shared memory: every worker writes its rows, waits for the others, and reads its neighbours' rows.

    Beside what a :class:`consensus.communication.BlockNetwork` takes, ``worker`` is this worker's number, and ``timeout`` in
    seconds to wait for the others.
    """

    def __init__(
        self,
        schedule: ScheduleLike,
        rows: slice,
        dtype: np.dtype,
        strict: bool,
        shared: SharedState,
        worker: int,
        timeout: float,
    ) -> None:
        super().__init__(schedule, rows, dtype, strict)
        self.shared, self.worker, self.timeout = shared, worker, timeout
        # Not os.getppid(): that is another process if the parent ended while this one was starting.
        parent = multiprocessing.parent_process()
        assert parent is not None, "a worker has been started by another process"
        self.meetings, self.parent = 0, parent.pid

    def _gather(self, plan: Plan, blocks: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
        # As many blocks at a time as a half holds. They are yielded one by one, so that a half is written again only after all
        # workers have multiplied its blocks.
        room = self.shared.halves[0].array.size // self.agents
        while blocks:
            group: list[np.ndarray] = []
            width = 0
            while blocks and (width := width + self._width(blocks[0])) <= room:
                group.append(blocks[0])
                blocks = blocks[1:]
            if not group:
                raise ValueError(f"a block to mix has {width} numbers per agent, workers share {room}: split it")
            yield from self._meet(group)

    def _width(self, block: np.ndarray) -> int:
        """Return the size of a row of ``block``, as bytes if it is packed, in numbers of the problem's dtype."""
        return -(-int(block[0].nbytes) // self.dtype.itemsize)

    def _meet(self, blocks: list[np.ndarray]) -> list[np.ndarray]:
        """Return the ``blocks`` with all agents' rows, after all workers have written theirs."""
        half = self.shared.halves[self.meetings % 2].array
        agents, start, wholes = self.agents, 0, []
        for block in blocks:
            end = start + agents * self._width(block)
            place = half[start:end].view(block.dtype)[: agents * block[0].size]
            whole = place.reshape(agents, *block.shape[1:])
            whole[self.rows] = block
            wholes.append(whole)
            start = end
        self.meetings += 1
        barrier, workers = self.shared.barrier, slice(0, self.shared.parent)
        barrier.arrive(self.worker, self.meetings)
        try:
            barrier.wait(self.meetings, workers, self.timeout, self.parent)
        except TimeoutError:
            raise self.shared.late(int(barrier.counters.array[workers].argmin()), self.timeout) from None
        return wholes
