"""Trials of another framework's functions, which must depend on their parameters and on a sample's own features alone."""

from __future__ import annotations

import math
import pickle
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

import numpy as np

from consensus import _checks
from consensus.frameworks._torch import GENERATORS_LOCK

if TYPE_CHECKING:
    import torch

    from consensus.models.layout import NamedArray

Generators: TypeAlias = dict[str, tuple[Callable[[], Any], Callable[[Any], None]]]  # each has states of its own type
Result = TypeVar("Result")

_SLACK = 1e-3  # of a logarithm of a probability above 0, in float16
_OF_LOGITS = {  # losses by name, and what makes probabilities of logits
    **dict.fromkeys(("CrossEntropy", "CrossEntropyLoss", "cross_entropy"), "softmax"),
    **dict.fromkeys(("LogisticLoss", "BCEWithLogitsLoss", "binary_cross_entropy_with_logits"), "sigmoid"),
}
_OF_LOGARITHMS = ("NLLLoss", "nll_loss", "KLDivLoss", "kl_div")
_SCALES = (0, 0, 1, 3, 10)  # of the samples' random features; the second sample is of ones
GENERATORS: Generators = {  # by what a module may draw from: how their states are read and set
    "NumPy's global generator": (np.random.get_state, np.random.set_state),
    "Python's generator random": (random.getstate, random.setstate),
}


def generators_here() -> Generators:
    """Return the global generators of this process: NumPy's, Python's, and PyTorch's if it is loaded."""
    torch = sys.modules.get("torch")
    return GENERATORS if torch is None else GENERATORS | of_torch({"PyTorch's generator": torch.default_generator})


def of_torch(generators: Mapping[str, torch.Generator]) -> Generators:
    """Return how the states of PyTorch's generators are read and set."""

    def both(own: torch.Generator) -> tuple[Callable[[], np.ndarray], Callable[[np.ndarray], None]]:
        def put(state: np.ndarray) -> None:
            own.set_state(sys.modules["torch"].from_numpy(state))

        return lambda: own.get_state().numpy(), put

    return {name: both(own) for name, own in generators.items()}


