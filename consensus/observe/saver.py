"""Checkpoints of a run."""

import os
import tempfile
from pathlib import Path
from typing import Any

from consensus._arrays.files import Hold
from consensus.checkpoints.best import Best
from consensus.checkpoints.checkpoint import Checkpoint
from consensus.history import History
from consensus.observe.gather import Gather


class Saver:
    """Writes the checkpoints of a run to `path`, after every so many rounds.

    `fingerprint` identifies the run: see :func:`consensus.checkpoints.checkpoint.fingerprint`. ``hold`` keeps other runs from
    the path.
    """

    def __init__(self, path: str | os.PathLike[str], every: int, fingerprint: dict[str, str | None]) -> None:
        self.path, self.every, self.fingerprint = Path(path), every, fingerprint
        self.hold = Hold(self.path)

    def save(
        self,
        gather: Gather,
        fields: dict[str, Any],
        history: History,
        counts: dict[str, Any],
        seconds: float,
        best: Best | None = None,
    ) -> None:
        """Replace the checkpoint by one of this state, of which each process that observes has its own agents' rows.

        Raise TypeError if it holds anything but numbers.
        """
        gather.save(self.hold, Checkpoint(fields, history, counts, seconds, self.fingerprint, best))


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise ValueError if no checkpoint can be written to `path`; a missing folder is made."""
    folder = Path(path).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"checkpoint must be a file in a folder that can be written to; got {path} ({error})") from error
    if Path(path).is_dir():
        raise ValueError(f"checkpoint must be a file; got the folder {path}")
