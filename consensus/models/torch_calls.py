"""Calls of a module of PyTorch for blocks of agents."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np

from consensus import _checks, _extras
from consensus.models.framework import Framework
from consensus.models.torch_aligned import align_products, aligned, aligned_rows, whole, with_samples
from consensus.models.torch_draws import seed_of

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

    device: str
    seed: int
    _module: nn.Module
    _draw: int | None = None  # the seed of PyTorch's generator within calls, if there is one
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
        """Return the model with the random numbers of an agent in a draw, the same in every call.

        Parameters
        ----------
        agent, draw : int
            As in :meth:`draw_seed`.

        Returns
        -------
        Torch
            The model, for one agent at a time, in training mode.
        """
        model = object.__new__(type(self))
        model.__dict__ |= self.__dict__ | {"_draw": self.draw_seed(agent, draw)}
        return model

    def _tensor(self, array: np.ndarray) -> Tensor:
        """Return ``array`` on the device: on the CPU the same memory."""
        if not array.flags.writeable and np.lib.NumpyVersion(np.__version__) < "2.1.0":
            array = array.copy()  # an older NumPy does not lend what must not be written to
        return loaded().from_dlpack(array).to(self.device)

    def _held(self, dtype: DType) -> nn.Module:
        """Return this thread's own copy of the module, in evaluation mode if it is stochastic and no draw is given."""
        modules, evaluated = self._here.__dict__.setdefault("modules", {}), self.stochastic and self._draw is None
        if (dtype, evaluated) not in modules:
            module = copy.deepcopy(self._module).to(self.device, dtype).requires_grad_(False)
            modules[dtype, evaluated] = module.eval() if evaluated else module
            if self._linear:
                align_products(loaded(), module)
        return modules[dtype, evaluated]

    def _function(self, dtype: DType) -> Callable[[Leaves, Tensor], Tensor]:
        """Return the module's function ``(leaves, x) -> outputs``, with the tensors ``leaves`` as its parameters."""
        torch, module, all_names = loaded(), self._held(dtype), [names for names, *_ in self._spans]

        def function(leaves: Leaves, x: Tensor) -> Tensor:
            named = {name: leaf for names, leaf in zip(all_names, leaves, strict=True) for name in names}
            given = ((), x) if isinstance(x, dict) else ((x,), None)  # by name, as models of Hugging Face are called
            return torch.func.functional_call(module, named, *given, tie_weights=False)  # else it looks for ties every time

        return function

    def _leaves(self, w: np.ndarray) -> Leaves:
        """Return the parameters in w (agents, P) as arrays (agents, *shape), each agent's aligned; (*shape) for one."""
        rows = self._tensor(w)
        if len(w) == 1:
            return [aligned(rows[0, start:end]).reshape(shape) for _, start, end, shape in self._spans]
        return [aligned_rows(rows[:, start:end]).reshape(len(w), *shape) for _, start, end, shape in self._spans]

    def _stack(self, array: np.ndarray, size: int | None = None) -> Tensor:
        """Return ``array`` (agents, samples, ...) on the device, aligned by samples of zeros; (samples, ...) for one agent."""
        if len(array) == 1:
            return aligned(self._tensor(array[0]))
        if not self._linear:
            return self._tensor(array)
        return with_samples(self._tensor(array), whole(array.shape[1], size or array.itemsize))

    def _outputs(self, leaves: Leaves, x: Tensor) -> Tensor:
        """Return the outputs of x (agents, samples, ...), or of one agent's x (samples, ...) by the module's own call."""
        function = self._function(leaves[0].dtype)
        return function(leaves, x) if x.ndim == len(self.features) + 1 else loaded().func.vmap(function)(leaves, x)

    def _array(self, outputs: Tensor, x: np.ndarray) -> np.ndarray:
        """Return the outputs for x (agents, samples, ...) as an array (agents, samples, outputs)."""
        return np.asarray(outputs.cpu().numpy()).reshape(len(x), -1, self.outputs)[:, : x.shape[1]]
