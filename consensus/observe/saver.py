"""When a run's state goes to disk."""

import os
import tempfile
from pathlib import Path
from typing import Any

from consensus import checkpoint
from consensus._files import Hold
from consensus.checkpoint import Checkpoint
from consensus.history import History


class Saver:
    """Writes checkpoints of one run.

    Parameters
    ----------
    path : path
    every : int
        Rounds between two of them.
    fingerprint : dict
        What tells the run from others: see :func:`consensus.checkpoint.fingerprint`.
    root : bool
        Whether this process writes; of several that hold the same, one does.

    Attributes
    ----------
    hold : Hold
        Keeps other runs from the path while the process that writes has taken it.
    """

    def __init__(self, path: str | os.PathLike, every: int, fingerprint: dict[str, Any], root: bool = True) -> None:
        self.path, self.every, self.fingerprint, self.root = Path(path), every, fingerprint, root
        self.hold = Hold(self.path)

    def save(self, fields: dict[str, Any], history: History, counts: dict[str, Any], seconds: float) -> None:
        """Replace the file by a checkpoint of all agents' state, given by its fields.

        Raises
        ------
        TypeError
            If the state holds something else than numbers, or arrays without a row for each agent.
        """
        if self.root:
            checkpoint.write(self.path, Checkpoint(fields, history, counts, seconds, self.fingerprint))


def check_writable(path: str | os.PathLike) -> None:
    """Raise ``ValueError`` if no checkpoint can be written to ``path``; its folder is made if it is not there."""
    folder = Path(path).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"checkpoint must be a file in a folder that can be written to; got {path} ({error})") from error
    if Path(path).is_dir():
        raise ValueError(f"checkpoint must be a file; got the folder {path}")
