"""Whether a function of another framework depends on its parameters and on a sample's own features alone."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import numpy as np

from consensus import _checks

Generators: TypeAlias = dict[str, tuple[Callable[[], Any], Callable[[Any], None]]]  # each has states of its own type
Result = TypeVar("Result")

_SCALES = (0, 0, 1, 3, 10)  # of the samples' random features; the second sample is of ones
GENERATORS: Generators = {  # by what a module may draw from: how their states are read and set
    "NumPy's global generator": (np.random.get_state, np.random.set_state),
    "Python's generator random": (random.getstate, random.setstate),
}


class Triable(Protocol):
    """The part of a ``Framework`` model that its trial calls, for one agent, w (P,) and x (samples, ...)."""

    parameters: int
    stochastic: bool

    def _context(self, dtype: np.dtype) -> AbstractContextManager[None]: ...
    def _call(self, w: np.ndarray, x: np.ndarray) -> object: ...
    def _path(self, w: np.ndarray, x: np.ndarray) -> tuple[tuple[int, ...], str]: ...
    def _backward(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> None: ...
    def _generators(self) -> Generators: ...
    def _constants(self, w: np.ndarray) -> dict[str, str]: ...


@contextmanager
def watched(generators: Generators) -> Iterator[Callable[[], list[str]]]:
    """Yield a function that returns the generators that were drawn from; afterwards these go on as if nothing had been."""
    before = {name: read() for name, (read, _) in generators.items()}

    def drawn() -> list[str]:
        return [name for name, (read, _) in generators.items() if pickle.dumps(read()) != pickle.dumps(before[name])]

    try:
        yield drawn
    finally:
        for name in drawn():
            generators[name][1](before[name])


def tried(model: Triable, shape: tuple[int, ...], dtype: np.dtype) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of a sample's outputs and the ``widths`` of a model for samples of a shape and dtype, in float32.

    It sets ``stochastic`` if a call draws random numbers from the framework, and ``least`` if there is batch normalisation; the
    model is then tried in training mode, too. It raises a ``ValueError`` if a pass fails, writes over its arguments or changes
    the model's constants, draws from a generator, or if the outputs for a sample in evaluation mode depend on the other
    samples, on their order, or on earlier calls.
    """
    rng = np.random.default_rng(0)
    x = np.multiply.outer(_SCALES, np.ones(shape)) * rng.standard_normal((len(_SCALES), *shape))
    if dtype.kind == "i":  # any table has a first entry, and all but the smallest a second
        x = np.where(x > 0, 1.0, 0.0)
    x[1] = 1
    x, w = x.astype(dtype), 0.3 * rng.standard_normal(model.parameters).astype(np.float32)
    normalises = getattr(model, "buffers", None) is not None
    with model._context(w.dtype):
        trial = _Trial(model, w)
        model.stochastic = (_Trial(cast(Any, model).in_training(), w) if normalises else trial).draws(x)
        widths, remark = trial.run(model._path, x)
        if remark:
            raise ValueError(f"{model}: {remark}")
        outputs = trial.outputs(x)
        if not np.array_equal(trial.outputs(x), outputs, equal_nan=True):
            raise ValueError(
                f"{model} returns other outputs when it is called again: they may depend on w and x alone, neither on a count "
                "of calls nor on a random generator"
            )
        in_turn = np.concatenate([trial.outputs(x[row : row + 1]) for row in range(len(x))])
        backwards = trial.outputs(x[::-1].copy())[::-1]
        scale = 1e-3 * np.nan_to_num(np.abs(outputs)).max(axis=tuple(range(1, outputs.ndim)), keepdims=True)
        for other in (in_turn, backwards):
            if not (np.isclose(other, outputs, rtol=1e-3, atol=scale, equal_nan=True)).all():
                raise ValueError(
                    f"{model}: a sample's outputs depend on the other samples or on their order, as batch statistics, "
                    "cumsum(0) and sort(0) do: normalise by GroupNorm, and work along the later axes"
                )
        trial.backward(x, outputs)
    if model.stochastic or normalises:
        _try_draw(cast(Any, model).drawn(0, 0), w, x, outputs)
    if normalises:
        cast(Any, model).least = 1 if _takes_one(cast(Any, model).normalised(), w, x) else 2
    return outputs.shape[1:], widths


