"""Model parallelism: one multilayer perceptron, each layer's units spread over worker processes."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from consensus import _checks
from consensus.centralised.on_workers import OnWorkers, Team
from consensus.centralised.units import Memory, Units
from consensus.models import MLP


class SplitMLP(OnWorkers[MLP], MLP):  # type: ignore[misc]  # a linearization of its own
    """:class:`consensus.MLP` whose forward and backward pass run on worker processes, each with some units of every layer.

    Worker j has the columns of every layer's W and b that belong to its units. Forward, it computes these units' activations
    from the whole layer below; backward, from its units' sensitivities, the gradients of its columns and its summand of the
    sensitivities of the units below. So once per layer and direction every worker sends every other one message, with the
    numbers of all samples: activations of its own units up, sums for the other's units down.

    It replaces an MLP anywhere, with the same numbers to rounding; other products than with J' (``jvp``, ``jacobian``,
    ``gram``) are computed in this process. Workers start when they are first needed. They end with :meth:`close`, with a
    ``with`` block, or with the model. Pickled, as for worker processes of an engine, it is an MLP.

    Parameters
    ----------
    widths : sequence of int
        ``[inputs, hidden, ..., outputs]``.
    workers : int
        At most the units of the widest layer.
    activation : str
        One of those of :class:`consensus.MLP`.

    Attributes
    ----------
    crossed_bytes, crossed_messages : int
        Bytes and messages that workers have sent one another so far.

    Raises
    ------
    WorkerError
        If a worker dies; the next call starts new ones.

    References
    ----------
    Dean et al., "Large scale distributed deep networks", NeurIPS 2012, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.centralised import SplitMLP
    >>> model = SplitMLP([13, 20, 1], workers=2)
    >>> model.parameters, model
    (301, SplitMLP([13, 20, 1], workers=2, activation='tanh'))
    """

    def __init__(self, widths: Sequence[int], workers: int, activation: str = "tanh") -> None:
        super().__init__(widths, activation)
        self._prepare(MLP(widths, activation), _checks.count("workers", workers, most=max(self.widths[1:])))

    def __repr__(self) -> str:
        return f"SplitMLP({list(self.widths)}, workers={self.workers}, activation={self.activation!r})"

    def __reduce__(self) -> tuple[type[MLP], tuple[Any, ...]]:
        if type(self) is not SplitMLP:
            raise TypeError(f"{type(self).__name__} cannot be copied: workers would take it for an MLP; derive from MLP")
        return MLP, (self.widths, self.activation)

    def predict(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        w, x = _checks.floats("w", w), _checks.floats("x", x)
        if w.ndim == 1:
            outputs: np.ndarray = self.predict(w[None], x[None])[0]
            return outputs
        return self.linearize(w, x)[0]

    def _begun(self, dtype: np.dtype, stack: ExitStack) -> tuple[list[Units], Memory, str]:
        memory = Memory.of(self.widths, self.parameters, self.workers, self.most, dtype)
        return [Units(self.plain, memory, number, self.workers) for number in range(self.workers)], memory, "worker"

    def _up(self, w: np.ndarray, x: np.ndarray, team: Team) -> np.ndarray:
        team.memory.w.array[...] = w
        team.memory.h[0].array[: len(x)] = x
        for layer in range(len(self._spans)):
            self._all(team, "up", layer, len(x))
        self._crossed(len(x), team.dtype.itemsize)
        outputs: np.ndarray = team.memory.h[-1].array[: len(x)]
        return outputs

    def _down(self, u: np.ndarray, team: Team) -> np.ndarray:
        team.memory.u.array[: len(u)] = u
        for layer in reversed(range(len(self._spans))):
            self._all(team, "down", layer, len(u))
        self._crossed(len(u), team.dtype.itemsize)
        gradient: np.ndarray = team.memory.gradient.array
        return gradient

    def _crossed(self, samples: int, itemsize: int) -> None:
        others = self.workers - 1
        self.crossed_bytes += samples * sum(self.widths[1:-1]) * others * itemsize
        self.crossed_messages += len(self.widths[1:-1]) * self.workers * others
