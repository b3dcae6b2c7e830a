"""Argument checks shared by the package: every message names the argument, its value and what is allowed."""

import math
import operator
import os
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast

import numpy as np
import scipy.sparse as sp

from topologies._checks import flag as flag
from topologies._checks import mixing as mixing
from topologies._checks import offers as offers
from topologies._checks import real as real
from topologies._checks import schedule as schedule
from topologies._checks import shown as shown
from topologies._checks import unmasked as unmasked

T = TypeVar("T")
_NUMBERS = (bool, np.bool_, Real, Decimal)
_SIGNS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_REMEDIES = {  # for arrays of other kinds, by NumPy's letter
    "c": "numpy.real({0}) and numpy.imag({0}) are real",
    "M": "give times since one of these dates, such as ({0} - start) / numpy.timedelta64(1, 'D')",
    "m": "give the number of these lengths of time, such as {0} / numpy.timedelta64(1, 'D')",
    "O": "{0}.astype(float) if these are numbers, labels as 0, 1, ..., records as pandas.DataFrame(list({0}))",
    "V": "give a data frame of these records, pandas.DataFrame(numpy.ravel({0}))",
}
_MOST = np.iinfo(np.intp).max  # that an array can be long
_HERE = os.path.dirname(__file__) + os.sep


def listed(names: Iterable[object], most: int = 10) -> str:
    """Return names for a message, the first ``most`` of them."""
    found = [repr(name) for name in names]
    return ", ".join(found[:most]) + (f", ... ({len(found)} in all)" if len(found) > most else "")


