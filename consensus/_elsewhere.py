"""Public names of a package whose home is in another one: they are imported when they are first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def elsewhere(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a ``package``, for names whose modules ``homes`` has."""

    def found(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        thing = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, thing)
        return thing

    return found, lambda: sorted({*vars(sys.modules[package]), *homes})
