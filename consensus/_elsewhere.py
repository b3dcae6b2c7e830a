"""Public names of packages, imported when they are first used: a package lists them in the ``.pyi`` file beside it."""

import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data


def homes(package: str) -> dict[str, tuple[str, str]]:
    """Return the public names of a package, their homes and names there: lines ``from home import name as public``."""
    lines = (get_data(package, "__init__.pyi") or b"").decode().splitlines()
    words = (line.split() for line in lines if line.startswith("from "))
    return {public: (home, name) for _, home, _, name, _, public, *_ in words}


def elsewhere(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a ``package``."""
    names = homes(package)

    def found(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, own = names[name]
        thing = getattr(import_module(home), own)
        setattr(sys.modules[package], name, thing)
        return thing

    listed = sorted(public for public, (_, own) in names.items() if public == own)  # without former spellings
    return found, lambda: sorted({*vars(sys.modules[package]), *listed}), listed