def some(texts: Sequence[str], most: int = 5) -> str:
    """Return texts for a message, the first ``most`` of them."""
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def without_addresses(text: str) -> str:
    """Return ``text`` without the addresses of objects that have no text of their own, which differ in every process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def number(
    name: str,
    value: Any,  # noqa: ANN401  # anything
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> float:
    """Return ``value`` as a float if it is a finite real within the bounds; raise ``ValueError`` otherwise."""
    bounds = [(sign, bound) for sign, bound in zip(_SIGNS, (above, least, below, most), strict=True) if bound is not None]
    wanted = f"a finite number {' and '.join(f'{sign} {bound}' for sign, bound in bounds)}".rstrip()
    try:
        finite = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        finite = False
    if not finite or not all(_SIGNS[sign](value, bound) for sign, bound in bounds):
        raise ValueError(f"{name} must be {wanted}; got {shown(value)}")
    return float(value)


def optional_number(name: str, value: object, **bounds: float) -> float | None:
    """Return ``value`` as :func:`number` does; None, a setting that was not given, stays None."""
    return None if value is None else number(name, value, **bounds)


def count(name: str, value: object, least: int = 1, most: int = _MOST) -> int:
    """Return ``value`` as an int if it is a whole number from ``least`` to ``most``; raise ``ValueError`` otherwise."""
    if type(value) is int and least <= value <= most:  # at once: rules of steps ask in every round
        return value
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
        beyond = f" and <= {most}" if isinstance(value, Integral) and int(value) > most else ""
        raise ValueError(f"{name} must be a whole number >= {least}{beyond}; got {shown(value)}")
    return int(value)


def shape(name: str, value: object) -> tuple[int, ...]:
    """Return ``value``, a whole number >= 1 or a sequence of some, as a tuple; raise ``ValueError`` otherwise."""
    sizes = value if isinstance(value, tuple | list) and value else (value,)
    return tuple(count(f"{name}[{axis}]" if sizes is value else name, size) for axis, size in enumerate(sizes))


def choice(name: str, value: T, allowed: Collection[object]) -> T:
    """Return ``value`` if it is one of ``allowed``; raise ``ValueError`` that lists them otherwise."""
    try:
        known = hash(value) is not None and value in allowed  # arrays and tables compare entry by entry, and have no hash
    except TypeError:
        known = False
    if not known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {shown(value)}")
    return value


def array(name: str, value: object) -> np.ndarray:
    """``value`` as an array of real numbers; raise ``TypeError`` or ``ValueError`` that says what in it is none.

    Numbers and booleans that come as objects, as those of tables with several kinds of columns, become floats. Numbers are in
    the machine's byte order.
    """
    if getattr(value, "on_device", type(value) is np.ndarray and value.dtype.kind in "fiub" and value.dtype.isnative):
        return cast(np.ndarray, value)
    found = dense(name, value)
    if found.dtype.kind in "fiub":
        return found.astype(found.dtype.newbyteorder("="), copy=False)
    if found.ndim == 0:
        raise TypeError(f"{name} must be an array of real numbers; got {shown(value)}")
    odd: dict[int, str] = {}
    if found.dtype.kind == "O":
        for number, column in enumerate(found.T if found.ndim == 2 else [found]):
            cells = [cell for cell in column.ravel().tolist() if not isinstance(cell, _NUMBERS)]
            odd |= {number: shown(cells[0])} if cells else {}
        if not odd:
            return found.astype(float)
    labels = getattr(value, "columns", None) if hasattr(value, "iloc") else None
    if labels is not None and odd:
        listed = ", ".join(f"{labels[number]!r} ({cell})" for number, cell in [*odd.items()][:5]) + ", ..." * (len(odd) > 5)
        raise ValueError(f"{name} must hold real numbers; not so its columns {listed}: encode or remove them")
    cell = f", such as {min(odd.items())[1]}" if odd else ""
    remedy = _REMEDIES.get(found.dtype.kind, _REMEDIES["O"]).format(name if name.isidentifier() else "value")
    raise ValueError(f"{name} must hold real numbers; got dtype {found.dtype}{cell}: {remedy}")


def floats(name: str, value: object, dtype: np.dtype | None = None) -> np.ndarray:
    """Return ``value`` as an array of floats of ``dtype``, by default any; raise ``TypeError`` or ``ValueError`` if it is none.

    Cheap when ``value`` already is such an array: it is returned unchanged. Inner loops rely on this.
    """
    if (
        type(value) is np.ndarray
        and value.dtype.kind == "f"
        and (value.dtype.isnative if dtype is None else value.dtype == dtype)
    ):
        return value
    found = array(name, value)
    if dtype is None:
        return found if found.dtype.kind == "f" else found.astype(float)
    return found.astype(dtype, copy=False)


def dense(name: str, value: object) -> np.ndarray:
    """``value`` as an array of anything; raise ``TypeError`` if it is sparse, ``ValueError`` if entries are masked."""
    if sp.issparse(value) and hasattr(value, "shape"):
        raise TypeError(
            f"{name} must be a dense array; got a sparse {type(value).__name__} {value.shape}: pass "
            f"{f'{name}.toarray()' if name.isidentifier() else 'what its toarray() returns'}"
        )
    value = unmasked(name, value, f"the rows without them, or {name}.filled(value)")
    if isinstance(value, list | tuple):  # NumPy makes an array of such a list without its masks
        for place, one in enumerate(value):
            if isinstance(one, np.ma.MaskedArray) and np.ma.is_masked(one):
                raise ValueError(
                    f"{name} must have no masked entries; item {place} has some. Leave such rows out, or fill them in: "
                    "numpy.ma.filled(item, value) for each"
                )
    try:
        return np.asarray(value)
    except Exception as error:  # rows of different lengths; objects that pretend to be sequences
        raise ValueError(f"{name} must be an array; got {shown(value)} ({error})") from error


def path(name: str, value: object) -> Path:
    """Return ``value`` as the path of a file or folder, where ``~`` is the home folder; raise ``TypeError`` if it is none."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be a path, a str or pathlib.Path; got {shown(value)}")
    return Path(os.path.expanduser(value))  # Path.expanduser rejects ~name, which may be a file's name


def seed(value: Any, name: str = "seed") -> np.random.Generator:  # noqa: ANN401  # what NumPy takes
    """Return a random generator made from ``value``; raise ``ValueError`` if NumPy can make none."""
    try:
        return np.random.default_rng(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a whole number >= 0; got {shown(value)}") from error


def rows(value: object, agents: int, name: str = "rows") -> slice | np.ndarray:
    """Return ``value`` if it picks some of ``agents`` rows: a slice, or numbers of agents.

    Raises ``TypeError`` if it is neither, ``ValueError`` if an agent is not there.
    """
    if isinstance(value, slice):
        if not all(end is None or isinstance(end, Integral) for end in (value.start, value.stop, value.step)):
            raise TypeError(f"{name} must be a slice between whole numbers; got {value}")
        return value
    numbers = None if isinstance(value, str | bytes | dict | set) else dense(name, value)
    if numbers is None or numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise TypeError(f"{name} must be a slice, or a sequence of agents' numbers such as [0, 2]; got {shown(value)}")
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < agents):
        raise ValueError(f"{name} must be among 0 .. {agents - 1}; got {shown(value)}")
    return numbers.astype(int)


