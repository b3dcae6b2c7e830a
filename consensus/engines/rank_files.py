"""Checkpoints of ranks, each of which writes its own rows to a disk that others may not see."""

import errno
import os
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from consensus._arrays.files import Held, Hold
from consensus.checkpoints import parts as checkpoint_parts
from consensus.checkpoints.checkpoint import Checkpoint, read, saved_at, write
from consensus.checkpoints.parts import Part
from consensus.engines.ranks import Ranks
from consensus.engines.transport import Pairs

Rows: TypeAlias = dict[str, np.ndarray]  # of some agents, by field of the state
Agreed: TypeAlias = Callable[[], AbstractContextManager[object]]  # inside, an error on one rank is one on all


def hold(ranks: Ranks, agreed: Agreed, hold: Hold) -> None:
    """Keep other runs from the path: the first rank to come in each folder has it for all ranks that see this folder."""
    with agreed():
        try:
            hold.take()
        except Held:
            hold.shared = True
    ours = ranks.allgather(hold.holder)
    with agreed():
        if hold.shared:
            try:
                hold.take()  # once more, as who has it has said so by now
            except Held as error:
                if error.holder not in ours:
                    raise
            else:
                hold.shared = False  # the other run has just ended


def save(ranks: Ranks, sizes: np.ndarray, hold: Hold, checkpoint: Checkpoint) -> None:
    """Write this rank's rows; when all have, write what they have in common into each folder.

    ``sizes`` are the numbers of agents of the ranks. Whenever the ranks are killed, the file at the path names parts that are
    whole: no part is replaced, and old ones are removed when the file is.
    """
    saved = ranks.broadcast(time.time_ns())
    hosts = ranks.allgather(socket.gethostname())
    parts = checkpoint_parts.named(hold.path, checkpoint.round, saved, np.cumsum(sizes).tolist(), hosts)
    checkpoint_parts.write(hold.path, parts[ranks.me], checkpoint.fields)
    ranks.allgather(None)  # all parts are on disks
    if not hold.shared:
        numbers = {name: value for name, value in checkpoint.fields.items() if not np.ndim(value)}
        write(hold.path, checkpoint._replace(fields=numbers, parts=parts), saved)


def load(
    ranks: Ranks, agreed: Agreed, path: Path, check: Callable[[Checkpoint], None], blocks: Callable[[int], list[slice]]
) -> Checkpoint:
    """Read the latest checkpoint that any rank sees, with the rows of this rank.

    ``check(found)`` rejects one of another run; ``blocks(agents)`` are the agents of the ranks. Each part is read by one rank,
    which sends rows to the others that need them.

    Raises
    ------
    FileNotFoundError
    ValueError
        If no rank sees the checkpoint, or one of its parts. If a file is damaged.
    """
    with agreed():
        saved = saved_at(path)
    times = [-1 if when is None else when for when in ranks.allgather(saved)]
    source = times.index(max(times))
    if times[source] < 0:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    with agreed():
        found = read(path) if ranks.me == source else None
    whole = _rows(found.fields) if found and not found.parts else None  # written by one process
    common: Checkpoint = ranks.allgather(found and _without_rows(found, path.name))[source]
    check(common)
    parts = common.parts
    own = blocks(parts[-1].stop)
    sees = ranks.allgather([path.with_name(part.name).exists() for part in parts])
    readers = [source] if len(parts) == 1 and parts[0].name == path.name else _readers(parts, own, sees)
    lacking = [part for part, reader in zip(parts, readers, strict=True) if reader is None]
    if lacking:
        raise checkpoint_parts.lacking(path, lacking)
    with agreed():
        read_here = {
            part: checkpoint_parts.read(path, part) if whole is None else whole
            for part, reader in zip(parts, readers, strict=True)
            if reader == ranks.me
        }
    rows = _exchanged(ranks, own, list(zip(parts, readers, strict=True)), read_here)
    return common._replace(fields=common.fields | rows, parts=())


def _rows(fields: dict[str, Any]) -> Rows:
    return {name: value for name, value in fields.items() if np.ndim(value)}


def _without_rows(found: Checkpoint, name: str) -> Checkpoint:
    """Return a checkpoint in parts; one that is in a single file called ``name`` has that as its part."""
    parts = found.parts or (Part(name, 0, len(found.fields["w"]), socket.gethostname()),)
    return found._replace(fields={name: value for name, value in found.fields.items() if not np.ndim(value)}, parts=parts)


def _readers(parts: tuple[Part, ...], own: list[slice], sees: list[list[bool]]) -> list[int | None]:
    """Return for each part the rank that reads it: of those that see it the one that needs most of it; None if nobody does."""
    readers: list[int | None] = []
    for number, part in enumerate(parts):
        able = [rank for rank, seen in enumerate(sees) if seen[number]]
        readers.append(max(able, key=lambda rank: _common(part, own[rank])[1], default=None))
    return readers


def _common(part: Part, rows: slice) -> tuple[int, int]:
    """Return the first agent in a part and in ``rows``, and how many agents are in both."""
    first = max(part.first, rows.start)
    return first, max(0, min(part.stop, rows.stop) - first)


def _exchanged(ranks: Ranks, own: list[slice], parts: list[tuple[Part, int | None]], read_here: dict[Part, Rows]) -> Rows:
    """Return the rows of this rank, after all ranks have sent each other rows of what they have read."""
    some = next(iter(read_here.values()), None)
    shapes = ranks.allgather(some and {name: (array.dtype.str, array.shape[1:]) for name, array in some.items()})
    like: dict[str, tuple[str, tuple[int, ...]]] = next(filter(None, shapes))
    mine = own[ranks.me]
    rows = {name: np.empty((mine.stop - mine.start, *shape), dtype) for name, (dtype, shape) in like.items()}
    receives, sends = list[tuple[int, np.ndarray]](), list[tuple[int, np.ndarray]]()
    for part, reader in parts:
        assert reader is not None, "each part is read by a rank"
        for rank in range(ranks.size) if reader == ranks.me else [ranks.me]:
            first, count = _common(part, own[rank])
            for name in like if count else ():
                here = slice(first - own[rank].start, first - own[rank].start + count)
                there = slice(first - part.first, first - part.first + count)
                if rank == reader:
                    rows[name][here] = read_here[part][name][there]
                elif rank == ranks.me:
                    receives.append((reader, rows[name][here]))
                else:
                    sends.append((rank, read_here[part][name][there]))
    ranks.exchange(_as_bytes(receives), _as_bytes(sends))
    return rows


def _as_bytes(pairs: list[tuple[int, np.ndarray]]) -> Pairs:
    return [(rank, rows.reshape(-1).view(np.uint8)) for rank, rows in pairs if rows.size]
