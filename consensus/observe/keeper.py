"""Keeps the best point of a run, by a column of its history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from consensus.best import Best


class Keeper:
    """Keeps the ``best`` point of a run by a ``column``.

    ``regular`` leaves out a last round that is recorded only because it is the last: a checkpoint has that one, so that a run
    of more rounds, which does not record it, goes on as if it had never been stopped.
    """

    def __init__(self, column: str) -> None:
        self.column = column
        self.best: Best | None = None
        self.regular: Best | None = None

    def resume(self, best: Best | None, history: Mapping[str, Any], path: object) -> None:
        """Go on from the best point in the checkpoint ``path``; raise ``ValueError`` if it kept none by this column.

        A ``history`` in which the column is NaN everywhere has no best point yet.
        """
        if best is None and self.column in history and np.isnan(history[self.column]).all():
            return
        if best is None or best.column != self.column:
            kept = "no best point" if best is None else f"the best point by {best.column}"
            raise ValueError(f"{path} has {kept}, and this run keeps that by {self.column}: give the same keep=")
        self.best = self.regular = best

    def better(self, row: Mapping[str, Any]) -> bool:
        """Return whether a recorded ``row`` is better than the best so far."""
        value = float(row[self.column])
        return value == value if self.best is None else value < self.best.value

    def keep(self, row: Mapping[str, Any], mean: np.ndarray, w: np.ndarray | None, regular: bool) -> None:
        """Keep the point of a ``row`` that is better, and the agents' ``w`` if they have models of their own.

        ``regular`` says whether a run of more rounds records it, too.
        """
        round, rows = int(row["round"]), None if w is None else np.array(w)
        self.best = Best(self.column, float(row[self.column]), round, np.array(mean), rows)
        if regular:
            self.regular = self.best
