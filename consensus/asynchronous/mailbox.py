"""A mailbox that is read as late as can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from consensus.engines.protocols import AnyState


class Mailbox:
    """The newest messages, read when the first of their fields is asked for: what is computed before waits for nothing.

    Parameters
    ----------
    read : callable
        Returns the messages, a NamedTuple of arrays (agents, D, ...).
    """

    def __init__(self, read: Callable[[], AnyState]) -> None:
        self._read = read

    @cached_property
    def messages(self) -> AnyState:
        """The messages; all fields are of the same moment."""
        return self._read()

    def __getattr__(self, field: str) -> Any:  # noqa: ANN401  # as a NamedTuple
        return getattr(self.messages, field)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.messages)

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401  # as a NamedTuple
        return self.messages[place]

    def __len__(self) -> int:
        return len(self.messages)
