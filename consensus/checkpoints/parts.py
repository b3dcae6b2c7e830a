"""Parts of a checkpoint: files with the rows of some agents each, written by the processes that hold them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from consensus.checkpoints import storage

FORMAT = 1


class Part(NamedTuple):
    """A file ``name`` with the agents from ``first`` to before ``stop``, which was written on the machine ``host``."""

    name: str
    first: int
    stop: int
    host: str

    def __str__(self) -> str:
        return f"{self.name} (agents {self.first} to {self.stop - 1}, written on {self.host})"


def named(path: Path, round: int, saved: int, ends: Sequence[int], hosts: Sequence[str]) -> tuple[Part, ...]:
    """Return the parts of a checkpoint of a ``round``, ``saved`` at a time that no other has: ``ends[k]`` agents up to part k.

    A name is never used twice, so that the parts of the last checkpoint stay whole until the file at ``path`` names others.
    """
    begins = [0, *ends[:-1]]
    names = [f"{path.name}.{round}-{saved:x}.{number}-of-{len(ends)}" for number in range(len(ends))]
    return tuple(map(Part, names, begins, ends, hosts))


def state_arrays(fields: Mapping[str, Any], agents: int) -> dict[str, np.ndarray]:
    """Return a state's arrays as a file names them; raise ``TypeError`` unless they are numbers, with a row for each agent."""
    arrays = {f"state.{name}": np.asarray(value) for name, value in fields.items()}
    objects = [name for name, array in arrays.items() if array.dtype.hasobject]
    if objects:
        raise TypeError(f"a checkpoint holds arrays of numbers only, without pickle; not so {', '.join(objects)}")
    odd = [f"{name} {np.shape(value)}" for name, value in fields.items() if np.shape(value)[:1] not in ((), (agents,))]
    if odd:  # resumed, each process takes its agents' rows of it
        raise TypeError(
            f"a state must hold arrays of shape (agents, ...), or single numbers, to be saved; not so {', '.join(odd)}"
        )
    return arrays


def write(path: Path, part: Part, fields: Mapping[str, Any]) -> None:
    """Write the rows in ``fields`` to the file of ``part``, beside the checkpoint at ``path``."""
    arrays = {name: array for name, array in state_arrays(fields, part.stop - part.first).items() if array.ndim}
    storage.write(path.with_name(part.name), arrays, {"format": FORMAT, "part": part.name})


def read(path: Path, part: Part) -> dict[str, np.ndarray]:
    """Return the rows of a part of the checkpoint at ``path``, by field.

    A part that is missing, damaged, or of another checkpoint raises a ``ValueError`` that names it.
    """
    file = path.with_name(part.name)
    try:
        arrays, about = storage.read(file, "part of a checkpoint", FORMAT, "; go on from another checkpoint")
    except FileNotFoundError:
        raise lacking(path, [part]) from None
    if about["part"] != part.name:
        raise ValueError(f"{file} is another part than its name says, {about['part']}; go on from another checkpoint")
    return storage.part(arrays, "state.")


def lacking(path: Path, parts: Sequence[Part]) -> ValueError:
    """Return the error that nobody here sees some ``parts`` of the checkpoint at ``path``."""
    return ValueError(
        f"{path} is a checkpoint in parts and lacks {', '.join(map(str, parts))}: copy it to the folder of the checkpoint, "
        "or resume on the machines that wrote it"
    )


def remove_others(path: Path, parts: Sequence[Part]) -> None:
    """Remove the files of parts of earlier checkpoints at ``path``."""
    names = {part.name for part in parts}
    written = re.compile(re.escape(path.name) + r"\.\d+-[0-9a-f]+\.\d+-of-\d+")
    for file in path.parent.iterdir():
        if written.fullmatch(file.name) and file.name not in names:
            file.unlink(missing_ok=True)  # ranks in one folder do it at the same time
