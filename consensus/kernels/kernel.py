"""What a kernel is: a NumPy function, and the compiled one in its place where the extra ``fast`` is installed."""

import functools
import inspect
import os
import threading
from importlib.util import find_spec

import numpy as np

SWITCH = "CONSENSUS_FAST"  # environment variable
_DTYPES = (np.dtype(np.float64), np.dtype(np.float32))
_LEAST = (0, 45)  # version of llvmlite
_lock = threading.Lock()


@functools.cache
def compiles():
    """Whether kernels are compiled in this process: by what is installed and the switch alone, so that no run mixes both."""
    if os.environ.get(SWITCH) == "0" or find_spec("llvmlite") is None:
        return False
    from importlib.metadata import version  # slow to import

    return tuple(map(int, version("llvmlite").split(".")[:2])) >= _LEAST


class Kernel:
    """A function of an array or two and ``out``, which may be the first: ``plain``, or the compiled one of the same name.

    That is found, or made, when it is called for the first time: importing the package compiles nothing. A function of rows has
    the signature of a generalized ufunc, and its last arguments may be ``integers``.
    """

    def __init__(self, plain, signature=None, integers=0):
        functools.update_wrapper(self, plain)
        self._plain, self._signature, self._integers, self._chosen = plain, signature, integers, {}

    def __call__(self, first, *others, out=None):
        dtype = first.dtype
        if others and others[0].dtype != dtype:
            return self._plain(first, *others, out)
        return (self._chosen.get(dtype.char) or self._choose(dtype))(first, *others, out)

    def of(self, dtype):
        """The function itself, for arrays that are all of ``dtype``: who calls it often."""
        return self._chosen.get(dtype.char) or self._choose(dtype)

    def __reduce__(self):
        return self.__name__  # pickled by name: machine code stays where it is

    def _choose(self, dtype):
        with _lock:
            if dtype.char not in self._chosen:
                self._chosen[dtype.char] = self._compiled(dtype) if compiles() and dtype in _DTYPES else self._plain
        return self._chosen[dtype.char]

    def _compiled(self, dtype):
        try:
            from consensus.kernels.compiled import ufunc
        except ImportError as error:  # not left to NumPy: other processes may compile what this one cannot
            raise ImportError(f"llvmlite does not work: update it, or set {SWITCH}=0 to do without ({error})") from error

        arguments = len(inspect.signature(self._plain).parameters) - 1
        return ufunc(self.__name__, arguments, self._signature, dtype, self._integers)
