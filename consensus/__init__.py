"""Decentralised nonconvex optimisation by consensus.

Its parts are imported when they are first used.
"""

import copyreg
import sys
from importlib import import_module
from importlib.util import find_spec

from lazy_loader import attach

from consensus._elsewhere import homes

try:
    if "ScheduleLike" not in vars(import_module("topologies")).get("__all__", ()):  # theirs may answer to any name
        raise ImportError("topologies has no ScheduleLike")
except ImportError as error:  # whatever another package of that name does
    _spec = find_spec("topologies")
    _found = (
        f"another topologies, {_spec.origin}: if it is yours, rename it; if pip installed it, pip uninstall --yes topologies, "
        "then"
        if _spec
        else "none:"
    )
    raise ImportError(
        "consensus comes with the package topologies in the distribution consensus-opt; Python finds "
        f"{_found} pip install --force-reinstall --no-deps consensus-opt (or . in its checkout)"
    ) from error
_homes: dict[str, list[str]] = {}
for _name, (_home, _) in homes(__name__).items():
    _homes.setdefault(_home.removeprefix(f"{__name__}."), []).append(_name)
__getattr__, __dir__, __all__ = attach(__name__, _homes.pop(__name__), _homes)
# The package has a class of its own, which keeps `consensus.solve` the function: pickled by name, as all modules are.
copyreg.pickle(type(sys.modules[__name__]), lambda package: (import_module, (package.__name__,)))
__version__ = "0.1.0"
