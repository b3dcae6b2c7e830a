"""What a kernel is: a NumPy function, and the compiled one of the same name in its place where the package has it."""

import functools
import importlib
import logging
import os
from collections.abc import Callable

import numpy as np

SWITCH = "CONSENSUS_FAST"  # environment variable
_FEATURES = {"avx512": {"X86_V4", "AVX512F"}, "avx2": {"X86_V3", "AVX2"}}  # as new and as old versions of NumPy name them


@functools.cache
def _compiled() -> tuple[str | None, dict[str, np.ufunc]]:
    """The level of processor and its kernels, by name; None and none without the switch or the extension module."""
    if os.environ.get(SWITCH) == "0":
        return None, {}
    try:
        module = importlib.import_module("consensus.kernels._kernels")
    except ImportError as error:  # installed without a compiler, or built for another Python or processor
        logging.getLogger("consensus").info("NumPy computes the kernels, as none are compiled (%s)", error)
        return None, {}
    disabled = set(os.environ.get("NPY_DISABLE_CPU_FEATURES", "").replace(",", " ").upper().split())
    level = next(name for name in module.LEVELS if not disabled & _FEATURES.get(name, set()))
    return level, module.ufuncs(level)


def level() -> str | None:
    """The level of processor that the compiled kernels use, "avx512", "avx2" or "baseline"; None if NumPy computes them.

    It depends on the installation, the processor and the environment alone, so that no run mixes both.
    """
    return _compiled()[0]


class Kernel:
    """A function of arrays and ``out``, which may be the first: the NumPy function, or the compiled one of the same name."""

    __name__: str

    def __init__(self, plain: Callable[..., np.ndarray]) -> None:
        functools.update_wrapper(self, plain)
        self._plain = plain
        self._compiled = _compiled()[1].get(plain.__name__, plain)

    def __call__(self, first: np.ndarray, *others: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        if others and others[0].dtype != first.dtype:
            return self._plain(first, *others, out)
        return self.of(first.dtype)(first, *others, out)

    def of(self, dtype: np.dtype) -> Callable[..., np.ndarray]:
        """The function itself, for arrays that are all of ``dtype``: for callers in a loop."""
        return self._compiled if dtype.char in "df" else self._plain

    def __reduce__(self) -> str:
        return self.__name__  # pickled by name
