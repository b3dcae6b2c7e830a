"""Exchanges by which owners agree, each of them announced and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from consensus._arrays import typed as _typed

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")


class Together(Protocol):
    """Collective calls of an engine that owners need: see :class:`consensus.engines.Engine`."""

    @property
    def size(self) -> int: ...

    def rows(self, agents: int) -> slice: ...

    def agreed(self) -> AbstractContextManager[object]: ...

    def allgather(self, items: Iterable[T]) -> list[T]: ...


class OneProcess:
    """All owners in this process."""

    size = 1

    def rows(self, agents: int) -> slice:
        return slice(0, agents)

    def agreed(self) -> AbstractContextManager[object]:
        return nullcontext()

    def allgather(self, items: Iterable[T]) -> list[T]:
        return list(items)


class Exchanges:
    """Allgather among owners that logs what was revealed."""

    def __init__(self, engine: Together) -> None:
        self.engine, self._rows = engine, list[tuple[str, str, int, int]]()

    def __call__(self, name: str, reveals: str, items: Sequence[T], numbers: Callable[[T], int] = lambda _: 1) -> list[T]:
        """Return the items of all owners; ``numbers`` counts what is in one."""
        everyone = self.engine.allgather(items)
        size = sum(len(_typed.pack(item)) for item in everyone)
        self._rows.append((name, reveals, sum(map(numbers, everyone)), size))
        return everyone

    @property
    def revealed(self) -> pandas.DataFrame:
        """The log of what was exchanged, with a row for each exchange."""
        import pandas

        return pandas.DataFrame(self._rows, columns=["exchange", "reveals", "numbers", "bytes"])


def total(parts: Sequence[Any]) -> Any:  # noqa: ANN401  # numbers or arrays
    """Return the sum of what owners say, in their order: the same bits, whichever process adds."""
    found = parts[0]
    for part in parts[1:]:
        found = found + part
    return found
