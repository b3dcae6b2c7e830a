"""A kernel: a NumPy function, replaced by the compiled function of the same name if there is one."""

import functools
import importlib
import logging
import os
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray
SWITCH = "CONSENSUS_FAST"  # environment variable
_FEATURES = {"avx512": {"X86_V4", "AVX512F"}, "avx2": {"X86_V3", "AVX2"}}  # as new and as old versions of NumPy name them


@functools.cache
def _compiled() -> tuple[str | None, dict[str, np.ufunc]]:
    """Return the level of the processor and its kernels by name; None and no kernels if they are off or missing."""
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
    """Return the level of the processor that the compiled kernels use.

    It depends on the installation, the processor and the environment alone, so that no run mixes both.

    Returns
    -------
    {"avx512", "avx2", "baseline"} or None
        None if NumPy computes the kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import exp, level
    >>> numpy_computes = exp.of(np.dtype(float)) is exp.__wrapped__
    >>> numpy_computes == (level() is None)
    True
    """
    return _compiled()[0]


class Kernel:
    """A function of arrays and ``out``, which may be the first of them.

    Parameters
    ----------
    plain : callable
        The NumPy function, called if no kernel of its name is compiled.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.kernels import sigmoid
    >>> x = np.array([-1.0, 0.0, 1.0])
    >>> sigmoid(x, out=x) is x
    True
    >>> x.round(6).tolist(), sigmoid.__wrapped__(np.array([1.0]), None).round(6).tolist()
    ([0.268941, 0.5, 0.731059], [0.731059])
    """

    __name__: str
    __wrapped__: Callable[..., np.ndarray]

    def __init__(self, plain: Callable[..., np.ndarray]) -> None:
        functools.update_wrapper(self, plain)
        self._compiled = _compiled()[1].get(plain.__name__, plain)

    def __call__(self, first: np.ndarray, *others: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        if others and others[0].dtype != first.dtype and others[0].dtype.char != first.dtype.char:  # but for the byte order
            return self.__wrapped__(first, *others, out)
        return (self._compiled if first.dtype.char in "df" else self.__wrapped__)(first, *others, out)

    def of(self, dtype: np.dtype) -> Callable[..., np.ndarray]:
        """Return the function itself, for callers in a loop.

        Parameters
        ----------
        dtype : dtype
            Dtype of all arrays.

        Returns
        -------
        callable
            The compiled or the NumPy function.
        """
        return self._compiled if dtype.char in "df" else self.__wrapped__

    def __reduce__(self) -> str:
        return self.__name__  # pickled by name
