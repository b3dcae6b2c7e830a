"""Notices packages of others that have the name of one of ours: PyPI has a distribution topologies, and one consensus."""

import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OURS = ("consensus", "topologies")
_AGAIN = "then pip install --force-reinstall --no-deps consensus-opt (or . in its checkout)"


def warn() -> None:
    """Warn if ``import consensus`` finds another package than ours, or another distribution writes into our folders."""
    with suppress(ValueError):  # a stand-in in sys.modules, of tests
        spec = find_spec("consensus")
        if spec and spec.origin and os.path.realpath(os.path.dirname(spec.origin)) != os.path.realpath(f"{_HERE}/consensus"):
            warnings.warn(
                "topologies comes with the package consensus in the distribution consensus-opt; Python finds another "
                f"consensus, {spec.origin}: if it is yours, rename it; if pip installed it, "
                f"pip uninstall --yes consensus, {_AGAIN}",
                stacklevel=3,
            )
    for name in _beside():
        warnings.warn(
            f"{name.replace('-', ' ')}, a distribution of others, has files in the folders of consensus-opt in {_HERE}, and "
            f"one may be written over the other: pip uninstall --yes {name.partition('-')[0]}, {_AGAIN}",
            stacklevel=3,
        )


def _beside() -> Iterator[str]:
    """Yield ``name-version`` of each other distribution that has files in our folders."""
    with suppress(OSError):  # packages in a zip file, a RECORD that cannot be read
        for name in os.listdir(_HERE):
            if name.lower().startswith(tuple(f"{one}-" for one in _OURS)) and name.endswith(".dist-info"):
                with open(f"{_HERE}/{name}/RECORD", encoding="utf-8") as file:
                    tops = {line.partition("/")[0] for line in file if "/" in line}
                # Consensus is consensus where file systems do not tell capitals.
                folders = [(f"{_HERE}/{top}", f"{_HERE}/{top.lower()}") for top in tops if top.lower() in _OURS]
                if any(os.path.exists(a) and os.path.exists(b) and os.path.samefile(a, b) for a, b in folders):
                    yield name.removesuffix(".dist-info")
