"""Model parallelism: one multilayer perceptron, each layer's units spread over worker processes."""

import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from consensus import _checks
from consensus.centralised.units import Memory, Units
from consensus.errors import WorkerError
from consensus.models import MLP
from consensus.workers.pool import Pool, pool

_SAMPLES = 4096  # that pass at a time


class SplitMLP(MLP):
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
        self.workers = _checks.count("workers", workers, most=max(self.widths[1:]))
        self.crossed_bytes = self.crossed_messages = 0
        self._lock = threading.RLock()  # chunks of agents may be worked by several threads
        self._team: _Team | None = None
        self._passes = 0

    def __repr__(self) -> str:
        return f"SplitMLP({list(self.widths)}, workers={self.workers}, activation={self.activation!r})"

    def __reduce__(self) -> tuple[type[MLP], tuple[Any, ...]]:
        if type(self) is not SplitMLP:
            raise TypeError(f"{type(self).__name__} cannot be copied: workers would take it for an MLP; derive from MLP")
        return MLP, (self.widths, self.activation)

    def __enter__(self) -> "SplitMLP":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; a later call starts new ones."""
        with self._lock:
            if self._team is not None:
                self._team.end()
                self._team = None

    def predict(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        w, x = _checks.floats("w", w), _checks.floats("x", x)
        if w.ndim == 1:
            outputs: np.ndarray = self.predict(w[None], x[None])[0]
            return outputs
        return self.linearize(w, x)[0]

    def linearize(self, w: np.ndarray, x: np.ndarray) -> "tuple[np.ndarray, SplitLinearization]":  # type: ignore[override]
        w, x = self._check(w, x)
        outputs = np.empty((len(w), x.shape[1], self.outputs), np.result_type(w, x))
        with self._lock:
            for agent, rows in _parts(len(w), x.shape[1]):
                outputs[agent, rows] = self._up(w[agent], x[agent % len(x), rows], outputs.dtype)
            return outputs, SplitLinearization(self, w, x, self._passes)

    def _up(self, w: np.ndarray, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return the outputs (samples, outputs) of one agent's parameters; the workers remember the pass."""
        team = self._started(dtype)
        self._passes += 1
        team.memory.w.array[...] = w
        team.memory.h[0].array[: len(x)] = x
        for layer in range(len(self._spans)):
            self._all(team, "up", layer, len(x))
        self._crossed(len(x), dtype.itemsize)
        return team.memory.h[-1].array[: len(x)]

    def _down(self, u: np.ndarray) -> np.ndarray:
        """Return J' u (P,) of the pass that the workers remember, for u (samples, outputs)."""
        team = self._started(u.dtype)
        team.memory.u.array[: len(u)] = u
        for layer in reversed(range(len(self._spans))):
            self._all(team, "down", layer, len(u))
        self._crossed(len(u), u.dtype.itemsize)
        return team.memory.gradient.array

    def _crossed(self, samples: int, itemsize: int) -> None:
        others = self.workers - 1
        self.crossed_bytes += samples * sum(self.widths[1:-1]) * others * itemsize
        self.crossed_messages += len(self.widths[1:-1]) * self.workers * others

    def _all(self, team: "_Team", way: str, layer: int, samples: int) -> None:
        try:
            team.pool.all(way, layer, samples)
        except WorkerError:
            self.close()
            raise

    def _started(self, dtype: np.dtype) -> "_Team":
        if self._team is not None and self._team.memory.w.dtype != dtype:
            self.close()
        if self._team is None:
            stack, memory = ExitStack(), Memory.of(self.widths, self.parameters, self.workers, _SAMPLES, dtype)
            plain = MLP(self.widths, self.activation)
            workers = stack.enter_context(pool([Units(plain, memory, number, self.workers) for number in range(self.workers)]))
            self._team = _Team(workers, memory, weakref.finalize(self, stack.close))
        return self._team


class SplitLinearization:
    """Products with the Jacobian of a :class:`SplitMLP` at fixed parameters and features: J' u on the workers, others here."""

    def __init__(self, model: SplitMLP, w: np.ndarray, x: np.ndarray, passed: int) -> None:
        self._model, self._w, self._x, self._passed = model, w, x, passed

    def vjp(self, u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return J' u (agents, P) for u (agents, samples, outputs), written to ``out`` if given."""
        model, w, x = self._model, self._w, self._x
        u = _checks.floats("u", u)
        wanted = (len(w), x.shape[1], model.outputs)
        if u.shape != wanted:
            if u.ndim == 4:  # several cotangents
                return self._here.vjp(u, out)
            raise ValueError(f"u must have shape {wanted} for {model}; got {u.shape}")
        out = np.empty((len(w), model.parameters), u.dtype) if out is None else out
        parts = _parts(len(w), x.shape[1])
        with model._lock:
            for agent, rows in parts:
                if len(parts) > 1 or model._passes != self._passed or model._team is None:  # they remember another pass
                    model._up(w[agent], x[agent % len(x), rows], np.result_type(w, x))
                found = model._down(u[agent, rows])
                out[agent] = found if rows.start == 0 else out[agent] + found
            self._passed = model._passes
        return out

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (the methods of an MLP's linearization)
        if name == "_here":  # the linearization of an MLP, when it is first needed
            self._here = super(SplitMLP, self._model).linearize(self._w, self._x)[1]
            return self._here
        return getattr(self._here, name)


class _Team(NamedTuple):
    """Workers that have started, the memory shared with them, and a function that ends them."""

    pool: Pool
    memory: Memory
    end: Callable[[], Any]


def _parts(agents: int, samples: int) -> list[tuple[int, slice]]:
    """Return the agent and the samples of every pass."""
    starts = range(0, samples, _SAMPLES) or [0]
    return [(agent, slice(start, min(start + _SAMPLES, samples))) for agent in range(agents) for start in starts]
