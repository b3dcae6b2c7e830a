"""Checkpoints: a run's state on disk, to go on from after any interruption."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from consensus import _checks
from consensus._arrays.digest import digest
from consensus.checkpoints import parts as checkpoint_parts
from consensus.checkpoints import storage
from consensus.checkpoints.best import Best, packed, unpacked
from consensus.checkpoints.parts import Part
from consensus.communication.states import joined
from consensus.history import History
from consensus.problems import BaseProblem
from topologies.schedules.protocols import ScheduleLike, patterns

FORMAT = 7
_ROUNDS = 8  # whose mixing matrices, the first, stand for the schedule
_SHOWN = 60  # characters


class Checkpoint(NamedTuple):
    """A run after ``round`` rounds: its solver's state by field, all agents stacked; what was recorded, counted, kept.

    If it is in ``parts``, these have the rows of agents, and ``fields`` has single numbers only.
    """

    fields: dict[str, Any]
    history: History
    counts: dict[str, Any]
    seconds: float
    fingerprint: dict[str, str | None]
    best: Best | None = None
    parts: tuple[Part, ...] = ()

    @property
    def round(self) -> int:
        return int(self.fields["round"])


def write(path: Path, checkpoint: Checkpoint, saved: int | None = None) -> None:
    """Write ``checkpoint`` to ``path``, atomically; its parts are there already, and those of the one before are removed.

    It was ``saved`` at a time in nanoseconds, by default now: of several the latest is the one to go on from.

    The format is that of :mod:`consensus.checkpoints.storage`, with arrays ``state.<field>`` and ``history.<column>``. A state
    that holds anything but numbers and arrays with a row for each agent raises a ``TypeError``.
    """
    fields, history, counts, seconds, fingerprint, best, parts = checkpoint
    counted = {name: np.asarray(count).tolist() for name, count in counts.items()}
    saved = time.time_ns() if saved is None else saved
    about = {"format": FORMAT, "saved": saved, "counts": counted, "seconds": seconds, "fingerprint": fingerprint}
    arrays = checkpoint_parts.state_arrays(fields, 0 if parts else len(fields["w"]))
    arrays |= {f"history.{name}": history[name] for name in history}
    kept, point = packed(best)
    storage.write(path, arrays | point, about | kept | ({"parts": parts} if parts else {}))
    checkpoint_parts.remove_others(path, parts)


def read(path: str | os.PathLike[str]) -> Checkpoint:
    """Read the file of a checkpoint, and not its parts, if it has any.

    A file that is none, has another format, or differs in a bit from what was written raises a ``ValueError``.
    """
    arrays, about = storage.read(path, "checkpoint", FORMAT, "; go on from another checkpoint")
    with storage.understood(path, "checkpoint"):
        fields = {name: storage.number(value) for name, value in storage.part(arrays, "state.").items()}
        history = storage.history_of(storage.part(arrays, "history."))
        parts = tuple(Part(*part) for part in about.get("parts", ()))
        counts = dict(about["counts"])
        wrong = [name for name, count in counts.items() if np.asarray(count).dtype.kind not in "iuf" or not np.size(count)]
        if wrong or type(fields["round"]) is not int or not (parts or "w" in fields):
            raise ValueError("its " + (f"count of {wrong[0]} is none" if wrong else "state has no number of rounds, or no w"))
        fingerprint = {str(name): digest if digest is None else str(digest) for name, digest in about["fingerprint"].items()}
        return Checkpoint(fields, history, counts, float(about["seconds"]), fingerprint, unpacked(arrays, about), parts)


def saved_at(path: str | os.PathLike[str]) -> int | None:
    """Return when the checkpoint at a path was saved, in nanoseconds; None if there is no file."""
    try:
        saved: int = storage.about(path, "checkpoint", FORMAT)["saved"]
    except FileNotFoundError:
        return None
    return saved


def load(path: str | os.PathLike[str], check: Callable[[Checkpoint], None] = lambda _: None) -> Checkpoint:
    """Read a checkpoint and its parts, if it has any; a file that is none, is damaged or missing is rejected.

    ``check(found)``, called before parts are read, may reject it, too.
    """
    found = read(path)
    check(found)
    if not found.parts:
        return found
    rows = joined([checkpoint_parts.read(Path(path), part) for part in found.parts])
    return found._replace(fields=found.fields | rows, parts=())


def check_fits(path: object, checkpoint: Checkpoint, ours: dict[str, str | None], rounds: int) -> None:
    """Refuse to resume another run, or one that has gone beyond ``rounds``.

    The ``ValueError`` names what differs between the checkpoint's fingerprint and ``ours``.
    """
    theirs = checkpoint.fingerprint
    # Test sets and metrics that only one of them has are missing columns, which the history names.
    both = {name for name in ours if ours[name] is not None and theirs.get(name) is not None}
    names = [name for name in {**ours, **theirs} if name in both or not (name == "test set" or name.startswith("metric "))]
    differ = [name for name in names if ours.get(name) != theirs.get(name)]
    if differ:
        shown = "; ".join(f"{name}: {theirs.get(name)} there, {ours.get(name)} here" for name in differ)
        raise ValueError(f"{path} is a checkpoint of another run: {shown}")
    if checkpoint.round > rounds:
        raise ValueError(f"rounds must be at least the checkpoint's, {checkpoint.round}; got {rounds}")


def fingerprint(
    problem: BaseProblem, schedule: ScheduleLike | None, solver: object, start: np.ndarray, data: bool = True
) -> dict[str, str | None]:
    """Return what identifies a run: settings, digests of data and, if there is a network, of its matrices.

    The digest of the data is None if it is not asked for, and if this process holds only some of the agents: then all
    processes combine their ``problem.digests()``.
    """
    model = problem.model
    settings = {
        "model": known_by(model),
        "loss": known_by(problem.loss),
        "reduction": known_by(problem.reduction),
        "regularizer": known_by(problem.nonconvex or problem.regularizer),
        "solver": known_by(solver),
    }
    digests = {
        "data": digest(*problem.digests()) if data and problem.agents == problem.network_size else None,
        "start": digest(start),
    }
    if schedule is None:
        return settings | digests
    return settings | digests | {"network": known_by(schedule), "mixing matrices": of_matrices(schedule)}


def of_matrices(schedule: ScheduleLike) -> str:
    """Return a digest of the matrices of the first rounds."""
    matrices = [schedule.weights(key) for key in dict.fromkeys(schedule.key(round) for round in range(_ROUNDS))]
    return digest(*matrices, *patterns(schedule))


def known_by(thing: object, content: object = None) -> str:
    """Return how checkpoints identify ``thing``: its text, shortened, and its digest, or that of its ``content``.

    Two runs are the same if these digests are: see :func:`consensus._arrays.digest.digest` for what counts.
    """
    if content is None and (thing is None or isinstance(thing, str)):
        return str(thing)
    text = _checks.without_addresses(str(thing))
    return f"{text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'} [{digest(thing if content is None else content)}]"
