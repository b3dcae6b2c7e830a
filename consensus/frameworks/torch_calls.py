"""Calls of a module of PyTorch for blocks of agents."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np

from consensus import _checks, _extras
from consensus.frameworks.base import Framework
from consensus.frameworks.torch_buffers import BatchLayers
from consensus.frameworks.torch_checks import cast, constants, modes_read, path, returned, state
from consensus.frameworks.torch_draws import generators, seed_of
from consensus.frameworks.trial import Generators, of_torch

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch import dtype as DType

Leaves: TypeAlias = "list[Tensor]"  # the parameters of a call


@functools.cache
def loaded() -> ModuleType:
    """Return the package torch; raise ``ImportError`` with what to install if it is missing."""
    return _extras.module("torch", "consensus.models.Torch", "torch")


class ModuleCalls(Framework):
    """A module, its parameters taken from rows of numbers, and NumPy arrays as its tensors.

    Subclasses set the attributes below.
    """

    _constants_in = "make its constants buffers, by register_buffer"
    device: str
    seed: int
    buffers: str | None  #: of which samples evaluation has the statistics of batch normalisation, if there is any
    least: int  #: how many samples a batch needs
    _module: nn.Module
    _layers: BatchLayers
    # Calls of the module in training, by a batch's statistics; in evaluation with those of the batch, or with given buffers.
    _mode: Literal["training", "normalised", "evaluated"] | None = None
    _draw: int | None = None  # the seed of PyTorch's generator within calls, if there is one
    _evaluated_by: dict[str, np.ndarray]  # the buffers of an evaluated module
    _halves: list[DType | None]  # of each parameter: its dtype if that has fewer digits than the run's, in which it computes
    _half: DType | None  # that of all of them, which inputs get, too
    _rough: bool  # whether any part has fewer digits
    _differentiates: bool = False  # whether it takes derivatives by itself, as physics-informed networks do
    _linear: bool  # whether all parameters are of ``Linear`` layers
    _spans: list[tuple[list[str], int, int, tuple[int, ...]]]  # of each parameter: its names, its place in a row, its shape
    _here: threading.local  # a thread's own copies of the module, by dtype: a call of it sets its parameters

    def draw_seed(self, agent: int, draw: int) -> int:
        """Return the number that PyTorch's generator is seeded with for an agent's gradient in a draw.

        Parameters
        ----------
        agent : int
            The agent's number in the network.
        draw : int
            The batch's number, ``batch.draw``.

        Returns
        -------
        int
            The seed: ``torch.manual_seed(seed)`` before a call of the module in training mode draws the same numbers.
        """
        agent, draw = _checks.count("agent", agent, least=0), _checks.count("draw", draw, least=0)
        return seed_of(self.seed, agent, draw)

    def drawn(self, agent: int, draw: int) -> Self:
        """Return the model in training mode, with the random numbers of an agent in a draw, the same in every call.

        Parameters
        ----------
        agent, draw : int
            As in :meth:`draw_seed`.

        Returns
        -------
        Torch
            The model, for one agent at a time; batch normalisation is by the samples of a call.
        """
        return self._like(_mode="training", _draw=self.draw_seed(agent, draw) if self.stochastic else None)

    def in_training(self) -> Self:
        return self._like(_mode="training")

    def normalised(self) -> Self:
        """Return the model in evaluation mode but for batch normalisation, which is by the samples of a call.

        Returns
        -------
        Torch
            The model, for one agent at a time.
        """
        return self._like(_mode="normalised")

    def evaluated(self, buffers: np.ndarray) -> Self:
        """Return the model in evaluation mode, with these running means and variances in batch normalisation.

        Parameters
        ----------
        buffers : ndarray (B,)
            The buffers, as :meth:`consensus.Problem.buffers` returns them.

        Returns
        -------
        Torch
            The model, a function of the parameters and of each sample by itself.
        """
        return self._like(_mode="evaluated", _evaluated_by=self._named(buffers), buffers=None, stochastic=False, _known={})

    def statistics(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the means and variances in batch normalisation of one agent's samples, all else in evaluation mode.

        Parameters
        ----------
        w : ndarray (1, P)
            The parameters.
        x : ndarray (1, samples, ...)
            The samples.

        Returns
        -------
        ndarray (B,)
            The means of all layers, then the variances, which are divided by the number of values.
        """
        model = self.normalised()
        with self._layers.watched(loaded(), model._held(self._tensor(w).dtype)) as seen:
            model._predicted(w, x)
        return self._layers.vector(self._module, seen).astype(w.dtype)

    @property
    def buffer_size(self) -> int:
        """B, how many running means and variances batch normalisation has."""
        return self._layers.size

    def _like(self, **changed: object) -> Self:
        model = object.__new__(type(self))
        model.__dict__ |= self.__dict__ | changed
        return model

    def _named(self, buffers: np.ndarray) -> dict[str, np.ndarray]:
        """Return running means and variances by name."""
        buffers = _checks.floats("buffers", buffers)
        if buffers.shape != (self._layers.size,):
            raise ValueError(f"buffers must have shape ({self._layers.size},) for {self}; got {buffers.shape}")
        spans = self._layers.spans
        return {name: buffers[start:end].reshape(shape).copy() for names, start, end, shape in spans for name in names}

    def _check(self, w: np.ndarray, x: np.ndarray) -> tuple[Self, np.ndarray, np.ndarray]:
        if self.buffers and self._mode is None:
            raise ValueError(
                f"{self} has batch normalisation, and no outputs without statistics: evaluate it by "
                "model.evaluated(problem.buffers(w)); solvers need a step_size= and may take its gradients alone"
            )
        return super()._check(w, x)

    def _tensor(self, array: np.ndarray) -> Tensor:
        """Return ``array`` on the device: on the CPU the same memory."""
        if not array.flags.writeable and np.lib.NumpyVersion(np.__version__) < "2.1.0":
            array = array.copy()  # an older NumPy does not lend what must not be written to
        return loaded().from_dlpack(array).to(self.device)

    def _held(self, dtype: DType) -> nn.Module:
        """Return this thread's own copy of the module, in evaluation mode if that differs and training was not asked for."""
        return self._own(dtype)[0]

    def _own(self, dtype: DType) -> tuple[nn.Module, list[nn.Parameter]]:
        """Return this thread's own copy of the module, and its trainable parameters in the order of a row."""
        modules = self._here.__dict__.setdefault("modules", {})
        evaluated = self._mode in ("normalised", "evaluated") or (self._mode is None and (self.apart or self.buffers))
        key = dtype, bool(evaluated), self._mode in ("normalised", "training")
        if key not in modules:
            module = cast(loaded(), copy.deepcopy(self._module), self.device, dtype)
            if evaluated:
                module.eval()
            if key[2]:
                self._layers.strip(module)
            modules[key] = module, [module.get_parameter(names[0]) for names, *_ in self._spans]
        found: tuple[nn.Module, list[nn.Parameter]] = modules[key]
        return found

    def _function(self, dtype: DType) -> Callable[[Leaves, Tensor], Tensor]:
        """Return the module's function ``(leaves, x) -> outputs``, with the tensors ``leaves`` as its parameters."""
        torch, module, all_names = loaded(), self._held(dtype), [names for names, *_ in self._spans]
        buffers = {name: self._tensor(array).to(dtype) for name, array in self._evaluated_by.items()}

        def function(leaves: Leaves, x: Tensor) -> Tensor:
            parts = [leaf.to(own) if own else leaf for leaf, own in zip(leaves, self._halves, strict=True)]
            named = {name: part for names, part in zip(all_names, parts, strict=True) for name in names}
            named |= buffers
            x = self._halved(x)
            given = ((), x) if isinstance(x, dict) else ((x,), None)  # by name, as models of Hugging Face are called
            found = torch.func.functional_call(module, named, *given, tie_weights=False)  # else it looks for ties every time
            if isinstance(found, torch.Tensor) and found.ndim < 2 and isinstance(x, torch.Tensor) and found.numel() == len(x):
                found = found.reshape(-1, 1)  # of a module that ends with a squeeze()
            return self._whole(found, dtype)

        return function

    def _halved(self, x: Any) -> Any:  # noqa: ANN401  # subclasses have other inputs
        """Return samples as a module gets them whose parameters have fewer digits than the run."""
        return x.to(self._half) if self._half is not None and x.is_floating_point() else x

    def _whole(self, outputs: Any, dtype: DType) -> Any:  # noqa: ANN401  # the trial says what is no tensor
        """Return the outputs of such a module in the run's ``dtype``."""
        return outputs.to(dtype) if self._half is not None and hasattr(outputs, "is_floating_point") else outputs

    def _leaves(self, w: np.ndarray) -> Leaves:
        """Return the parameters in w (agents, P) as arrays (agents, *shape); (*shape) for one agent."""
        rows = self._tensor(w)
        of_agents = (len(w),) if len(w) > 1 else ()
        return [rows[:, start:end].reshape((*of_agents, *shape)) for _, start, end, shape in self._spans]

    def _stack(self, array: np.ndarray) -> Tensor:
        """Return ``array`` (agents, samples, ...) on the device; (samples, ...) for one agent."""
        return self._tensor(array[0] if len(array) == 1 else array)

    def _outputs(self, leaves: Leaves, x: Tensor) -> Tensor:
        """Return the outputs of x (agents, samples, ...), or of one agent's x (samples, ...) by the module's own call."""
        function = self._function(leaves[0].dtype)
        return function(leaves, x) if x.ndim == len(self.features) + 1 else loaded().func.vmap(function)(leaves, x)

    def _array(self, outputs: Tensor, x: np.ndarray) -> np.ndarray:
        """Return the outputs for x (agents, samples, ...) as an array (agents, samples, outputs)."""
        return np.asarray(outputs.cpu().numpy()).reshape(*x.shape[:2], self.outputs)

    # For the trial

    def _call(self, w: np.ndarray, x: np.ndarray) -> object:
        with loaded().set_grad_enabled(self._differentiates):
            given = self._tensor(w)  # itself, so that it shows who writes over it
            leaves = [given[start:end].reshape(shape) for _, start, end, shape in self._spans]
            outputs = self._outputs(leaves, self._tensor(x))
        return returned(loaded(), outputs)

    def _path(self, w: np.ndarray, x: np.ndarray) -> tuple[tuple[int, ...], str]:
        return path(loaded(), self._held(self._tensor(w).dtype), lambda: self._call(w, x), x)

    def _generators(self) -> Generators:
        return of_torch(generators(loaded(), self.device)) if self._draw is None else {}

    def _state(self, w: np.ndarray) -> dict[str, str]:
        return state(loaded(), self._held(self._tensor(w).dtype))

    @property
    def trains(self) -> bool:
        """True if any part of the module is in training mode."""
        return any(part.training for part in self._module.modules())

    def _settle(self, call: Callable[[], object]) -> None:
        """Find out whether calls need PyTorch to note derivatives, because the module takes some by itself."""
        try:
            call()
        except Exception:
            self._differentiates = True
            try:
                call()
            except Exception:
                self._differentiates = False  # the trial says what is wrong

    def _reads_mode(self, w: np.ndarray, x: np.ndarray) -> bool:
        with modes_read(self._held(self._tensor(w).dtype)) as read:
            self._call(w, x)
        return bool(read)

    def _constants(self, w: np.ndarray) -> dict[str, str]:
        return constants(self._held(self._tensor(w).dtype), {name for names, *_ in self._spans for name in names})