class Triable(Protocol):
    """The part of a ``Framework`` model that its trial calls, for one agent, w (P,) and x (samples, ...)."""

    parameters: int
    stochastic: bool
    differs: bool
    apart: bool
    probabilities: bool
    logarithms: bool

    @property
    def layout(self) -> tuple[NamedArray, ...]: ...
    def _context(self, dtype: np.dtype) -> AbstractContextManager[None]: ...
    def _call(self, w: np.ndarray, x: np.ndarray) -> object: ...
    def _path(self, w: np.ndarray, x: np.ndarray) -> tuple[tuple[int, ...], str]: ...
    def _backward(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> object: ...
    def _state(self, w: np.ndarray) -> dict[str, str]: ...
    def _generators(self) -> Generators: ...
    def _constants(self, w: np.ndarray) -> dict[str, str]: ...


@contextmanager
def watched(generators: Generators) -> Iterator[Callable[[], list[str]]]:
    """Yield a function that returns the generators that were drawn from; afterwards these go on as if nothing had been."""

    def drawn() -> list[str]:
        return [name for name, (read, _) in generators.items() if pickle.dumps(read()) != pickle.dumps(before[name])]

    with GENERATORS_LOCK:
        before = {name: read() for name, (read, _) in generators.items()}
        try:
            yield drawn
        finally:
            for name in drawn():
                generators[name][1](before[name])


def tried(
    model: Triable, shape: tuple[int, ...], dtype: np.dtype, precision: np.dtype
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of a sample's outputs and the ``widths`` of a model for samples of a shape and dtype, in a precision.

    It sets ``stochastic``, ``differs`` and ``apart`` by what the model is in training, and ``least`` if there is batch
    normalisation; the model is then tried in training mode, too. It raises a ``ValueError`` if a pass fails, writes over its
    arguments or changes the model's constants, draws from a generator, or if the outputs for a sample in evaluation mode depend
    on the other samples, on their order, or on earlier calls.
    """
    rng = np.random.default_rng(0)
    x = np.multiply.outer(_SCALES, np.ones(shape)) * rng.standard_normal((len(_SCALES), *shape))
    if dtype.kind == "i":  # any table has a first entry, and all but the smallest a second
        x = np.where(x > 0, 1.0, 0.0)
    x[1] = 1
    x, w = x.astype(dtype), (0.3 * rng.standard_normal(model.parameters)).astype(precision)
    normalises = getattr(model, "buffers", None) is not None
    any_model = cast(Any, model)  # of what only modules have
    modes = model.apart = bool(getattr(model, "trains", False))
    tolerance = 5e-2 if (rough := getattr(model, "_rough", False)) else 1e-3
    with model._context(w.dtype):
        trial = _Trial(model, w)
        trial.settle(x)
        model.stochastic = modes and _Trial(any_model.in_training(), w).draws(x)
        widths, remark = trial.run(model._path, x)
        if remark:
            raise ValueError(f"{model}: {remark}")
        outputs, state = trial.outputs(x), model._state(w)
        if not np.array_equal(trial.outputs(x), outputs, equal_nan=True):
            raise ValueError(
                f"{model} returns other outputs when it is called again: they may depend on w and x alone, neither on a count "
                "of calls nor on a random generator"
            )
        check_state(model, state, model._state(w))
        in_turn = np.concatenate([trial.outputs(x[row : row + 1]) for row in range(len(x))])
        backwards = trial.outputs(x[::-1].copy())[::-1]
        axes = None if rough else tuple(range(1, outputs.ndim))
        scale = tolerance * np.nan_to_num(np.abs(outputs)).max(axis=axes, keepdims=True)
        for other in (in_turn, backwards):
            if not (np.isclose(other, outputs, rtol=tolerance, atol=scale, equal_nan=True)).all():
                raise ValueError(
                    f"{model}: a sample's outputs depend on the other samples or on their order, as batch statistics, "
                    "cumsum(0) and sort(0) do: normalise by GroupNorm, and work along the later axes"
                )
        trial.writes(x)
        slopes = trial.backward(x, outputs)
        trial.reaches(x, outputs)
        model.probabilities, model.logarithms = probabilities(outputs), not (outputs > _SLACK).any()
        model.differs = model.stochastic
        if modes and not normalises:
            training = _Trial(any_model.in_training(), w)
            model.differs |= not training.same(x, outputs, slopes)
            model.apart = model.differs or training.reads_mode(x)
    if model.apart or normalises:
        _try_draw(any_model.drawn(0, 0), w, x, outputs)
    if normalises:
        any_model.least = 1 if _takes_one(any_model.normalised(), w, x) else 2
    return outputs.shape[1:], widths


def probabilities(outputs: np.ndarray) -> bool:
    """Return whether outputs (samples, ...) are between 0 and 1, and add up to one if a sample has several."""
    rows = outputs.reshape(len(outputs), -1)
    within = np.isfinite(rows).all() and rows.min() >= 0 and rows.max() <= 1 and len(np.unique(rows)) > 1
    return bool(within and (rows.shape[1] == 1 or np.allclose(rows.sum(axis=1), 1, atol=1e-3)))


def warn_of_probabilities(model: Any, loss: object) -> None:  # noqa: ANN401  # of another framework
    """Warn if a loss of logits gets probabilities, or one of logarithms of probabilities something else."""
    function = getattr(loss, "function", loss)
    function = getattr(function, "func", function)  # of a functools.partial
    last = _OF_LOGITS.get(name := getattr(function, "__name__", type(function).__name__))
    if model.probabilities and last:
        _checks.warn(f"outputs of {model} are probabilities, and {loss} takes logits: leave the last {last} out")
    if not model.logarithms and name in _OF_LOGARITHMS:
        _checks.warn(
            f"outputs of {model} are above 0, and {loss} takes logarithms of probabilities: end the model with LogSoftmax(1), "
            "or take CrossEntropy(), which takes logits"
        )


def check_state(model: object, before: dict[str, str], after: dict[str, str]) -> None:
    """Raise ``ValueError`` if a second call with the same arguments left something else behind than the first."""
    changed = [name for name, value in after.items() if value != before.get(name)]
    if changed:
        raise ValueError(
            f"{model} keeps {changed[0]} from one call to the next, which agents, threads and processes do not share: leave "
            "the count out of the module, or let it depend on w and x alone"
        )


def _try_draw(model: Triable, w: np.ndarray, x: np.ndarray, outputs: np.ndarray) -> None:
    """Raise ``ValueError`` if a model does not repeat its random numbers, or does what it must not while it draws them."""
    try:
        trial, found, states = _Trial(model, w), list[np.ndarray](), list[dict[str, str]]()
        for _ in range(2):
            with model._context(w.dtype):
                found.append(trial.outputs(x))
                states.append(model._state(w))
        if not np.array_equal(found[0], found[1], equal_nan=True):
            raise ValueError(
                f"{model} returns other outputs for the same random numbers of PyTorch: draw from its generator alone"
            )
        check_state(model, *states)
        if found[0].shape != outputs.shape:
            shapes = f"{found[0].shape[1:]} in training, {outputs.shape[1:]} in evaluation"
            raise ValueError(f"{model} must return outputs of one shape; got {shapes}")
        with model._context(w.dtype):
            _, remark = trial.run(model._path, x)
            trial.backward(x, outputs)
        if remark:
            raise ValueError(f"{model}: {remark}")
    except ValueError as error:
        raise ValueError(f"{error}; this is in training mode, which module.eval() leaves") from error


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

    def backward(self, x: np.ndarray, outputs: np.ndarray) -> object:
        """Pass backwards from outputs like these, and return the product."""
        return self.run(lambda w, x: self.model._backward(w, x, np.ones((len(x), outputs[0].size), outputs.dtype)), x)

    def reaches(self, x: np.ndarray, outputs: np.ndarray) -> None:
        """Warn of arrays of parameters that outputs depend on, but that no gradient reaches."""
        u = np.random.default_rng(1).standard_normal((len(x), outputs[0].size)).astype(outputs.dtype)
        slopes = self.run(lambda w, x: self.model._backward(w, x, u), x)
        if not isinstance(slopes, np.ndarray):  # of JAX
            return
        cut = []
        for name, start, shape, _ in self.model.layout:
            part = slice(start, start + math.prod(shape))
            if not slopes.ravel()[part].any() and all(self._moves(part, way, x, outputs) for way in (1e-3, -1e-3)):
                cut.append(name)
        if cut:
            _checks.warn(
                f"outputs of {self.model} depend on {', '.join(cut)}, but no gradient reaches them, as inside torch.no_grad() "
                "or after detach(): solvers take them for parameters that do not matter; requires_grad_(False) makes them "
                "constants"
            )

    def _moves(self, part: slice, way: float, x: np.ndarray, outputs: np.ndarray) -> bool:
        """Return whether outputs change if some parameters do; on one side of a kink they may, which is no dependence."""
        w = self.w.copy()
        w[part] *= 1 + way
        with suppress(Exception), watched(self.generators):
            found = self.model._call(w, x.copy())
            return not np.array_equal(np.asarray(found), outputs, equal_nan=True)
        return False

    def settle(self, x: np.ndarray) -> None:
        """Let the model find out how it has to be called, if there are several ways."""
        if settle := getattr(self.model, "_settle", None):
            with watched(self.generators):
                settle(lambda: self.model._call(self.w.copy(), x.copy()))

    def writes(self, x: np.ndarray) -> None:
        """Raise ``ValueError`` if a call writes over parameters once they are large; whether it fails there does not matter."""
        w = 100 * self.w
        with suppress(Exception), watched(self.generators):
            self.model._call(w, x.copy())
        if not np.array_equal(w, 100 * self.w):
            raise ValueError(f"{self.model} writes over large parameters, as max_norm= of embeddings does: leave that out")

    def same(self, x: np.ndarray, outputs: np.ndarray, slopes: object) -> bool:
        """Return whether outputs and slopes are these, but for rounding; not if a call fails, which is shown later."""
        try:
            found = self.outputs(x), self.backward(x, outputs)
        except ValueError:
            return False
        pairs: Any = zip(found, (outputs, slopes), strict=True)
        return all(
            np.allclose(new, old, rtol=1e-4, atol=1e-4 * np.nan_to_num(np.abs(old)).max(), equal_nan=True) for new, old in pairs
        )

    def reads_mode(self, x: np.ndarray) -> bool:
        """Return whether the user's own code asks for the mode; it may differ elsewhere if a call fails."""
        try:
            with watched(self.generators):
                return bool(cast(Any, self.model)._reads_mode(self.w.copy(), x.copy()))
        except Exception:
            return True

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
