"""Blocks of agents on ranks of torch.distributed, of one machine or many, without MPI."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from consensus import _checks
from consensus.engines.rank_engine import RankEngine
from consensus.errors import WorkerError
from consensus.frameworks.torch_start import Start
from consensus.frameworks.torch_store import Place
from consensus.frameworks.torch_transport import TorchTransport

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_MEETING = 60.0  # seconds that ranks have to meet, at least: they begin with imports, perhaps from a slow disk
_transports: dict[int, tuple[ProcessGroup, TorchTransport]] = {}  # by the group of all ranks: several engines use one


class Torch(RankEngine):
    """Run on ranks of ``torch.distributed``, each with a block of consecutive agents; the same bits as :class:`Stacked`.

    Start the script itself by torchrun, ``torchrun --nproc-per-node 4 script.py``, or by ``srun python script.py``: every rank
    runs it, and calls :func:`consensus.solve` with the same arguments. Arrays travel by gloo, between CPUs; no MPI is needed. A
    rank may hold only its own agents' data: see :meth:`rows` and :func:`consensus.data.load_shards`. Needs PyTorch:
    ``pip install 'consensus-opt[torch]'``.

    Ranks find each other by the variables ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``, which torchrun sets.
    Without ``RANK`` they take SLURM's: ``SLURM_PROCID``, ``SLURM_STEP_NUM_TASKS`` or ``SLURM_NTASKS``, and the first machine of
    ``SLURM_STEP_NODELIST``, where the first rank must run; ``MASTER_ADDR`` and ``MASTER_PORT`` overrule the machine and the
    port. The first rank's store listens at that address alone, and where this is a loopback address gloo's connections do, too.
    torchrun's own listens at all addresses of the machine: a warning says so. If the script has called
    ``torch.distributed.init_process_group`` already, its ranks are used.

    Arguments that differ between ranks, errors and late ranks are treated as by :class:`MPI`. When a rank dies, the others
    notice as soon as they need a message from it: they write the history beside the checkpoint, or else into the working
    directory, and end. torchrun then ends all ranks, and starts them again if it was given ``--max-restarts``: a script that
    calls ``consensus.solve(..., checkpoint=path, resume=path if os.path.exists(path) else None)`` goes on where it was.

    Parameters
    ----------
    init_method : str, optional
        URL at which the ranks meet, such as ``"tcp://10.0.0.1:23456"``, the first rank's address, or ``"file:///shared/run"``;
        by default the environment says.
    rank, size : int, optional
        This rank, and the number of ranks; by default from the environment.
    cores : int
        Threads inside a rank, for example for the blocks of :class:`consensus.surrogates.Blocks`.
    strict : bool
        Whether to check in every exchange that each message runs along an edge of that round's graph (slow; for tests).
    timeout : float
        Seconds that a rank waits for the others, in :func:`consensus.solve` and in its rounds, before it ends the job. To meet
        ranks have a minute at least.

    Raises
    ------
    ImportError
        If PyTorch is missing.
    ValueError
        If neither the arguments nor the environment say where the other ranks are.
    consensus.errors.WorkerError
        If the ranks do not meet in time.

    Examples
    --------
    >>> import pathlib, tempfile, torch, consensus, topologies
    >>> from consensus.engines import Torch
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> with tempfile.TemporaryDirectory() as folder:  # one rank meets itself; under torchrun it is Torch()
    ...     engine = Torch(init_method=pathlib.Path(folder, "meeting").as_uri(), rank=0, size=1)
    ...     result = consensus.solve(problem, topologies.ring(3), consensus.solvers.DGD(0.1), rounds=5, engine=engine)
    ...     torch.distributed.destroy_process_group()
    >>> alone = consensus.solve(problem, topologies.ring(3), consensus.solvers.DGD(0.1), rounds=5)
    >>> bool((result.w == alone.w).all())
    True
    """

    def __init__(
        self,
        init_method: str | None = None,
        rank: int | None = None,
        size: int | None = None,
        cores: int = 1,
        strict: bool = False,
        timeout: float = 600.0,
    ) -> None:
        try:
            import torch.distributed as dist
        except ImportError as error:
            raise ImportError(f"the {type(self).__name__} engine needs PyTorch: pip install 'consensus-opt[torch]'") from error
        meeting = max(_MEETING, _checks.number("timeout", timeout, above=0))
        if not dist.is_initialized():
            start, begin = Start.of(init_method, rank, size), time.monotonic()
            try:
                _meet(start, timedelta(seconds=meeting))
            except (RuntimeError, OSError) as error:
                raise WorkerError(
                    f"rank {start.rank} did not meet all {start.world_size} ranks at {start.init_method}: PyTorch, given "
                    f"{meeting:g} s, gave up after {time.monotonic() - begin:.0f} s: {error}"
                ) from error
        elif (init_method, rank, size) != (None, None, None):
            raise ValueError("init_method, rank and size must be left out: torch.distributed has its ranks already")
        super().__init__(_transport(), cores, strict, timeout)


def _meet(start: Start, timeout: timedelta) -> None:
    """Make the group of all ranks."""
    import torch.distributed as dist

    place, rank, size = Place(start), start.rank, start.world_size
    store = place.store(timeout)
    # torchrun keeps its store when it starts the ranks again, with the addresses of those that have died.
    attempt = f"consensus {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)} of {size}"
    store.set_timeout(timeout)
    with place.interface():
        dist.init_process_group("gloo", store=dist.PrefixStore(attempt, store), rank=rank, world_size=size, timeout=timeout)
    place.say()


def _transport() -> TorchTransport:
    """Return what carries messages between all ranks; if their own group is not of gloo's, between those of one that is."""
    import torch.distributed as dist

    everyone = dist.group.WORLD
    known = _transports.get(id(everyone))
    if known is None:
        _transports.clear()  # of a group that is no more
        group = everyone if dist.get_backend() == "gloo" else dist.new_group(backend="gloo")
        known = _transports[id(everyone)] = everyone, TorchTransport(group)
    return known[1]
