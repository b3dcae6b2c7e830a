"""What solvers are prepared by when each process holds some agents only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np


class Together(Protocol):
    """What is needed of an engine: see :class:`consensus.engines.Engine`."""

    def agreed(self) -> AbstractContextManager[object]: ...

    def allgather(self, items: Iterable[Any]) -> list[Any]: ...


class WholeNetwork:
    """A problem of some agents with the constants of all: every process asks for them at the same time."""

    def __init__(self, problem: Any, engine: Together) -> None:  # noqa: ANN401  its constants are optional
        self._problem, self._engine = problem, engine

    def __getattr__(self, name: str) -> object:
        return getattr(self._problem, name)

    def lipschitz(self, w: np.ndarray | None = None) -> np.ndarray:
        return self._collected(lambda: self._problem.lipschitz(w))

    def strong_convexity(self) -> np.ndarray:
        return self._collected(self._problem.strong_convexity)

    def _collected(self, constants: Callable[[], np.ndarray]) -> np.ndarray:
        with self._engine.agreed():  # an error on one rank is an error on all
            own = constants()
        return np.array(self._engine.allgather(own))
