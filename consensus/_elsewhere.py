"""Public names of packages, imported when they are first used: a package lists them in the ``.pyi`` file beside it."""

import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data


def homes(package: str) -> dict[str, str]:
    """Return the public names of a package and the modules that have them: lines ``from home import name as name``."""
    lines = (get_data(package, "__init__.pyi") or b"").decode().splitlines()
    words = (line.split() for line in lines if line.startswith("from "))
    return {name: home for _, home, _, name, *_ in words}


def elsewhere(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a ``package``."""
    names = homes(package)

    def found(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        thing = getattr(import_module(names[name]), name)
        setattr(sys.modules[package], name, thing)
        return thing

    return found, lambda: sorted({*vars(sys.modules[package]), *names}), sorted(names)
