"""Base class of PyTorch and JAX models: splits a block of agents into the parts of one framework call."""

from __future__ import annotations

import itertools
import math
import sys
from contextlib import AbstractContextManager
from typing import NoReturn, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from consensus import _checks
from consensus._arrays.parallel import CHUNK_BYTES
from consensus.frameworks.trial import Generators, tried
from consensus.models.linearization import DEVICE_BYTES, LinearizationDefaults, Linearized, fitting

AGENTS_AWAY = 64  # that share a call on another device, where launching one takes longer than small products
_OWN = "_known", "_here", "_shared", "_plain", "_seconds", "_numbers_kept"  # what a process finds out by itself


class Derivatives(Protocol):
    """Products with the Jacobian J of a part of a block."""

    def vjp(self, u: np.ndarray, /) -> np.ndarray:
        """Return J' u (agents, P) for u (agents, samples, outputs)."""

    def jvp(self, v: np.ndarray, /) -> np.ndarray:
        """Return J v (agents, samples, outputs) for v (agents, P)."""


class Framework(Linearized):
    """A model whose outputs and derivatives another framework computes.

    Agents with much to do are worked one by one; where a call costs more than its arithmetic, several at once. Subclasses set
    ``parameters`` and the methods that are left open here.
    """

    parameters: int  #: P
    device: str
    features: tuple[int, ...]  #: the shape of a sample; there, like the next three, on what :meth:`for_samples` returns
    outputs: int
    output_shape: tuple[int, ...]  #: of a sample's outputs, which :meth:`predict` returns as one row
    widths: tuple[int, ...]  #: how many numbers a sample takes on its way
    whole: bool  #: whether features stay in int32 or int64, as for embeddings
    stochastic = False  #: whether it draws random numbers in training, which ``drawn`` repeats
    differs = False  #: whether it is another function in training, by these numbers or otherwise
    apart = False  #: whether it may be: gradients of batches are then ``drawn``'s
    probabilities = False  #: whether its outputs seem to be probabilities, which losses of logits do not take
    logarithms = True  #: whether they may be logarithms of probabilities: none is above 0
    takes_integers = True  #: ``for_samples`` takes their dtype
    _constants_in = "give its constants the dtype of x"  # a remedy
    precision: np.dtype = np.dtype(np.float32)  #: of runs on whole numbers
    _tried_in: frozenset[np.dtype]  # in which precisions the trial was passed
    _known: dict[tuple[tuple[int, ...], str], Self]  # the model for shapes of samples

    def for_samples(self, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> Self:
        """Return this model for samples of a shape, tried on five of them; always the same object for the same shape.

        Parameters
        ----------
        shape : tuple of int
            Shape of a sample.
        dtype : dtype
            Dtype of the features, and so of the run, in which the model is tried. With int32 or int64 it is tried on such
            samples; if it does not work on them, on floats.

        Returns
        -------
        Framework
            The model, with ``features``, ``outputs``, ``output_shape`` and ``widths``.

        Raises
        ------
        ValueError
            If it fails on them, returns something else than (samples, ...), writes over its arguments or its buffers, draws
            numbers that cannot be repeated, or if a sample's outputs depend on other samples, as with batch statistics.
        """
        shape, dtype = _checks.shape("shape", shape), np.dtype(dtype)
        whole = dtype.kind == "i"
        precision = dtype if dtype.kind == "f" else self.precision
        key = shape, dtype.name if whole else ""
        known = self._known.get(key)
        if known is not None and precision in known._tried_in:
            return known
        try:
            model = self._of(shape, dtype if whole else precision, precision)
        except ValueError as error:
            other = np.dtype(np.float32 if precision == np.float64 else np.float64)
            try:
                model = self.for_samples(shape) if whole else self._of(shape, other, other)
            except ValueError:
                raise error from None
            if not whole:
                raise ValueError(
                    f"{error}; in {other} it works: give features X.astype('{other}'), or {self._constants_in}"
                ) from error
        known = self._known.setdefault(key, model)
        known._tried_in = known._tried_in | {precision}
        return known

    def _of(self, shape: tuple[int, ...], dtype: np.dtype, precision: np.dtype) -> Self:
        """Return a model for samples of a shape and dtype that was tried on them; raise ``ValueError`` otherwise."""
        model = object.__new__(type(self))
        whole = dtype.kind == "i"
        model.__dict__ |= self.__dict__ | {"features": shape, "whole": whole, "_tried_in": frozenset({precision})}
        model.output_shape, model.widths = tried(model, shape, dtype, precision)
        model.outputs = math.prod(model.output_shape)
        return model

    def __getattr__(self, name: str) -> NoReturn:
        if name == "outputs":
            raise AttributeError(f"{name} of {self} are known for samples of a known shape: model.for_samples(shape)")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def samples_at_once(self, dtype: DTypeLike) -> int:
        return fitting(2 * sum((self.widths or (0, 1))[1:]), dtype, self.device)

    def _predicted(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        model, w, x = self._check(w, x)
        outputs = np.empty((*x.shape[:2], model.outputs), w.dtype)
        with self._context(w.dtype):
            for rows in model._cut(w, x):
                outputs[rows] = model._predict(w[rows], x[rows])
        return outputs

    def linearize(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, FrameworkLinearization]:
        model, w, x = self._check(w, x)
        outputs = np.empty((*x.shape[:2], model.outputs), w.dtype)
        parts = []
        with self._context(w.dtype):
            for rows in model._cut(w, x):
                outputs[rows], derivatives = model._derivatives(w[rows], x[rows])
                parts.append((rows, derivatives))
        return outputs, FrameworkLinearization(model, w, x, parts)

    def _check(self, w: np.ndarray, x: np.ndarray) -> tuple[Self, np.ndarray, np.ndarray]:
        """Return this model for samples of x's shape, and the arrays; raise an error if they do not fit the model."""
        w, x = _checks.floats("w", w), self._numbers(x)
        if w.ndim != 2 or w.shape[1] != self.parameters:
            raise ValueError(f"w must have shape (agents, {self.parameters}) for {self}; got {w.shape}")
        shape = self.__dict__.get("features", x.shape[2:])
        if x.ndim < 3 or x.shape[2:] != shape or x.shape[0] not in (1, len(w)):
            wanted = ", ".join(map(str, shape)) or "..."
            raise ValueError(f"x must have shape ({len(w)}, samples, {wanted}) for {self}; got {x.shape}")
        if len(x) < len(w):
            x = np.broadcast_to(x, (len(w), *x.shape[1:]))
        model = self if "features" in self.__dict__ else self.for_samples(shape, x.dtype)
        return model, w, x if model.whole and x.dtype.kind == "i" else x.astype(w.dtype, copy=False)

    def _numbers(self, x: ArrayLike) -> np.ndarray:
        if type(x) is np.ndarray and x.dtype in (np.int32, np.int64) and self.__dict__.get("whole", True):
            return x
        return _checks.floats("x", x)

    def _cut(self, w: np.ndarray, x: np.ndarray) -> list[slice]:
        """Return the parts of a block, each of which is one call."""
        most = self._most(x.shape[1], w.dtype)
        parts = -(-len(w) // most)
        ends = [len(w) * part // parts for part in range(parts + 1)]
        return [slice(*span) for span in itertools.pairwise(ends)]

    @property
    def away(self) -> bool:
        """True on another device than the CPU, to which arrays are copied."""
        return not self.device.startswith("cpu")

    def _most(self, samples: int, dtype: np.dtype) -> int:
        """Return how many agents of so many samples may share a call: one if it fills the cache by itself.

        On another device as many as its memory is asked for at once.
        """
        size = (2 * samples * sum(self.widths) + 2 * self.parameters) * dtype.itemsize
        if self.away:
            return max(1, DEVICE_BYTES // size)
        return sys.maxsize if size <= CHUNK_BYTES // 2 else 1

    # What a subclass gives. Parts of a block have arrays (agents, ...): of one agent, which is worked by itself, or of several.

    def _context(self, dtype: np.dtype) -> AbstractContextManager[None]:
        """Return the framework's settings within calls of its functions; for this thread alone, and undone at the end."""
        raise NotImplementedError

    def _predict(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return f(w, x) of a part."""
        raise NotImplementedError

    def _derivatives(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, Derivatives]:
        """Return f(w, x) of a part, and the products with its Jacobian."""
        raise NotImplementedError

    def _jacobian(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return J (samples, outputs, P) of one agent, w (P,) and x (samples, ...)."""
        raise NotImplementedError

    # For the trial: w is (P,) and x (samples, ...), of one agent.
    def _call(self, w: np.ndarray, x: np.ndarray) -> object:
        """Return what the function returns, as a NumPy array if it is an array of the framework."""
        raise NotImplementedError

    def _path(self, w: np.ndarray, x: np.ndarray) -> tuple[tuple[int, ...], str]:
        """Return the ``widths``, and an objection to what happens on the way, or ""."""
        raise NotImplementedError

    def _backward(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> object:
        """Pass backwards, for what may happen there; return the product, if there is one."""
        raise NotImplementedError

    def _state(self, w: np.ndarray) -> dict[str, str]:
        """Return digests, by name, of what calls may leave behind, but must not count in."""
        return {}

    def _generators(self) -> Generators:
        """Return the functions that read and set the state of each of the framework's global random generators, by name."""
        return {}

    def _constants(self, w: np.ndarray) -> dict[str, str]:
        """Return digests, by name, of what every call must leave as it is."""
        return {}

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in _OWN}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__ |= state
        self._prepare()

    def _prepare(self) -> None:
        """Set what is not sent to other processes."""
        self._known = {}


class FrameworkLinearization(LinearizationDefaults):
    """Products with the Jacobian J of a :class:`Framework` at fixed parameters and features, part by part."""

    def __init__(self, model: Framework, w: np.ndarray, x: np.ndarray, parts: list[tuple[slice, Derivatives]]) -> None:
        self._model, self._w, self._x, self._parts = model, w, x, parts

    def vjp(self, u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return J' u (agents, P) for u (agents, samples, outputs), written to ``out`` if given."""
        u = _checks.floats("u", u).astype(self._w.dtype, copy=False)
        wanted = (*self._x.shape[:2], self._model.outputs)
        if u.shape != wanted:
            raise ValueError(f"u must have shape {wanted} for {self._model}; got {u.shape}")
        out = np.empty_like(self._w) if out is None else out
        with self._model._context(self._w.dtype):
            for rows, derivatives in self._parts:
                out[rows] = derivatives.vjp(u[rows])
        return out

    def jvp(self, v: np.ndarray) -> np.ndarray:
        """Return J v (agents, samples, outputs) for v (agents, P)."""
        v = _checks.floats("v", v).astype(self._w.dtype, copy=False)
        if v.shape != self._w.shape:
            raise ValueError(f"v must have the shape of w, {self._w.shape}, for {self._model}; got {v.shape}")
        outputs = np.empty((*self._x.shape[:2], self._model.outputs), v.dtype)
        with self._model._context(self._w.dtype):
            for rows, derivatives in self._parts:
                outputs[rows] = derivatives.jvp(v[rows])
        return outputs

    def jacobian(self, columns: np.ndarray | None = None) -> np.ndarray:
        """Return J (agents, samples * outputs, P), or its ``columns``, given by a sorted integer array."""
        agents, samples = self._x.shape[:2]
        width = self._model.parameters if columns is None else len(columns)
        jacobian = np.empty((agents, samples * self._model.outputs, width), self._w.dtype)
        with self._model._context(self._w.dtype):
            for agent, matrix in enumerate(jacobian):
                whole = self._model._jacobian(self._w[agent], self._x[agent]).reshape(len(matrix), -1)
                matrix[...] = whole if columns is None else whole[:, columns]
        return jacobian

    def gram(self) -> np.ndarray:
        """Return J J' (agents, samples * outputs, samples * outputs)."""
        jacobian = self.jacobian()
        return np.asarray(jacobian @ jacobian.swapaxes(1, 2))