def _try_draw(model: Triable, w: np.ndarray, x: np.ndarray, outputs: np.ndarray) -> None:
    """Raise ``ValueError`` if a model does not repeat its random numbers, or does what it must not while it draws them."""
    trial, found = _Trial(model, w), list[np.ndarray]()
    for _ in range(2):
        with model._context(w.dtype):
            found.append(trial.outputs(x))
    if not np.array_equal(found[0], found[1], equal_nan=True):
        raise ValueError(f"{model} returns other outputs for the same random numbers of PyTorch: draw from its generator alone")
    if found[0].shape != outputs.shape:
        shapes = f"{found[0].shape[1:]} in training, {outputs.shape[1:]} in evaluation"
        raise ValueError(f"{model} must return outputs of one shape; got {shapes}")
    with model._context(w.dtype):
        _, remark = trial.run(model._path, x)
        trial.backward(x, outputs)
    if remark:
        raise ValueError(f"{model}: {remark}")


def _takes_one(model: Triable, w: np.ndarray, x: np.ndarray) -> bool:
    """Return whether a batch may be a single sample, which has no variance unless it has several numbers a channel."""
    try:
        with model._context(w.dtype):
            model._call(w.copy(), x[:1].copy())
    except ValueError:
        return False
    return True


class _Trial:
    """Calls of a model, which must leave everything but their result as it was."""

    def __init__(self, model: Triable, w: np.ndarray) -> None:
        self.model, self.w = model, w
        self.generators = GENERATORS | model._generators()

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Return the outputs of samples x; raise ``ValueError`` if they are no array (samples, ...) in the dtype of w."""
        outputs, dtype = self.run(self.model._call, x), self.w.dtype
        if isinstance(outputs, np.ndarray) and outputs.ndim > 1 and len(outputs) == len(x) and outputs.dtype == dtype:
            return outputs
        if hasattr(outputs, "dtype") and hasattr(outputs, "shape"):
            found = f"{outputs.dtype} {tuple(outputs.shape)}"
        else:
            found = _checks.shown(outputs)
        raise ValueError(
            f"{self.model} must return (samples, outputs) in the dtype of w, {dtype}; of x {x.dtype} {x.shape} it made "
            f"{' '.join(found.split())}"
        )

    def backward(self, x: np.ndarray, outputs: np.ndarray) -> None:
        """Pass backwards from outputs like these."""
        self.run(lambda w, x: self.model._backward(w, x, np.ones((len(x), outputs[0].size), outputs.dtype)), x)

    def draws(self, x: np.ndarray) -> bool:
        """Return whether a call draws from the framework's generators; other faults are left to :meth:`run`."""
        with suppress(Exception), watched(self.generators) as drawn:  # the next call shows errors
            self.model._call(self.w.copy(), x.copy())
            return any(name not in GENERATORS for name in drawn())
        return False

    def run(self, call: Callable[[np.ndarray, np.ndarray], Result], x: np.ndarray) -> Result:
        """Return ``call(w, x)``; raise ``ValueError`` if it fails or changes anything."""
        model, w, features = self.model, self.w.copy(), x.copy()
        constants = model._constants(w)
        with watched(self.generators) as changed_by:
            try:
                result = call(w, features)
            except Exception as error:
                raise ValueError(f"{model} fails on samples of shape {x.shape[1:]}: {type(error).__name__}: {error}") from error
            drawn = changed_by()
        if drawn:
            raise ValueError(
                f"{model} draws random numbers from {drawn[0]}, as dropout does: leave that out in evaluation, as by "
                "dropout(x, training=self.training), and draw from PyTorch's own generator"
            )
        for what, array, given in (("features", features, x), ("parameters", w, self.w)):
            if not np.array_equal(array, given):
                raise ValueError(f"{model} writes over the {what} that it gets: work in place (inplace=True) on copies alone")
        changed = [name for name, value in model._constants(w).items() if value != constants.get(name)]
        if changed:
            raise ValueError(
                f"{model} changes {changed[0]} when it is called: buffers must stay as they are, as after module.eval()"
            )
        return result
