"""Losses of PyTorch."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from consensus import _checks, _extras
from consensus._contents import digest
from consensus._torch import one_thread
from consensus.losses.arrays import columns_of, scores
from consensus.losses.base import Loss
from consensus.losses.softmax import by_label, of_samples

if TYPE_CHECKING:
    import torch

_TRIED = 3  # samples, whose losses must add up


@dataclass(frozen=True, eq=False, repr=False)
class TorchLoss(Loss):
    """A loss of PyTorch: ``l(f, d) = function(f, d)``, with gradients by its automatic differentiation.

    Whether it is convex is not known. Solvers that use gradients only take it, as :class:`consensus.solvers.GradientTracking`
    with a ``step_size`` does; those that need a convex loss or its curvature reject it by name.

    Parameters
    ----------
    function : callable
        A function or module of outputs (samples, outputs) and targets (samples, columns), both in the precision of the run. It
        returns the sum over the samples (``reduction="sum"``), or their losses, (samples,) or (samples, ...), which are then
        summed for each sample (``reduction="none"``). A module is copied, with its buffers in the precision of the run.
    labels : bool
        Whether targets are whole numbers, such as classes: they are then int64, and a single column has shape (samples,).
        `error` is the fraction of labels that do not have the largest logit. Otherwise it is ``|f - d|^2`` if there is a target
        for each output, and the loss itself if not.

    Raises
    ------
    ImportError
        Without PyTorch: ``pip install consensus-opt[torch]``.
    TypeError
        If ``function`` cannot be called.
    ValueError
        If it is a module with another reduction. A problem rejects functions that fail on its targets or have no gradient, and
        those whose samples' losses do not add up, such as a mean.

    Notes
    -----
    With ``reduction="mean"`` a :class:`consensus.Problem` divides the sum by the number of samples, whatever weights or ignored
    labels ``function`` may have; :class:`CrossEntropy` divides by these.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from consensus.losses import TorchLoss
    >>> loss = TorchLoss(torch.nn.PoissonNLLLoss(reduction="sum"))  # exp(f) - d f
    >>> loss.value(np.zeros((2, 1)), np.array([[0.0], [3.0]])), loss.gradient(np.zeros((2, 1)), np.array([[0.0], [3.0]]))
    (array([1., 1.]), array([[ 1.],
           [-2.]]))
    """

    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    labels: bool = False

    separable = False
    convex = False

    def __post_init__(self) -> None:
        torch = _loaded()
        wanted = "function must be a loss of PyTorch, such as torch.nn.MSELoss(reduction='sum')"
        if isinstance(self.function, type) or not callable(self.function):
            raise TypeError(f"{wanted}; got {_checks.shown(self.function)}")
        if isinstance(self.function, torch.nn.Module):
            if (reduction := getattr(self.function, "reduction", "none")) not in ("none", "sum"):
                raise ValueError(f"function must have reduction='none' or reduction='sum'; {self.function} has {reduction!r}")
            object.__setattr__(self, "function", copy.deepcopy(self.function).requires_grad_(False))
        _checks.flag("labels", self.labels)

    def __repr__(self) -> str:
        text = getattr(self.function, "__qualname__", None) or " ".join(str(self.function).split())
        return f"TorchLoss({text}{', labels=True' if self.labels else ''})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TorchLoss) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    @property
    def _digest(self) -> str:
        """What tells two losses apart: modules are compared by identity, also with their own copies."""
        return digest(self.function, self.labels)

    def value(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        torch, found = _loaded(), scores(outputs)
        f, d = self._tensors(found, targets)
        with one_thread(torch), torch.no_grad():
            values = self._called(f, d)
            if values.ndim == 0:  # a sum: every sample by itself
                values = torch.func.vmap(lambda f, d: self._called(f[None], d[None]))(f, d)
            return np.asarray(values.reshape(len(f), -1).sum(dim=1).numpy()).reshape(found.shape[:-1])

    def gradient(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        torch, found = _loaded(), scores(outputs)
        f, d = self._tensors(found, targets)
        with one_thread(torch):
            f = f.requires_grad_()
            (slopes,) = torch.autograd.grad(self._called(f, d).sum(), f)
        return np.array(slopes.numpy()).reshape(found.shape)

    def curvature(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        raise TypeError(
            f"{self} has no known curvature, nor a bound on it: take a solver that uses gradients only, and give its step_size"
        )

    def curvature_root(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self.curvature(outputs, targets)

    def error(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        if self.labels:
            logits, labels, count = by_label(outputs, targets)
            wrong = of_samples((logits.argmax(axis=-1) != labels).astype(logits.dtype), count)
            return np.asarray(wrong / logits.dtype.type(count))
        same = np.shape(targets) == np.shape(outputs)
        return super().error(outputs, targets) if same else self.value(outputs, targets)

    def check(self, targets: np.ndarray, outputs: int) -> None:
        columns_of(targets)
        some = np.resize(targets, (_TRIED, *np.shape(targets)[1:])).astype(float)
        if self.labels and (targets != np.rint(targets)).any():
            wrong = np.argwhere(targets != np.rint(targets))[0]
            raise ValueError(f"{self} takes whole numbers as targets; got {targets[tuple(wrong)]:g}, of sample {wrong[0]}")
        f = np.random.default_rng(0).standard_normal((_TRIED, outputs))
        try:
            alone = [self.value(f[m : m + 1], some[m : m + 1])[0] for m in range(_TRIED)]
            together, _ = self.value(f, some), self.gradient(f, some)
            whole = float(self._called(*self._tensors(f, some)).sum())
        except Exception as error:
            place = f"outputs {f.shape} and targets {some.shape}"
            raise ValueError(f"{self} fails on {place}: {type(error).__name__}: {error}") from error
        for found in (together.sum(), whole):
            if not np.isclose(found, np.sum(alone), rtol=1e-6):
                raise ValueError(
                    f"{self} must return the sum over samples, or a loss for each; for three samples it makes {found:.6g}, and "
                    f"the sum for each by itself is {np.sum(alone):.6g}: take reduction='sum' or reduction='none'"
                )

    def _called(self, f: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        """Return what the function returns: a number, or an array with a row for each sample."""
        torch, function = _loaded(), self.function
        if isinstance(function, torch.nn.Module):
            function = _held(function, f.dtype)
        found = function(f, d)
        if not isinstance(found, torch.Tensor) or (found.ndim and len(found) != len(f)):
            shape = tuple(found.shape) if isinstance(found, torch.Tensor) else _checks.shown(found)
            raise ValueError(f"it must return a number, or an array with a row for each of {len(f)} samples; got {shape}")
        return found

    def _tensors(self, outputs: np.ndarray, targets: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Return outputs (samples, outputs), a copy, and targets (samples, columns) of all agents as tensors."""
        torch, found = _loaded(), _checks.array("targets", targets)
        f = torch.from_numpy(outputs.reshape(-1, outputs.shape[-1]).copy())
        columns = found.shape[-1] if found.ndim == outputs.ndim else 1
        if found.shape not in ((*outputs.shape[:-1], columns), outputs.shape[:-1]):
            raise ValueError(f"targets must have shape {outputs.shape[:-1]}, and any number of columns; got {found.shape}")
        if not self.labels:
            return f, torch.from_numpy(found.reshape(-1, columns).astype(outputs.dtype))
        d = torch.from_numpy(found.reshape(-1, columns).astype(np.int64))
        return f, d[:, 0] if columns == 1 else d


def _loaded() -> ModuleType:
    return _extras.module("torch", "consensus.losses.TorchLoss", "torch")


@functools.lru_cache(maxsize=16)
def _held(module: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """Return a copy of a loss whose buffers, such as weights of classes, are in ``dtype``."""
    return copy.deepcopy(module).to(dtype)