def needs(who: str, value: object, *attributes: str) -> None:
    """Raise ``TypeError`` that names what ``value`` lacks of the ``attributes`` that ``who`` needs of it."""
    missing = [name for name in attributes if not hasattr(value, name)]
    if missing:
        kind = type(value).__name__
        raise TypeError(
            f"{who} needs {', '.join(f'{kind}.{name}' for name in missing)}, which {'is' if len(missing) == 1 else 'are'} "
            f"missing: define {'it' if len(missing) == 1 else 'them'}, or derive {kind} from the package's base class"
        )


class Completed:
    """A user's object, whose class is not derived from a base class of the package: members that it lacks are the base's."""

    def __init__(self, own: Any, base: type) -> None:  # noqa: ANN401  # any object
        self._own, self._base = own, base

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # any member
        found = getattr(self._own, name, self)  # which stands for none
        if found is not self:
            return found
        found = getattr(self._base, name)
        return MethodType(found, self) if isinstance(found, FunctionType) else found

    def __repr__(self) -> str:
        return repr(self._own)

    def __reduce__(self) -> tuple[Any, ...]:
        return completed, (self._own, self._base)


def completed(value: object, base: type) -> Any:  # noqa: ANN401  # an object of the base, or one that is used as such
    """Return ``value`` with all members of ``base``: itself if its class is derived from it, otherwise what delegates to it."""
    if isinstance(value, base | Completed):
        return value
    kind = type(value)
    return type(kind.__name__, (Completed,), {"__module__": kind.__module__, "__class__": kind})(value, base)


def _offering(name: str, value: T, needed: Collection[str], wanted: str) -> T:
    offers(name, value, tuple(needed), wanted)
    return value


def problem(value: T, name: str = "problem") -> T:
    """Return ``value`` if it is a problem; raise ``TypeError`` otherwise."""
    needed = ("agents", "network_size", "parameters", "value", "gradient", "restrict")
    return _offering(name, value, needed, "a problem, such as consensus.Problem(model, loss, shards)")


def shards(value: T, name: str = "shards") -> T:
    """Return ``value`` if it is shards; raise ``TypeError`` otherwise."""
    needed = ("features", "targets", "weights", "indices", "samples", "network_size", "rows")
    return _offering(name, value, needed, "Shards, as consensus.partition(X, y, agents=10) returns; LazyProblem takes others")


def model(value: T, name: str = "model") -> T:
    """Return ``value`` if it has what every model needs; raise ``TypeError`` otherwise."""
    needed = ("parameters", "outputs", "init", "predict", "vjp", "jvp")
    return _offering(name, value, needed, "a model, such as consensus.MLP([10, 20, 1]) or consensus.models.Torch(module)")


def loss(value: T, name: str = "loss") -> T:
    """Return ``value`` if it is a loss; raise ``TypeError`` otherwise."""
    return _offering(name, value, ("value", "gradient", "check"), "a loss, as SquaredLoss(), or TorchLoss(f) for PyTorch's f")


def regularizer(value: T, name: str = "regularizer") -> T:
    """Return ``value`` if it is a regularizer; raise ``TypeError`` otherwise."""
    return _offering(name, value, ("value", "prox"), "a regularizer, with value and prox, as consensus.L2(1e-3)")


def solver(value: T, name: str = "solver") -> T:
    """Return ``value`` if it is a solver; raise ``TypeError`` otherwise."""
    needed = ("init", "step", "check", "history_columns", "report", "width")
    return _offering(name, value, needed, "a Solver, such as consensus.solvers.AdaptiveNEXT(); solvers.table() has all")


def engine(value: T, name: str = "engine") -> T:
    """Return ``value`` if it is an engine; raise ``TypeError`` otherwise."""
    needed = ("run", "root", "size", "check", "agreed", "allgather", "broadcast", "rows")
    return _offering(
        name, value, needed, "'stacked', 'processes', 'mpi', 'torch' or an engine, such as consensus.engines.Processes()"
    )


def history(value: T, name: str = "history") -> T:
    """Return ``value`` if it is a history; raise ``TypeError`` otherwise."""
    return _offering(name, value, ("rows", "append", "last"), "a History, as consensus.solve(...).history")


def axes(value: T, name: str = "ax") -> T:
    """Return ``value`` if it is matplotlib's Axes, or None; raise ``TypeError`` otherwise."""
    wanted = "matplotlib Axes, as plt.subplots()[1]"
    return value if value is None else _offering(name, value, ("plot", "set_yscale", "figure"), wanted)


def warn(text: str) -> None:
    """Warn where a user's own code called this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_HERE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)
