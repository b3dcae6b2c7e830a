"""Packages that only some need, imported where they are used."""

import importlib
from typing import Any


def module(name: str, what: str, extra: str) -> Any:
    """The module ``name``; ``ImportError`` where it is not installed, of what needs it and of the extra that brings it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(f"{what} needs {package}: pip install consensus-opt[{extra}]") from error
