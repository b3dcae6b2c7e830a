"""The folder of a study: whose it is, and that one process works in it at a time."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from consensus._arrays.files import Held, Hold, whole

_FORMAT = "study 2"


@contextlib.contextmanager
def alone(folder: Path, about: dict[str, Any]) -> Iterator[None]:
    """Keep the folder for this process, and say in it what the study is ``about``."""
    check(folder, about)
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    path = folder / "study.json"
    hold = Hold(path)
    try:
        hold.take()
    except Held as error:
        raise ValueError(
            f"folder {folder} is in use by another process, {error.holder or 'which has just begun'}: wait for its end, or "
            "look on with study.watch()"
        ) from None
    try:
        if not path.exists():
            write(path, {"format": _FORMAT} | about)
        for part in (folder / "runs").glob(".*.part"):  # of a process that was killed
            part.unlink(missing_ok=True)
        yield
    finally:
        hold.release()


def check(folder: Path, about: dict[str, Any]) -> None:
    """Raise ``ValueError`` if the folder is that of something else."""
    path = folder / "study.json"
    try:
        known = json.loads(path.read_text())
    except FileNotFoundError:
        ours = {"runs", ".study.json.lock"}  # what a process leaves that is killed before it has said whose they are
        runs = folder / "runs"
        there = {one.name for one in folder.iterdir() if not one.name.endswith(".part")} if folder.exists() else set()
        if there - ours or (runs.is_dir() and any(runs.iterdir())):
            raise ValueError(f"folder must be new or empty, or that of this study; {folder} has other files") from None
        return
    except (OSError, ValueError) as error:
        raise ValueError(f"folder must be that of this study; {path} cannot be read: {error}") from None
    known = known if isinstance(known, dict) else {}
    if known.get("format") != _FORMAT:
        raise ValueError(f"{path} has format {known.get('format')!r}; this version reads {_FORMAT!r}: give another folder")
    if known.get("over") != about["over"]:
        raise ValueError(
            f"folder {folder} is that of another study, over {known.get('over')} and not {about['over']}: give another folder"
        )
    if known.get("digest") != about["digest"]:
        raise ValueError(
            f"folder {folder} is that of another study: its case {known.get('case')!r} had other code, or used other "
            "values; give another folder, and let a case keep what it makes by functools.lru_cache, which does not count"
        )


def write(path: Path, content: object) -> None:
    """Write JSON, as a whole or not at all."""
    with whole(path) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())
