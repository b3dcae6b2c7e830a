"""Checkpoints of a run."""

import os
import tempfile
from pathlib import Path

from consensus._arrays.files import Hold


class Saver:
    """The file `path` of a run's checkpoints, written after every so many rounds.

    `fingerprint` identifies the run: see :func:`consensus.checkpoints.checkpoint.fingerprint`. ``hold`` keeps other runs from
    the path.
    """

    def __init__(self, path: str | os.PathLike[str], every: int, fingerprint: dict[str, str | None]) -> None:
        self.path, self.every, self.fingerprint = Path(path), every, fingerprint
        self.hold = Hold(self.path)


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
