"""Results that are computed once for a problem."""

from collections.abc import Callable, Hashable
from typing import TypeVar

T = TypeVar("T")


class Cache:
    """Results that depend on a problem's data alone, such as a linear model's factors, kept from round to round.

    A pickled copy is empty: everything in it can be computed again.

    Examples
    --------
    >>> from consensus.problems.cache import Cache
    >>> cache = Cache()
    >>> cache.get("answer", lambda: 42), cache.get("answer", lambda: 43)
    (42, 42)
    """

    def __init__(self) -> None:
        self._results: dict[Hashable, object] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result stored under ``key``; if there is none, store that of ``make()``."""
        if key not in self._results:
            self._results[key] = make()
        return self._results[key]  # type: ignore[return-value]  # a key stands for the results of one function

    def __reduce__(self) -> tuple[type["Cache"], tuple[()]]:
        return Cache, ()
