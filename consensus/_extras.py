"""Optional packages, imported where they are used."""

import importlib
from types import ModuleType


def module(name: str, what: str, extra: str) -> ModuleType:
    """Import the module ``name``; if it is missing, the ``ImportError`` says what needs it and which extra to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(f"{what} needs {package}: pip install 'consensus-opt[{extra}]'") from error
