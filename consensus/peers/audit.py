"""A record of every message of a peer: when, with whom, what, how many bytes, and their SHA-256."""

from __future__ import annotations

import datetime
import json
import threading
from pathlib import Path

from consensus.engines.transport import COLLECTED, MIXED, UNEVEN
from consensus.peers.newest import NEWEST

# To neighbours; to all, hop by hop; and to neighbours by solvers without rounds.
KINDS = {MIXED: "rows", UNEVEN: "encoded rows", COLLECTED: "collected", NEWEST: "newest rows"}


class Audit:
    """A file with a line of JSON for each part of a message, sent or received."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  # closed with the run
        self._lock = threading.Lock()

    def write(self, way: str, neighbour: str, kind: int, round: int, part: int, size: int, digest: bytes) -> None:
        """Add a line: the ``way`` is ``"sent"`` or ``"received"``, once however often it travels; -1 is no round."""
        time = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "way": way, "neighbour": neighbour, "kind": KINDS[kind], "round": round, "part": part}
        with self._lock:
            if not self._file.closed:
                self._file.write(json.dumps(line | {"bytes": size, "sha256": digest.hex()}) + "\n")

    def flush(self) -> None:
        """Write to the disk what is still in memory."""
        with self._lock:
            if not self._file.closed:
                self._file.flush()

    def close(self) -> None:
        """Write everything, and no more."""
        with self._lock:
            self._file.close()
