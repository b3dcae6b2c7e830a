"""The comparisons of :func:`consensus.testing.check_model`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from consensus import _checks
from consensus.models import Model, linearize
from consensus.testing.laws import Laws

_PROBES = 5  # coordinates of a diagonal that are compared


class Trial:
    """The points, directions and results of one check."""

    def __init__(self, model: Model, shape: tuple[int, ...], rng: np.random.Generator, dtype: np.dtype) -> None:
        self.model, self.name, self.dtype = model, type(model).__name__, dtype
        self.errors: dict[str, float] = {}
        self.P, self.outputs = (
            _checks.count(f"{name} of {self.name}", getattr(model, name)) for name in ("parameters", "outputs")
        )
        self.agents, self.samples, *_ = shape
        self.out = (self.agents, self.samples, self.outputs)
        sizes = shape, (self.agents, self.P), self.out, (self.agents, self.P)
        self.x, self.v, self.u, w = (rng.standard_normal(size).astype(dtype) for size in sizes)
        self.w = (0.3 * w).astype(dtype)
        self.eps = float(np.finfo(dtype).eps)

    def call(self, method: str, *arguments: Any, of: object = None, label: str | None = None) -> Any:
        """Call ``model.method(*arguments)``; a failure, or a changed argument, is an ``AssertionError``."""
        label = label or f"{self.name}.{method}"
        kept = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
        shapes = ", ".join(str(argument.shape) for argument in arguments if isinstance(argument, np.ndarray))
        try:
            result = getattr(of or self.model, method)(*arguments)
        except Exception as error:
            raise AssertionError(f"{label} failed with arrays of shapes {shapes}: {type(error).__name__}: {error}") from error
        for argument, before in zip(arguments, kept, strict=True):
            if isinstance(argument, np.ndarray) and not np.array_equal(argument, before):
                raise AssertionError(f"{label} must leave its arguments as they are; it changed one of shape {argument.shape}")
        return result

    def array(self, label: str, found: object, shape: tuple[int, ...], dtype: np.dtype | None = None) -> np.ndarray:
        """Reject anything but a finite array of that shape and dtype."""
        if not isinstance(found, np.ndarray):
            raise AssertionError(f"{label} must return a NumPy array {shape}; got {_checks.shown(found)}")
        if found.shape != shape:
            raise AssertionError(f"{label} must return shape {shape}; got {found.shape}")
        if found.dtype != (dtype or self.dtype):
            raise AssertionError(f"{label} must return dtype {dtype or self.dtype}, that of its arguments; got {found.dtype}")
        if not np.isfinite(found).all():
            raise AssertionError(f"{label} must return finite numbers; got {_checks.shown(found)}")
        return found

    def same(self, what: str, found: np.ndarray, wanted: np.ndarray, tolerance: float, where: str) -> None:
        """Record the distance of ``found`` from ``wanted``; reject it beyond the tolerance."""
        scale = np.abs(wanted).max(initial=0) + np.abs(found).max(initial=0) + np.finfo(self.dtype).tiny
        error = float(np.abs(found - wanted).max(initial=0) / scale)
        if error > tolerance:
            place = np.unravel_index(np.abs(found - wanted).argmax(), found.shape)
            raise AssertionError(
                f"{self.name}: {what} disagree: {where}; at {tuple(map(int, place))} {found[place]:.6g} and "
                f"{wanted[place]:.6g}, a relative error of {error:.1g} where at most {tolerance:.1g} is rounding"
            )
        self.errors[what] = max(error, self.errors.get(what, 0.0))

    def start(self, seed: int) -> None:
        """Compare two random starts from the same seed."""
        first, second = (self.call("init", np.random.default_rng(seed)) for _ in range(2))
        if not isinstance(first, np.ndarray) or first.dtype.kind != "f":
            raise AssertionError(
                f"{self.name}.init must return a NumPy array of floats ({self.P},); got {_checks.shown(first)}"
            )
        self.array(f"{self.name}.init", first, (self.P,), first.dtype)
        if not np.array_equal(first, second):
            raise AssertionError(f"{self.name}.init must draw from the generator that it gets alone; two with one seed differ")
        self.w = (self.w + first).astype(self.dtype)

    def products(self) -> None:
        """Compare ``predict``, ``jvp`` and ``vjp`` with each other."""
        self.f = self.array(f"{self.name}.predict", self.call("predict", self.w, self.x), self.out)
        self._alone("predict", self.f)
        self._by_sample()
        self.Jv = self.array(f"{self.name}.jvp", self.call("jvp", self.w, self.x, self.v), self.out)
        self._alone("jvp", self.Jv, self.v)
        self.Ju = self.array(f"{self.name}.vjp", self.call("vjp", self.w, self.x, self.u), self.w.shape)
        self._alone("vjp", self.Ju, self.u)
        h = self.dtype.type(self.eps**0.4)
        ahead, behind = (self.call("predict", self.w + sign * h * self.v, self.x) for sign in (1, -1))
        difference, bend = (ahead - behind) / (2 * h), np.abs(ahead - 2 * self.f + behind) / h
        straight = bend <= 1e-2 * np.abs(difference).max()  # elsewhere there is a kink on the way, as relu has them
        straight |= not straight.any()
        what, found = "jvp and differences of predict", np.where(straight, self.Jv, difference)
        self.same(what, found, difference, 1e3 * self.eps ** (2 / 3), "J v must be the slope of f")
        ours, theirs = (np.abs(a * b).reshape(self.agents, -1).sum(axis=1) for a, b in ((self.u, self.Jv), (self.Ju, self.v)))
        left, right = ((a * b).reshape(self.agents, -1).sum(axis=1) for a, b in ((self.u, self.Jv), (self.Ju, self.v)))
        error = float((np.abs(left - right) / (ours + theirs + np.finfo(self.dtype).tiny)).max())
        self.errors["vjp and jvp, u . J v = J' u . v"] = error
        if error > 1e3 * self.eps:
            agent = int(np.abs(left - right).argmax())
            raise AssertionError(
                f"{self.name}: vjp and jvp disagree: u . J v must equal J' u . v; of agent {agent} they are {left[agent]:.6g} "
                f"and {right[agent]:.6g}"
            )

    def _alone(self, method: str, among: np.ndarray, *direction: np.ndarray) -> None:
        """Reject results of one agent alone that differ from those ``among`` the others."""
        for agent in (0, self.agents - 1):
            own = slice(agent, agent + 1)
            alone = self.call(method, self.w[own], self.x[own], *(part[own] for part in direction))
            alone = self.array(f"{self.name}.{method} of one agent", alone, (1, *among.shape[1:]))
            where = "an agent's numbers must not depend on the others'"
            self.same(f"{method} of an agent alone and among others", alone, among[own], 1e3 * self.eps, where)

    def _by_sample(self) -> None:
        """Reject outputs that depend on other samples, or are not finite on the zeros of padding."""
        fewer = self.call("predict", self.w, self.x[:, ::2])
        fewer = self.array(f"{self.name}.predict of some samples", fewer, self.f[:, ::2].shape)
        what, where = "predict of some samples and of all", "a sample's outputs must not depend on the others"
        self.same(what, fewer, self.f[:, ::2], 1e3 * self.eps, where)
        self.array(f"{self.name}.predict of zeros", self.call("predict", self.w, np.zeros_like(self.x)), self.out)

    def extras(self) -> None:
        """Compare the optional methods with the products."""
        rows = self.samples * self.outputs
        for method, shape in (("jacobian", (self.agents, rows, self.P)), ("gram", (self.agents, rows, rows))):
            if getattr(self.model, method, None):
                found = self.array(f"{self.name}.{method}", self.call(method, self.w, self.x), shape)
                getattr(self, f"_{method}")(method, found)
        if not getattr(self.model, "linearize", None):
            if not getattr(self.model, "jacobian", None):
                there = linearize(self.model, self.w, self.x)[1]
                label = f"{self.name}.vjp, with every output of every sample an agent,"
                self._jacobian("jacobian made by vjp", self.call("jacobian", of=there, label=label))
            return
        result = self.call("linearize", self.w, self.x)
        if not isinstance(result, tuple) or len(result) != 2:
            raise AssertionError(f"{self.name}.linearize must return (outputs, linearization); got {_checks.shown(result)}")
        label, there = f"{self.name}.linearize", result[1]
        _checks.offers(f"the linearization of {label}", there, ("vjp", "jvp"), "an object with vjp(u, out=None) and jvp(v)")
        tolerance = 1e3 * self.eps
        outputs = self.array(f"{label}, its outputs,", result[0], self.out)
        self.same("linearize and predict", outputs, self.f, tolerance, "outputs must be those of predict")

        def call(method: str, *arguments: Any) -> Any:
            return self.call(method, *arguments, of=there, label=f"{label}(...)[1].{method}")

        moved = self.array(f"{label}(...)[1].jvp", call("jvp", self.v), self.out)
        self.same("linearize and jvp", moved, self.Jv, tolerance, "J v must be that of jvp")
        back = self.array(f"{label}(...)[1].vjp", call("vjp", self.u), self.w.shape)
        self.same("linearize and vjp", back, self.Ju, tolerance, "J' u must be that of vjp")
        out = np.empty_like(self.w)
        there.vjp(self.u, out=out)
        self.same("linearize and vjp with out", out, self.Ju, tolerance, "J' u must be written to out")
        if getattr(there, "several", False):
            self._several(f"{label}(...)[1]", call)
        if getattr(there, "jacobian", None):
            jacobian = self.array(f"{label}(...)[1].jacobian", call("jacobian"), (self.agents, rows, self.P))
            self._jacobian("linearize's jacobian", jacobian)
            columns = np.arange(0, self.P, 2)
            some = self.array(
                f"{label}(...)[1].jacobian(columns)", call("jacobian", columns), (self.agents, rows, len(columns))
            )
            self.same("jacobian of some columns", some, jacobian[:, :, columns], tolerance, "they must be those of the whole")
        if getattr(there, "gram", None):
            self._gram("linearize's gram", self.array(f"{label}(...)[1].gram", call("gram"), (self.agents, rows, rows)))
        if getattr(there, "diagonal", None):
            self._diagonal(self.array(f"{label}(...)[1].diagonal", call("diagonal", np.square(self.u)), self.w.shape))

    def copies(self) -> None:
        """Compare a copy, as worker processes get one, and simultaneous calls of several threads."""
        copy = Laws(self.model).copied(self.model, equal=False)
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda model: model.vjp(self.w, self.x, self.u), [self.model, copy, copy, self.model]))
        for one in found:
            self.same("vjp of copies and of threads", one, self.Ju, 0.0, "copies and threads must get the same bits")

    def _several(self, label: str, call: Callable[..., object]) -> None:
        """Compare several tangents and cotangents of an agent at once with one."""
        for name, direction, one in (("jvp", self.v, self.Jv), ("vjp", self.u, self.Ju)):
            wanted = np.stack([-one, 2 * one], axis=1)
            found = self.array(
                f"{label}.{name} of two", call(name, np.stack([-direction, 2 * direction], axis=1)), wanted.shape
            )
            self.same(f"{name} of several and of one", found, wanted, 1e3 * self.eps, "their axis is the second")

    def _jacobian(self, name: str, found: np.ndarray) -> None:
        product = (found @ self.v[:, :, None]).reshape(self.out)
        self.same(
            f"{name} and jvp", product, self.Jv, 1e3 * self.eps, "J times v must be J v; outputs of a sample are neighbours"
        )

    def _gram(self, name: str, found: np.ndarray) -> None:
        product = (found @ self.u.reshape(self.agents, -1, 1)).reshape(self.out)
        wanted = self.call("jvp", self.w, self.x, self.Ju)
        self.same(f"{name} and jvp of vjp", product, wanted, 1e4 * self.eps, "J J' times u must be J (J' u)")

    def _diagonal(self, found: np.ndarray) -> None:
        for k in np.unique(np.linspace(0, self.P - 1, _PROBES).astype(int)):
            unit = np.zeros_like(self.v)
            unit[:, k] = 1
            column = self.call("jvp", self.w, self.x, unit)
            wanted = np.square(self.u * column).sum(axis=(1, 2))
            self.same(
                "diagonal and jvp", found[:, k], wanted, 1e4 * self.eps, f"entry {k} of J' S J must be that column's square"
            )
