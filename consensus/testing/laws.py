"""Checks of laws, and the report that a check returns."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

import cloudpickle
import numpy as np

from consensus import _checks


@dataclass
class Report:
    """The laws that hold.

    Parameters
    ----------
    subject : str
        The object that was checked, as it prints.
    errors : dict of str to float
        For each law the largest relative error found; 0 for those that hold exactly.

    Examples
    --------
    >>> import topologies
    >>> from consensus.testing import check_schedule
    >>> report = check_schedule(topologies.Static(topologies.ring(5)))
    >>> report.subject, len(report.errors) > 5, max(report.errors.values()) < 1e-12
    ('Static(agents=5, edges=5, weights=metropolis)', True, True)
    """

    subject: str
    errors: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.subject}: {len(self.errors)} laws hold"]
        return "\n".join([*lines, *(f"  {law:<58} {error:8.1e}" for law, error in self.errors.items())])

    __repr__ = __str__


class Laws:
    """Records the laws that hold for an object; raises ``AssertionError`` for the first that does not.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.testing.laws import Laws
    >>> Laws("W").close("rows sum to one", np.array([1.0, 0.9]), 1.0, 1e-12)
    Traceback (most recent call last):
        ...
    AssertionError: W: rows sum to one: found 0.9 instead of 1 at (1,), a relative error of 0.1 (at most 1e-12)
    """

    def __init__(self, subject: object) -> None:
        text = subject if isinstance(subject, str) else repr(subject)
        self.report = Report(text if len(text) <= 200 else f"{text[:197]}...")
        self.rounding = 0.0  # by which numbers may differ that are the same: that of models of PyTorch and JAX

    def fail(self, law: str, found: str) -> NoReturn:
        """Raise ``AssertionError`` with the object, the law and the numbers."""
        raise AssertionError(f"{self.report.subject}: {law}: {found}")

    def true(self, law: str, holds: bool | np.bool, found: str) -> None:
        """Check a law that holds or not; ``found`` says what is seen instead."""
        if not holds:
            self.fail(law, found)
        self.report.errors.setdefault(law, 0.0)

    def close(self, law: str, found: Any, wanted: Any, tolerance: float) -> None:
        """Check equality up to ``tolerance``, relative to the largest entry or to one."""
        found, wanted = np.broadcast_arrays(found, wanted)
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        with np.errstate(invalid="ignore"):
            error = np.where(found == wanted, 0, np.abs(found - wanted)) / scale
        largest = float(error.max(initial=0))
        if not largest <= tolerance:  # NaN fails, too
            at = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
            self.fail(
                law,
                f"found {found[at]:.10g} instead of {wanted[at]:.10g}{_place(at)}, a relative error of {largest:.2g} "
                f"(at most {tolerance:.2g})",
            )
        self.report.errors[law] = max(largest, self.report.errors.get(law, 0.0))

    def same(self, law: str, found: Any, wanted: Any) -> None:
        """Check equality of arrays, to the bit or but for ``rounding``: shape, dtype and values; NaN equals NaN."""
        found, wanted = np.asarray(found), np.asarray(wanted)
        for name, one, other in (("shape", found.shape, wanted.shape), ("dtype", found.dtype, wanted.dtype)):
            self.true(law, one == other, f"found {name} {one} instead of {other}")
        differs = (found != wanted) & ~((found != found) & (wanted != wanted))
        if self.rounding and found.dtype.kind == "f":
            differs &= ~np.isclose(found, wanted, rtol=self.rounding, atol=self.rounding * np.abs(wanted).max(initial=0))
        if differs.any():
            at = np.unravel_index(np.argmax(differs), differs.shape)
            self.fail(law, f"found {found[at]} instead of {wanted[at]}{_place(at)}; bits must be equal")

    def at_most(self, law: str, found: Any, bound: Any, rounding: float) -> None:
        """Check ``found <= bound``, up to ``rounding``."""
        found, bound = np.broadcast_arrays(found, bound)
        excess = np.asarray(found - bound)
        if not (excess <= rounding).all():
            at = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), excess.shape)
            self.fail(law, f"found {found[at]:.10g}, more than {bound[at]:.10g}{_place(at)}")
        self.report.errors[law] = max(float(excess.max(initial=0)), self.report.errors.get(law, 0.0))

    def array(self, law: str, found: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Check that ``found`` is a NumPy array of that shape and dtype; return it."""
        self.true(law, isinstance(found, np.ndarray | np.generic), f"found {type(found).__name__} instead of an array {shape}")
        self.true(law, found.shape == shape, f"found shape {found.shape} instead of {shape}")
        self.true(law, found.dtype == dtype, f"found dtype {found.dtype} instead of {np.dtype(dtype)}")
        return np.asarray(found)

    def refused(self, law: str, call: Callable[[], object], *words: str) -> None:
        """Check that ``call()`` raises ``TypeError`` or ``ValueError`` with a message that contains all ``words``."""
        try:
            call()
        except (TypeError, ValueError) as error:
            missing = [word for word in words if word not in str(error)]
            self.true(law, not missing, f"the message lacks {missing}: {error}")
        else:
            self.fail(law, "no TypeError or ValueError was raised")

    @contextmanager
    def unwritten(self, law: str) -> Iterator[None]:
        """Turn NumPy's error about a read-only argument into the law that was broken."""
        try:
            yield
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            raise AssertionError(f"{self.report.subject}: {law}: {error}") from error

    def offered(self, law: str, call: Callable[[], Any], absent: str) -> Any:
        """Return ``call()``, or None if it raises a ``TypeError`` that says ``absent``; any other error breaks the law."""
        try:
            return call()
        except Exception as error:
            if isinstance(error, TypeError) and absent in str(error):
                return None
            message = " ".join(str(error).split())
            raise AssertionError(f"{self.report.subject}: {law}: {type(error).__name__}: {message}") from error

    def copied(self, thing: Any, equal: bool = True) -> Any:
        """Return a copy of ``thing`` by cloudpickle; check that it prints the same, and is ``equal``."""
        kind: Any = type(thing)
        law, kinds = "copies by cloudpickle are equal", {kind for part in parts(thing) for kind in type(part).__mro__}
        fields = {kind: vars(kind)["__dataclass_fields__"] for kind in kinds if "__dataclass_fields__" in vars(kind)}
        copy = pickle.loads(cloudpickle.dumps(thing))
        for each, own in fields.items():  # on classes of a script cloudpickle writes copies, which no class can be derived from
            type.__setattr__(each, "__dataclass_fields__", own)
        if kind.__repr__ is not object.__repr__:
            prints = [_checks.without_addresses(repr(one)) for one in (thing, copy)]
            self.true(law, prints[0] == prints[1], f"the copy prints as {copy!r}"[:300])
        if equal and kind.__eq__ is not object.__eq__ and "<" not in repr(thing):  # functions are equal to themselves alone
            with suppress(
                ValueError, TypeError
            ):  # arrays have no one truth, lists no hash: checkpoints compare what is printed
                self.true(law, copy == thing and hash(copy) == hash(thing), "the copy differs, or has another hash")
        return copy


def parts(thing: object) -> Iterator[object]:
    """Yield a dataclass, and the dataclasses in its fields."""
    if dataclasses.is_dataclass(thing):
        yield thing
        for one in dataclasses.fields(thing):
            yield from parts(getattr(thing, one.name))


def _place(at: tuple[np.intp, ...]) -> str:
    return f" at {tuple(map(int, at))}" if at else ""


def constant(array: np.ndarray) -> np.ndarray:
    """Return a read-only copy."""
    copy = np.array(array)
    copy.flags.writeable = False
    return copy
