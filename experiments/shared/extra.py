"""Packages that the scripts need and the package does not: the extra ``experiments`` brings them."""

import importlib
from types import ModuleType


def extra(name: str) -> ModuleType:
    """The module ``name``; ``ImportError`` that says how to get it where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(f"this script needs {package}: pip install '.[experiments]' in the project's folder") from error
