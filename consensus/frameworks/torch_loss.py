"""Losses of PyTorch."""

from __future__ import annotations

import copy
import functools
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import TYPE_CHECKING, Literal, Self, cast

import numpy as np

from consensus import _checks, _extras
from consensus._arrays.digest import digest
from consensus.frameworks._torch import GENERATORS_LOCK, one_thread
from consensus.losses.arrays import columns_of, scores
from consensus.losses.base import Loss
from consensus.losses.cross_entropy import by_label, of_samples
from consensus.losses.trial import alone, draws, mixed

if TYPE_CHECKING:
    import torch


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

    over : {"samples", "batch"}
        Whether ``function`` is a loss of each sample by itself, or of a batch. With ``"batch"`` it returns a number for all
        samples that it is given, which need not be a sum over them: a partial likelihood, a contrastive or a ranking loss.
        They are samples of one agent, its batch or all of them, in their order; never those of several agents.
    reduction : {"mean", "sum"}, optional
        For a loss over a batch: whether it is a mean over the samples, which counts as many times as the batch has samples, or
        a sum. By default the ``reduction`` of a module. For a function a problem finds out which one it is, by a batch that is
        given twice, and rejects what is neither.

    Raises
    ------
    ImportError
        Without PyTorch: ``pip install 'consensus-opt[torch]'``.
    TypeError
        If ``function`` cannot be called.
    ValueError
        If it is a module with another reduction, or with parameters that require a gradient, which nobody would train; if a
        ``reduction`` is given of a loss over samples. A problem rejects functions that fail on its targets, have no gradient,
        have one in other tensors, or draw random numbers; over samples also those whose samples' losses do not add up, such as
        a mean, or depend on each other.

    Notes
    -----
    Over samples, with ``reduction="mean"`` a :class:`consensus.Problem` divides the sum by the number of samples, whatever
    weights or ignored labels ``function`` may have; :class:`CrossEntropy` divides by these. Over a batch, with n_i samples of
    agent i, N of the network and the agent's loss L_i, it has ``g_i = (n_i / N) L_i`` of a mean, and ``L_i / N`` of a sum, as
    a loop in PyTorch that averages the agents' losses by their numbers of samples. A minibatch of b samples stands for n_i, as
    n_i / b times its sum. Its gradients are not those of all samples on average, as those of sums are: solvers that combine
    both reject such losses, and so does what needs the loss of a single sample.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from consensus.losses import TorchLoss
    >>> loss = TorchLoss(torch.nn.PoissonNLLLoss(reduction="sum"))  # exp(f) - d f
    >>> loss.value(np.zeros((2, 1)), np.array([[0.0], [3.0]])), loss.gradient(np.zeros((2, 1)), np.array([[0.0], [3.0]]))
    (array([1., 1.]), array([[ 1.],
           [-2.]]))

    A contrastive loss of two views of each sample, whose positives are all others of the batch:

    >>> def contrastive(f, d):
    ...     one, other = f.chunk(2, dim=1)
    ...     return torch.nn.functional.cross_entropy(one @ other.T, torch.arange(len(f)))
    >>> TorchLoss(contrastive, over="batch", reduction="mean").value(np.zeros((4, 6)), np.zeros((4, 1))).round(4)
    array([1.3863, 1.3863, 1.3863, 1.3863])
    """

    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    labels: bool = False
    over: Literal["samples", "batch"] = "samples"
    reduction: Literal["mean", "sum"] | None = None
    least: int = field(default=1, init=False)  #: how many samples a batch needs
    classes: int = field(default=0, init=False)  #: how many there are if they are the first axis of a sample's outputs

    separable = False
    convex = False

    def __post_init__(self) -> None:
        torch = _loaded()
        wanted = "function must be a loss of PyTorch, such as torch.nn.MSELoss(reduction='sum')"
        if isinstance(self.function, type) or not callable(self.function):
            raise TypeError(f"{wanted}; got {_checks.shown(self.function)}")
        if isinstance(self.function, torch.nn.Module):
            self._check_module(self.function)
            object.__setattr__(self, "function", copy.deepcopy(self.function))
        _checks.flag("labels", self.labels)
        _checks.choice("over", self.over, ("samples", "batch"))
        if self.reduction is not None:
            _checks.choice("reduction", self.reduction, ("mean", "sum"))
            if self.over == "samples":
                raise ValueError(
                    "reduction is that of a loss over='batch'; over samples the function returns a sum, or all losses"
                )

    def _check_module(self, function: torch.nn.Module) -> None:
        reduction, allowed = (
            getattr(function, "reduction", None),
            ("none", "sum") if self.over == "samples" else ("mean", "sum"),
        )
        if reduction not in (None, *allowed):
            one, other = (f"reduction={each!r}" for each in allowed)
            weighted = getattr(function, "weight", None) is not None or getattr(function, "ignore_index", -1) >= 0
            own = isinstance(function, _loaded().nn.CrossEntropyLoss) and weighted and reduction == "mean"
            mean = "; consensus.CrossEntropy(weight=[...], ignore_index=...) has its mean, by the sum of weights" if own else ""
            raise ValueError(f"function must have {one} or {other}; {function} has {reduction!r}{mean}")
        if reduction and self.over == "batch" and self.reduction is None:
            object.__setattr__(self, "reduction", reduction)
        if trained := [name for name, part in function.named_parameters() if part.requires_grad]:
            raise ValueError(
                f"function must have no parameters to train, as agents train those of the model; {type(function).__name__} has "
                f"{', '.join(trained)}: call requires_grad_(False) if they are constant, or let the module of the model have "
                f"them, and return torch.cat([f, {trained[0].rpartition('.')[2]}.reshape(1, -1).expand(len(f), -1)], 1)"
            )

    def __repr__(self) -> str:
        text = getattr(self.function, "__qualname__", None) or " ".join(str(self.function).split())
        reduction = f", reduction={self.reduction!r}" if self.reduction else ""
        over = f", over='batch'{reduction}" if self.over == "batch" else ""
        return f"TorchLoss({text}{', labels=True' if self.labels else ''}{over})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TorchLoss) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    @property
    def _digest(self) -> str:
        """The digest that distinguishes losses: modules are compared by identity, also with their own copies."""
        return digest(self.function, self.labels, *([self.over, self.reduction] if self.over == "batch" else []))

    def value(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        torch, found = _loaded(), scores(outputs)
        with self._domain(found), one_thread(torch), torch.no_grad():
            if self.over == "batch":
                return self._of_agents(lambda f, d: self._number(f, d).expand(len(f)) / self._shares(f), found, targets)[..., 0]
            f, d = self._tensors(found, targets)
            values = self._called(f, d)
            if values.ndim == 0:  # a sum: every sample by itself
                values = self._one_by_one(f, d)
            return np.asarray(values.reshape(len(f), -1).sum(dim=1).numpy()).reshape(found.shape[:-1])

    def gradient(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        torch, found = _loaded(), scores(outputs)
        with self._domain(found), one_thread(torch):
            if self.over == "batch":
                return self._of_agents(lambda f, d: self._slopes(f, d) * (len(f) / self._shares(f)), found, targets)
            f, d = self._tensors(found, targets)
            return np.array(self._slopes(f, d).numpy()).reshape(found.shape)

    def _slopes(self, f: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        f = f.requires_grad_()
        value = self._called(f, d).sum() if self.over == "samples" else self._number(f, d)
        slopes: torch.Tensor = _loaded().autograd.grad(value, f)[0]
        return slopes

    def _one_by_one(self, f: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        """Return the loss of each sample, of a function that returns their sum."""
        module = _loaded()
        try:
            values: torch.Tensor = module.func.vmap(lambda f, d: self._called(f[None], d[None]))(f, d)
        except RuntimeError:  # of a function whose way depends on the numbers, as with masks
            values = module.stack([self._called(f[row : row + 1], d[row : row + 1]) for row in range(len(f))])
        return values

    def _of_agents(
        self, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], outputs: np.ndarray, targets: np.ndarray
    ) -> np.ndarray:
        """Return ``function(f, d)`` (samples, ...) of each agent's samples, of outputs (..., samples, outputs)."""
        if self.reduction is None:
            raise ValueError(f"{self} must have reduction='mean' or reduction='sum': a problem finds it by its targets")
        agents, own = outputs.reshape(-1, *outputs.shape[-2:]), _checks.array("targets", targets)
        own = own.reshape(len(agents), agents.shape[1], -1)
        found = [np.asarray(function(*self._tensors(*pair)).detach().numpy()) for pair in zip(agents, own, strict=True)]
        return np.stack(found).astype(outputs.dtype, copy=False).reshape(*outputs.shape[:-1], -1)

    def _shares(self, f: torch.Tensor) -> int:
        """Return by what the loss of a batch is divided, as each sample's: by one if it is a mean, by their number if a sum."""
        return 1 if self.reduction == "mean" else len(f)

    def _number(self, f: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch."""
        found = self._called(f, d)
        if found.numel() != 1:
            raise ValueError(f"it must return a number for a batch; got {tuple(found.shape)}")
        return found.reshape(())

    def curvature(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        raise TypeError(
            f"{self} has no known curvature, nor a bound on it: take a solver that uses gradients only, and give its step_size"
        )

    def curvature_root(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self.curvature(outputs, targets)

    def error(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        if self.labels:
            if self.classes:
                rows = np.reshape(outputs, (*np.shape(outputs)[:-1], self.classes, -1))
                outputs = rows.swapaxes(-1, -2).reshape(np.shape(outputs))
            logits, labels, count = by_label(outputs, targets)
            wrong = of_samples((logits.argmax(axis=-1) != labels).astype(logits.dtype), count)
            return np.asarray(wrong / logits.dtype.type(count))
        same = np.shape(targets) == np.shape(outputs)
        return super().error(outputs, targets) if same else self.value(outputs, targets)

    def check(self, targets: np.ndarray, outputs: int) -> None:
        columns_of(targets)
        if self.labels and (targets != np.rint(targets)).any():
            wrong = np.argwhere(targets != np.rint(targets))[0]
            raise ValueError(f"{self} takes whole numbers as targets; got {targets[tuple(wrong)]:g}, of sample {wrong[0]}")
        for f, d in draws(targets, outputs, self._squashed(targets, outputs)):
            with self._failures(f, d):
                self._check_call(f, d)
                if self.over == "samples":
                    self._check_samples(f, d)
        if self.over == "batch" and self.reduction is None:
            self._found_reduction(targets, outputs)

    def settled(self, targets: np.ndarray, outputs: int, shape: tuple[int, ...] = ()) -> Self:
        """Return the loss with what a trial on targets finds: its ``reduction``, how many samples a batch needs, the classes.

        Parameters
        ----------
        targets : ndarray (samples, columns)
            All targets.
        outputs : int
            Number of outputs of the model.
        shape : tuple of int
            Their shape, where ``error`` looks for the axis of the classes.

        Returns
        -------
        TorchLoss
            The loss, itself if there is nothing to find.
        """
        several = self.labels and len(shape) > 1
        if self.over == "samples" and not several:
            return self
        batch = self.over == "batch"
        found = replace(self, reduction=self.reduction or self._found_reduction(targets, outputs)) if batch else replace(self)
        f, d = next(draws(targets, outputs, self._squashed(targets, outputs)))
        if batch:
            object.__setattr__(found, "least", 2)
            with suppress(Exception), warnings.catch_warnings(action="ignore"):  # one sample may be too few
                object.__setattr__(found, "least", 1 if np.isfinite(alone(found.gradient, f, d)).all() else 2)
        if several and d.shape[1] == math.prod(shape[1:]):
            slopes = found.gradient(f, d).reshape(len(f), *shape)
            each = d.reshape(len(f), -1, 1).astype(int)
            first = np.take_along_axis(np.moveaxis(slopes, 1, -1).reshape(len(f), -1, shape[0]), each % shape[0], axis=-1)
            last = slopes.reshape(len(f), -1, shape[-1])
            # The logit of a label lowers the loss: where there is a label for each place of both layouts, it shows which one.
            fits = d.shape[1] == math.prod(shape[:-1])
            if not fits or first.mean() < np.take_along_axis(last, each % shape[-1], axis=-1).mean():
                object.__setattr__(found, "classes", shape[0])
        return found

    def _squashed(self, targets: np.ndarray, outputs: int) -> bool:
        """Return whether outputs are to be tried between 0 and 1, as probabilities, because the function takes no others."""
        any_kind, probabilities = (next(draws(targets, outputs, squashed)) for squashed in (False, True))
        return not self._takes(*any_kind) and self._takes(*probabilities)

    def _takes(self, f: np.ndarray, d: np.ndarray) -> bool:
        """Return whether the function takes such outputs at all."""
        try:
            self._called(*self._tensors(f, d))
        except Exception:
            return False
        return True

    @contextmanager
    def _domain(self, outputs: np.ndarray) -> Iterator[None]:
        """Say on which outputs of the model the function fails, such as logits where it takes probabilities."""
        try:
            yield
        except RuntimeError as error:
            if self.over == "batch":
                raise
            where = f"{outputs.min(initial=np.inf):.3g} to {outputs.max(initial=-np.inf):.3g}"
            raise ValueError(f"{self} fails on the model's outputs, {where}: {error}") from error

    @contextmanager
    def _failures(self, f: np.ndarray, d: np.ndarray) -> Iterator[None]:
        try:
            yield
        except _Unfit as error:
            raise ValueError(str(error)) from None
        except Exception as error:
            place, remedy = f"outputs {f.shape} and targets {d.shape}", ""
            if not self.labels and (d == np.rint(d)).all() and replace(self, labels=True)._takes(f, d):
                remedy = "; labels=True gives it whole numbers, which it takes"
            raise ValueError(f"{self} fails on {place}: {type(error).__name__}: {error}{remedy}") from error

    def _check_call(self, f: np.ndarray, d: np.ndarray) -> None:
        """Raise an error if a call fails, draws random numbers, counts on earlier ones, or has a gradient in other tensors."""
        torch = _loaded()
        outputs, labels = self._tensors(f, d)
        with GENERATORS_LOCK, one_thread(torch):
            before = torch.get_rng_state()
            first = self._called(outputs.requires_grad_(), labels)
            again = self._called(*self._tensors(f, d))
            drawn = not torch.equal(before, torch.get_rng_state())
            torch.set_rng_state(before)
        if drawn or not torch.equal(first.detach().nan_to_num(), again.detach().nan_to_num()):
            why = "draws random numbers" if drawn else "returns another value when it is called again"
            raise _Unfit(f"{self} {why}: it must depend on outputs and targets alone; what is random belongs into the module")
        if others := [tuple(leaf.shape) for leaf in _leaves(first) if leaf is not outputs]:
            raise _Unfit(
                f"{self} has a gradient in a tensor {others[0]} of its own, which no agent trains: detach it if it is "
                "constant, or let the module of the model have it, and return it with the outputs"
            )
        if self.over == "batch":
            self._number(outputs, labels)
        self._slopes(*self._tensors(f, d))

    def _check_samples(self, f: np.ndarray, d: np.ndarray) -> None:
        """Raise an error if the losses of samples do not add up, or depend on each other."""
        whole = self._called(*self._tensors(f, d))
        tolerance = 1e-6 if whole.dtype == _loaded().float64 else 1e-3
        by_itself = alone(self.value, f, d)
        odd = mixed(self.value(f, d), by_itself, tolerance)
        slopes = mixed(self.gradient(f, d), alone(self.gradient, f, d), tolerance)
        total, added = float(whole.sum()), by_itself.sum()
        same = np.isclose(total, added, rtol=tolerance, atol=tolerance * np.abs(np.nan_to_num(by_itself)).sum(), equal_nan=True)
        if odd is not None or slopes is not None or not same:
            place = "" if slopes is None else f", and the gradient of sample {slopes} depends on the others"
            raise _Unfit(
                f"{self} must return the sum over samples, or a loss for each; for {len(f)} samples it makes {total:.6g}, and "
                f"the sum for each by itself is {added:.6g}{place}: take reduction='sum' or reduction='none', or "
                "TorchLoss(function, over='batch') for a loss of a whole batch"
            )

    def _found_reduction(self, targets: np.ndarray, outputs: int) -> Literal["mean", "sum"]:
        """Return what a function of a batch is, by the gradients in the samples of a batch that is given once and twice.

        A mean has half the gradient in each of two copies of a sample, a sum has all of it in both.
        """
        ratios = []
        for f, d in draws(targets, outputs, self._squashed(targets, outputs)):
            with self._failures(f, d):
                once = self._slopes(*self._tensors(f, d)).numpy()
                twice = self._slopes(*self._tensors(np.concatenate([f, f]), np.concatenate([d, d]))).numpy()
            size, both = np.vdot(once, once), np.vdot(once, twice[: len(f)] + twice[len(f) :])
            if np.isfinite(both / size if size else np.nan):
                ratios.append(both / size)
        for reduction, ratio in (("mean", 1.0), ("sum", 2.0)):
            if ratios and all(0.8 * ratio < found < 1.25 * ratio for found in ratios):
                return cast(Literal["mean", "sum"], reduction)
        shown = ", ".join(f"{ratio:.3g}" for ratio in ratios) or "none that is finite and not zero"
        raise ValueError(
            f"{self} must have a reduction: its gradients on a batch that is given twice are {shown} times those on it, where "
            "a mean has 1 and a sum 2: give reduction='mean' if the function is a mean over the batch, such as one divided by "
            "its number of samples or pairs, or reduction='sum'"
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


class _Unfit(ValueError):
    """Failure of a trial, in its own words."""


def _leaves(values: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors that values have a gradient in."""
    found: list[torch.Tensor] = []
    seen, waiting = set[object](), [values.grad_fn]
    while waiting:
        step = waiting.pop()
        if step is not None and step not in seen:
            seen.add(step)
            waiting.extend(function for function, _ in step.next_functions)
            if hasattr(step, "variable"):
                found.append(step.variable)
    return found


@functools.lru_cache(maxsize=16)
def _held(module: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """Return a copy of a loss whose buffers, such as weights of classes, are in ``dtype``."""
    return copy.deepcopy(module).to(dtype)
