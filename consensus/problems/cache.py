"""What is computed once for a problem."""

from collections.abc import Callable, Hashable
from typing import TypeVar

T = TypeVar("T")


class Cache:
    """Results that depend on a problem's data alone, such as a linear model's factors: kept from round to round.

    It is empty after it was pickled or copied: whatever it holds can be computed again.

    Examples
    --------
    >>> from consensus.problems.cache import Cache
    >>> cache = Cache()
    >>> cache.get("answer", lambda: 42), cache.get("answer", lambda: 43)
    (42, 42)
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, object] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is kept under ``key``; if there is nothing, ``make()``, which is kept from then on."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]  # type: ignore[return-value]  # a key names what one function makes

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()

    def __reduce__(self) -> tuple[type["Cache"], tuple[()]]:
        return Cache, ()
