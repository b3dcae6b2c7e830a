"""Gradients of losses of modules of PyTorch, by a copy of the module that takes the parameters of one agent after another."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from consensus.frameworks._torch import one_thread
from consensus.frameworks.torch_calls import ModuleCalls, loaded
from consensus.frameworks.torch_derivatives import Derivatives, slopes
from consensus.frameworks.torch_device import forms_of, write_gradients
from consensus.frameworks.torch_draws import runs_python, seeded
from consensus.frameworks.trial import warn_of_probabilities

if TYPE_CHECKING:
    from torch import Tensor, nn


class Differentiable(Protocol):
    """The method of losses that is used here."""

    def gradient(self, outputs: np.ndarray, targets: np.ndarray, /) -> np.ndarray: ...


_THREAD = 2e-3  # seconds of an agent's gradient: with less, threads wait longer for the interpreter than they save


class ModuleGradients(ModuleCalls):
    """Calls of a module, and gradients of losses of its outputs.

    An agent that has a call to itself is the module's own call, which takes less time than that of a function of tensors; its
    tape is used up before the next agent's is made.
    """

    _plain: dict[
        tuple[int, ...] | None, bool
    ]  # whether no Python runs in the backward pass, by shapes of samples, once that is known
    _seconds: dict[
        tuple[tuple[int, ...] | None, int], float
    ]  # of an agent's quickest gradient, by the shape and number of samples

    def worth_a_thread(self, samples: int) -> bool:
        """Return whether agents with so many samples are worth threads: if the gradient of one took long enough.

        Parameters
        ----------
        samples : int
            Number of samples of an agent.

        Returns
        -------
        bool
            False as long as none of at most as many samples was computed.
        """
        known = list(self._seconds.items())
        return any(took > _THREAD for (shape, count), took in known if shape == self._shape and count <= samples)

    def gradient_of(self, loss: object) -> Callable[..., None] | None:
        """Return the gradient with a loss: see :class:`Model`.

        Parameters
        ----------
        loss : Loss
            Any loss.

        Returns
        -------
        callable or None
            None for a module with given buffers, which takes no part in training.
        """
        warn_of_probabilities(self, loss)
        return None if self._evaluated_by else functools.partial(self._gradient, cast(Differentiable, loss))

    def _gradient(
        self, loss: Differentiable, w: np.ndarray, x: np.ndarray, targets: np.ndarray, weights: np.ndarray, out: np.ndarray
    ) -> None:
        model, w, x = self._check(w, x)
        with one_thread(loaded()):
            for rows in model._cut(w, x):
                since = time.perf_counter()
                points, inputs, d, c = (array[rows] for array in (w, x, targets, weights))
                if model.away and (forms := forms_of(loss)):
                    with model._drawing():
                        write_gradients(model, forms.slope, points, inputs, d, c, out[rows])
                elif len(points) == 1:
                    model._write_one(loss, points, inputs, d, c, out[rows])
                else:
                    out[rows] = model._of_several(loss, points, inputs, d, c)
                model._note(x.shape[1], (time.perf_counter() - since) / len(points))

    def _note(self, samples: int, seconds: float) -> None:
        key = self._shape, samples
        self._seconds[key] = min(seconds, self._seconds.get(key, seconds))

    @property
    def _shape(self) -> tuple[int, ...] | None:
        """The shape of a sample; None for inputs that have none."""
        return self.__dict__.get("features")

    def _of_several(self, loss: Differentiable, w: np.ndarray, x: np.ndarray, d: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Return the gradients of agents that share a call, none of which draws random numbers."""
        derivatives = Derivatives(self, w, x)
        return derivatives.vjp(self._cotangents(loss, derivatives.outputs, x, d, c))

    def _write_one(
        self, loss: Differentiable, w: np.ndarray, x: np.ndarray, d: np.ndarray, c: np.ndarray, out: np.ndarray
    ) -> None:
        """Write one agent's gradient; others may draw random numbers while it goes backwards, if nothing is drawn there."""
        torch, row = loaded(), self._tensor(w[0])
        module, parameters = self._own(row.dtype)
        with torch.no_grad():
            for parameter, (_, start, end, shape) in zip(parameters, self._spans, strict=True):
                parameter.copy_(row[start:end].view(shape))

        def backward() -> None:
            u = self._stack(self._cotangents(loss, outputs, x, d, c))
            found = [slope.reshape(-1).to(row.dtype) for slope in slopes([outputs], [u], parameters)]
            if self.away:  # one copy, and one wait
                out[0] = torch.cat(found).cpu().numpy()
                return
            for slope, (_, start, end, _) in zip(found, self._spans, strict=True):
                out[0, start:end] = slope.numpy()

        with self._drawing():
            outputs = self._whole(self._returned(module, self._halved(self._stack(x))), row.dtype)
        if self._draw is None or self._plain.get(self._shape):
            backward()
            return
        with self._drawing():  # from the beginning: a checkpoint repeats the forward pass
            if self._shape in self._plain:
                backward()
            else:
                self._plain[self._shape] = not runs_python(backward)

    def _returned(self, module: nn.Module, x: Any) -> Tensor:  # noqa: ANN401  # subclasses have other inputs
        """Return the outputs of one agent's samples."""
        outputs: Tensor = module(x)
        return outputs

    def _drawing(self) -> AbstractContextManager[None]:
        return nullcontext() if self._draw is None else seeded(loaded(), self._draw, self.device)

    def _cotangents(self, loss: Differentiable, outputs: Tensor, x: np.ndarray, d: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Return the loss's derivatives in the outputs (agents, samples, outputs), times the samples' weights."""
        u = loss.gradient(self._array(outputs.detach(), x), d)
        u *= c[:, :, None]
        return u
