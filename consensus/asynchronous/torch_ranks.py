"""Solvers without rounds on ranks of torch.distributed that do not wait for each other."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, cast

import numpy as np

from consensus.asynchronous.post import RankPost, late_at_the_end
from consensus.asynchronous.ranks import AsyncRanks
from consensus.engines.ranks import Ranks
from consensus.engines.transport import LostRank
from consensus.frameworks.torch_engine import Torch
from consensus.frameworks.torch_transport import TorchTransport

if TYPE_CHECKING:
    from torch.distributed import Work

TAKEN = 32  # added to the tag of a message: the tag of the word that it was taken
LEAVES = 1911  # the tag of the last word of a rank
_MOMENT = 3e-4  # seconds


class AsyncTorch(AsyncRanks, Torch):
    """Run a solver without rounds on ranks of ``torch.distributed``, of one machine or many, with no barrier between them.

    Start the script as for :class:`consensus.engines.Torch`, by torchrun or srun; no MPI is needed. Ranks wake their agents,
    and send, count and record, as those of :class:`consensus.asynchronous.AsyncMPI`: at most one message at a time is on its
    way from a rank to another, and messages that agents would send meanwhile count as ``lost``. Messages are arrays of a fixed
    size, by gloo. The order of wakes is the machines', so no two runs are equal.

    An error on one rank ends the job. When a rank dies, the first one notices at its next look, writes the history, names it
    and ends; the others end with it. A run that torchrun starts again begins anew: there are no checkpoints.

    Parameters
    ----------
    init_method : str, optional
        URL at which the ranks meet, such as ``"tcp://10.0.0.1:23456"``; by default the environment says.
    rank, size : int, optional
        This rank, and the number of ranks; by default from the environment.
    cores : int
        Threads inside a rank.
    timeout : float
        Seconds that a rank may take to answer the first one, or to begin or end with all others, before the job is ended. To
        meet ranks have a minute at least.

    Raises
    ------
    ImportError
        If PyTorch is missing.
    TypeError
        If the solver has rounds, or needs more than the newest message of each agent.
    ValueError
        If neither the arguments nor the environment say where the other ranks are. If a checkpoint is asked for: there is no
        round at which all agents could be saved. If ranks hold their own agents' data alone: the first one measures all.
    consensus.errors.WorkerError
        If the ranks do not meet in time.

    Examples
    --------
    >>> import pathlib, tempfile, networkx as nx, numpy as np, torch, consensus
    >>> from consensus.asynchronous import ASYSONATA
    >>> from consensus.engines import AsyncTorch
    >>> from consensus.surrogates import FullLinearization
    >>> centres = np.arange(5.0)[:, None]
    >>> value = lambda w, rows: ((w - centres[rows]) ** 2).sum(axis=1)
    >>> problem = consensus.Problem.from_functions(value, lambda w, rows: 2 * (w - centres[rows]), agents=5, parameters=1)
    >>> solver, options = ASYSONATA(FullLinearization(tau=10.0), 0.3), {"rounds": 300, "record_every": 300}
    >>> with tempfile.TemporaryDirectory() as folder:  # one rank meets itself; under torchrun it is AsyncTorch()
    ...     engine = AsyncTorch(pathlib.Path(folder, "meeting").as_uri(), rank=0, size=1)
    ...     result = consensus.solve(problem, nx.cycle_graph(5), solver, engine=engine, **options)
    ...     torch.distributed.destroy_process_group()
    >>> result.mean.round(4).tolist()
    [2.0]
    """

    def __init__(
        self,
        init_method: str | None = None,
        rank: int | None = None,
        size: int | None = None,
        cores: int = 1,
        timeout: float = 600.0,
    ) -> None:
        super().__init__(init_method, rank, size, cores, timeout=timeout)

    def _post(self) -> RankPost:
        return TorchPost(cast(TorchTransport, self.ranks.transport))


class TorchPost(RankPost):
    """The messages of ranks over gloo, where nobody has to wait for a message to see that it has arrived.

    A message of gloo is over when a thread has waited for it. Where it is there already, that takes no time: its receiver sees
    its last byte in the buffer, and tells the sender. A thread for each other rank waits for its last word, to learn when the
    connection to it breaks.

    Parameters
    ----------
    transport : TorchTransport
        What sends and receives.
    """

    def __init__(self, transport: TorchTransport) -> None:
        super().__init__()
        self.transport, self.lost = transport, set[int]()
        self._threads = {rank: self._watched(rank) for rank in range(transport.size) if rank != transport.me}

    def sends(self, rank: int, kind: int, buffer: np.ndarray) -> Sending:
        return Sending(self, rank, kind, buffer)

    def receives(self, rank: int, kind: int, buffer: np.ndarray) -> Receiving:
        return Receiving(self, rank, kind, buffer)

    def pause(self) -> None:
        time.sleep(_MOMENT)  # gloo's own threads have the core: an agent that wakes meanwhile would have no news, either

    def end(self, ranks: Ranks) -> None:
        super().end(ranks)
        word = np.ones(1, np.uint8)
        works = {rank: self.transport.send(rank, word, LEAVES) for rank in self._threads}
        over = time.monotonic() + ranks.timeout
        for thread in self._threads.values():
            thread.join(max(0.0, over - time.monotonic()))
        late = {rank for rank, thread in self._threads.items() if thread.is_alive()}
        if late:
            raise late_at_the_end(ranks, late)
        for rank, work in works.items():
            self.check(rank)
            self.transport.wait(rank, work)  # no time at all: all others have asked for it from the beginning

    def check(self, rank: int) -> None:
        """Raise ``LostRank`` if the connection to a rank has broken."""
        if rank in self.lost:
            raise LostRank(rank)

    def _watched(self, rank: int) -> threading.Thread:
        word = np.zeros(1, np.uint8)
        work = self.transport.receive(rank, word, LEAVES)

        def wait(word: np.ndarray) -> None:  # which must live until then
            try:
                self.transport.wait(rank, work)
            except LostRank:
                self.lost.add(rank)

        thread = threading.Thread(target=wait, args=(word,), name=f"watches rank {rank}", daemon=True)
        thread.start()
        return thread


class Sending:
    """A :class:`consensus.asynchronous.post.Request` that sends, and is told when the message was taken."""

    def __init__(self, post: TorchPost, rank: int, tag: int, buffer: np.ndarray) -> None:
        self._post, self._rank, self._tag, self._buffer = post, rank, tag, buffer
        self._taken = np.ones(1, np.uint8)
        self._works: list[Work] = []

    def Start(self) -> None:
        transport, rank, tag = self._post.transport, self._rank, self._tag
        self._taken[0] = 0
        # Asked for first, so that the receiver's word need not wait.
        self._works = [transport.receive(rank, self._taken, tag + TAKEN), transport.send(rank, self._buffer, tag)]

    def Test(self) -> bool:
        if not self._taken[0]:
            self._post.check(self._rank)
            return False
        self.Free()
        return True

    def Free(self) -> None:
        for work in self._works:
            self._post.transport.wait(self._rank, work)
        self._works.clear()


class Receiving:
    """A :class:`consensus.asynchronous.post.Request` that receives messages with a last byte other than 0, and says so."""

    def __init__(self, post: TorchPost, rank: int, tag: int, buffer: np.ndarray) -> None:
        self._post, self._rank, self._tag, self._buffer = post, rank, tag, buffer
        self._word = np.ones(1, np.uint8)
        self._works: list[Work] = []

    def Start(self) -> None:
        self._buffer[-1] = 0
        self._works.append(self._post.transport.receive(self._rank, self._buffer, self._tag))

    def Test(self) -> bool:
        if not self._buffer[-1]:
            self._post.check(self._rank)
            return False
        self.Free()
        self._works = [self._post.transport.send(self._rank, self._word, self._tag + TAKEN)]
        return True

    def Free(self) -> None:
        for work in self._works:  # no time at all: the word about the last message was sent before this one came
            self._post.transport.wait(self._rank, work)
        self._works.clear()
