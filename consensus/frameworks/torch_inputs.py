"""Modules of PyTorch on what a collate function makes: tensors of any shape, dictionaries of them, padded sequences."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from consensus import _checks
from consensus.frameworks._torch import one_thread
from consensus.frameworks.torch import Torch
from consensus.frameworks.torch_calls import Leaves, loaded
from consensus.frameworks.torch_derivatives import Derivatives
from consensus.frameworks.torch_gradients import Differentiable
from consensus.frameworks.trial import GENERATORS, check_state, watched

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch import dtype as DType


class TorchInputs(Torch):
    """A :class:`Torch` model on collated inputs, of one agent at a time: x is a list of one such input.

    Dictionaries are given to the module by name, ``module(**inputs)``, all else as it is, ``module(inputs)``. Floats in them
    are in the precision of the module's own parameters, as the run is. Outputs may have other shapes in other batches; of
    what a model of Hugging Face returns they are the ``logits``.
    """

    dtype: np.dtype  # of the run

    @classmethod
    def of(cls, model: Torch, inputs: object, alone: list[object]) -> Self:
        """Return the model, tried on the ``inputs`` of some samples and on those of each of them ``alone``.

        It raises a ``ValueError`` if a call fails, returns no tensor (samples, ...), has no gradient, changes buffers, draws
        random numbers in evaluation mode, or if a sample's outputs depend on other samples or on padding.
        """
        found = object.__new__(cls)
        found.__dict__ |= model.__dict__ | {"stochastic": False, "differs": False, "agents_per_call": 1}
        found._prepare()
        w = model.init(np.random.default_rng(0))
        found.dtype = np.result_type(w, np.float32)
        w = w.astype(found.dtype)[None]
        found.apart = found.trains
        with watched(GENERATORS | found._generators()):
            found._settle(lambda: found.predict(w, [inputs]))
        with suppress(Exception), watched(GENERATORS | found._generators()) as drawn:  # errors come again below
            found.in_training().predict(w, [inputs])
            found.stochastic = any(name not in GENERATORS for name in drawn())
        outputs, state, again = found._try(w, inputs), found._state(w), found._try(w, inputs)
        if not np.array_equal(again, outputs, equal_nan=True):
            raise ValueError(f"{found} returns other outputs when it is called again: they may depend on w and inputs alone")
        check_state(found, state, found._state(w))
        if found.apart:
            found.differs, found.apart = found._modes(w, inputs, outputs)
        if found.apart:
            found.drawn(0, 0)._try(w, inputs)
        if len(outputs) != len(alone):
            raise ValueError(f"{found} must return outputs (samples, ...) of {len(alone)} samples; got {len(outputs)}")
        found.outputs = outputs.shape[1]
        precision = 5e-2 if found._rough else 1e-3
        scale = precision * np.abs(outputs).max()
        for sample, one in enumerate(alone):
            own = found._try(w, one)
            if own.shape[1:] == outputs.shape[1:] and not np.allclose(own[0], outputs[sample], rtol=precision, atol=scale):
                raise ValueError(
                    f"{found}: a sample's outputs depend on the other samples of a batch, or on its padding: normalise by "
                    "GroupNorm or LayerNorm, and leave padding out by a mask or by lengths"
                )
        return found

    def predict(self, w: np.ndarray, x: Any) -> np.ndarray:  # noqa: ANN401  # a list of what collate returned
        with self._context(self.dtype):
            return self._predict(w, x)

    def linearize(self, w: np.ndarray, x: Any) -> tuple[np.ndarray, Any]:  # noqa: ANN401
        with self._context(self.dtype):
            derivatives = Derivatives(self, w, x)
            return self._array(derivatives.outputs.detach(), x), _Backward(self, derivatives)

    def _gradient(
        self,
        loss: Differentiable,
        w: np.ndarray,
        x: Any,  # noqa: ANN401
        targets: np.ndarray,
        weights: np.ndarray,
        out: np.ndarray,
    ) -> None:
        since = time.perf_counter()
        with one_thread(loaded()):
            self._write_one(loss, w, x, targets, weights, out)
        self._note(weights.shape[1], time.perf_counter() - since)

    def _try(self, w: np.ndarray, inputs: object) -> np.ndarray:
        """Return the outputs (samples, outputs); raise ``ValueError`` if a call fails, or changes anything."""
        constants = self._constants(w[0])
        with watched(GENERATORS | self._generators()) as drawn:
            try:
                outputs, linearization = self.linearize(w, [inputs])
                linearization.vjp(np.ones_like(outputs), np.empty_like(w))
            except Exception as error:
                raise ValueError(f"{self} fails on inputs {_shapes(inputs)}: {type(error).__name__}: {error}") from error
            mode = "evaluation mode" if self._draw is None else "training"
            changed = [f"draws random numbers from {name} in {mode}" for name in drawn()]
        changed += [f"changes {name}" for name, value in self._constants(w[0]).items() if value != constants[name]]
        if changed:
            raise ValueError(f"{self} {changed[0]}: draw from PyTorch's generator in training, and change nothing")
        return np.asarray(outputs[0])

    def _modes(self, w: np.ndarray, inputs: object, outputs: np.ndarray) -> tuple[bool, bool]:
        """Return whether training is another function than evaluation, and whether it may be one."""
        with watched(GENERATORS | self._generators()):
            try:
                other = self.in_training().predict(w, [inputs])[0]
                reads = self._reads_mode(w, cast(Any, [inputs]))
            except Exception:
                return True, True
        same = other.shape == outputs.shape and np.allclose(other, outputs, rtol=1e-4, atol=1e-4 * np.abs(outputs).max())
        return self.stochastic or not same, self.stochastic or not same or reads

    def _call(self, w: np.ndarray, x: Any) -> object:  # noqa: ANN401
        return self.predict(w, x)

    def shape_of(self, inputs: object) -> tuple[int, ...]:
        """Return the shape of a sample's outputs, such as (tokens, classes).

        Parameters
        ----------
        inputs : object
            What collate returned.

        Returns
        -------
        tuple of int
            The shape.
        """
        w = self.init(np.random.default_rng(0)).astype(self.dtype)[None]
        with self._context(self.dtype), loaded().set_grad_enabled(self._differentiates):
            found = self._outputs(self._leaves(w), self._stack([inputs]))
        return tuple(found.shape[1:])

    def _stack(self, array: Any) -> Any:  # noqa: ANN401
        return self._given(array[0]) if isinstance(array, list) else super()._stack(array)

    def _given(self, inputs: Any) -> Any:  # noqa: ANN401
        """Return inputs as the module gets them: tensors on the device, floats in the run's dtype."""
        torch = loaded()
        if isinstance(inputs, Mapping):
            return {name: self._given(value) for name, value in inputs.items()}
        if isinstance(inputs, tuple | list):
            parts = [self._given(value) for value in inputs]
            return type(inputs)(*parts) if hasattr(inputs, "_fields") else type(inputs)(parts)
        if isinstance(inputs, np.ndarray):
            inputs = torch.from_numpy(np.ascontiguousarray(inputs))
        if not isinstance(inputs, torch.Tensor):
            return inputs
        floats = (self._half or getattr(torch, self.dtype.name)) if inputs.is_floating_point() else None
        return inputs.to(self.device, floats)

    def _outputs(self, leaves: Leaves, x: Any) -> Tensor:  # noqa: ANN401
        return self._logits(self._function(leaves[0].dtype)(leaves, x))

    def _returned(self, module: nn.Module, x: Any) -> Tensor:  # noqa: ANN401
        return self._logits(module(**x) if isinstance(x, dict) else module(x))

    def _halved(self, x: Any) -> Any:  # noqa: ANN401
        return x  # as they were given

    def _whole(self, outputs: Any, dtype: DType) -> Any:  # noqa: ANN401
        return outputs  # of which logits may be a part

    def _logits(self, found: Any) -> Tensor:  # noqa: ANN401
        found = getattr(found, "logits", found)
        if not isinstance(found, loaded().Tensor) or not found.ndim:
            raise TypeError(f"it must return a tensor (samples, ...), or have one as .logits; got {_checks.shown(found)}")
        return found if self._half is None else found.to(getattr(loaded(), self.dtype.name))

    def _array(self, outputs: Tensor, x: object) -> np.ndarray:
        return np.asarray(outputs.detach().cpu().numpy()).reshape(1, len(outputs), -1)


class _Backward:
    """Products with the transposed Jacobian at fixed parameters and inputs."""

    def __init__(self, model: TorchInputs, derivatives: Derivatives) -> None:
        self._model, self._derivatives = model, derivatives

    def vjp(self, u: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Write J' u (1, P) to ``out``, for u (1, samples, outputs)."""
        with self._model._context(self._model.dtype):
            out[...] = self._derivatives.vjp(u)
        return out


def _shapes(inputs: Any) -> str:  # noqa: ANN401
    """Return the shapes of inputs, as text for errors."""
    if isinstance(inputs, Mapping):
        return f"{{{', '.join(f'{name!r}: {_shapes(value)}' for name, value in inputs.items())}}}"
    return f"{tuple(inputs.shape)}" if hasattr(inputs, "shape") else _checks.shown(inputs)
