"""Packages that import their parts when these are asked for: PEP 562, in the manner of Scientific Python's SPEC 1."""

import ast
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose ``__init__`` imports under ``if TYPE_CHECKING:`` alone.

    Where a name comes from is read there, so that type checkers, editors and users see the same. Modules of the package are its
    attributes, too, whether or not they were imported.

    Parameters
    ----------
    package, file : str
        Its ``__name__`` and ``__file__``.

    Examples
    --------
    >>> import topologies
    >>> from topologies._lazy import attach
    >>> get, _ = attach("topologies", topologies.__file__)
    >>> get("metropolis").__module__, get("graphs").__name__
    ('topologies.weights.metropolis', 'topologies.graphs')
    """

    @functools.cache
    def homes() -> dict[str, str]:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
        block = next(node for node in tree.body if isinstance(node, ast.If))
        return {alias.name: str(node.module) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}

    def __getattr__(name: str) -> Any:
        home = homes().get(name, package)
        if home != package:
            found = getattr(importlib.import_module(home), name)
        elif importlib.util.find_spec(f"{package}.{name}") is not None:
            found = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, found)  # so that it is asked for once
        return found

    return __getattr__, lambda: sorted({*vars(sys.modules[package]), *homes()})
