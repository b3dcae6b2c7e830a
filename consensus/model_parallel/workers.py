"""Passes through one network on several workers, and the memory that they share."""

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from consensus import _checks
from consensus.servers.pool import Pool, Worker, pool
from consensus.workers.shared_memory import SharedArray


class PassMemory(NamedTuple):
    """Memory of which each worker reads and writes its own part.

    Attributes
    ----------
    w, gradient : SharedArray (P,)
        Parameters, and their gradient.
    x : SharedArray (samples, features)
        Features.
    outputs, u : SharedArray (samples, outputs)
        Outputs, and their cotangents.
    """

    w: SharedArray
    gradient: SharedArray
    x: SharedArray
    outputs: SharedArray
    u: SharedArray

    @classmethod
    def of(cls, parameters: int, features: int, outputs: int, samples: int, dtype: np.dtype) -> Self:
        """Return memory for so many ``samples`` at a time."""
        shapes = (parameters,), (parameters,), (samples, features), (samples, outputs), (samples, outputs)
        return cls(*(SharedArray(shape, dtype) for shape in shapes))


M = TypeVar("M", bound=Any)


class Team(NamedTuple):
    """Workers that have started, the memory shared with them, its dtype, and a function that ends them."""

    pool: Pool
    memory: Any
    dtype: np.dtype
    end: Callable[[], Any]


class OnWorkers(ABC, Generic[M]):
    """A layered model, ``plain``, whose forward and backward pass run on ``workers`` processes, one agent's at a time.

    Subclasses define ``_begun``, ``_up`` and ``_down``. Workers start when they are first needed. They end with
    :meth:`close`, with a ``with`` block, or with the model.
    """

    most: ClassVar[int] = 4096  #: samples that pass at a time

    plain: M
    workers: int
    outputs: int
    parameters: int

    def _prepare(self, plain: M, workers: int) -> None:
        self.plain, self.workers = plain, workers
        self.crossed_bytes = self.crossed_messages = 0
        self._lock = threading.RLock()  # chunks of agents may be worked by several threads
        self._team: Team | None = None
        self._passes = self._together = 0

    @abstractmethod
    def _begun(self, dtype: np.dtype, stack: ExitStack) -> tuple[Sequence[Worker], Any, str]:
        """Return the workers, the memory that they share, and what one is called; ``stack`` closes what they leave open."""

    @abstractmethod
    def _up(self, w: np.ndarray, x: np.ndarray, team: Team) -> np.ndarray:
        """Return the outputs (samples, outputs) of one agent's parameters; the workers remember the pass."""

    @abstractmethod
    def _down(self, u: np.ndarray, team: Team) -> np.ndarray:
        """Return J' u (P,) of the pass that the workers remember, for u (samples, outputs)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; a later call starts new ones."""
        with self._lock:
            if self._team is not None:
                self._team.end()
                self._team = None

    def linearize(self, w: np.ndarray, x: np.ndarray) -> "tuple[np.ndarray, OnWorkersLinearization]":
        """Return ``(f(w, x), linearization)``: one forward pass on the workers for products with J' at w."""
        w, x = self.plain._check(w, x)
        outputs = np.empty((len(w), x.shape[1], self.outputs), np.result_type(w, x))
        with self._lock:
            parts = self._parts(len(w), x.shape[1])
            self._together = len(parts)
            for agent, rows in parts:
                outputs[agent, rows] = self._pass_up(w[agent], x[agent % len(x), rows], outputs.dtype)
            return outputs, OnWorkersLinearization(self, w, x, self._passes)

    def _pass_up(self, w: np.ndarray, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
        team = self._started(dtype)
        self._passes += 1
        return self._up(w, x, team)

    def _all(self, team: Team, *request: object) -> list[Any]:
        """Return the answers of all workers; those of a request that fails or is interrupted end."""
        try:
            return team.pool.all(*request)
        except BaseException:
            self.close()
            raise

    def _started(self, dtype: np.dtype) -> Team:
        if self._team is not None and self._team.dtype != dtype:
            self.close()
        if self._team is None:
            stack = ExitStack()
            with ExitStack() as theirs:
                workers, memory, what = self._begun(dtype, theirs)
                started = stack.enter_context(pool(workers, what))
            self._team = Team(started, memory, dtype, weakref.finalize(self, stack.close))
        return self._team

    def _parts(self, agents: int, samples: int) -> list[tuple[int, slice]]:
        """Return the agent and the samples of every pass."""
        starts = range(0, samples, self.most) or [0]
        return [(agent, slice(start, min(start + self.most, samples))) for agent in range(agents) for start in starts]


class OnWorkersLinearization:
    """Products with the Jacobian of a model on workers at fixed parameters and features: J' u on them, others here."""

    def __init__(self, model: OnWorkers[Any], w: np.ndarray, x: np.ndarray, passed: int) -> None:
        self._model, self._w, self._x, self._passed = model, w, x, passed

    def vjp(self, u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return J' u (agents, P) for u (agents, samples, outputs), written to ``out`` if given."""
        model, w, x = self._model, self._w, self._x
        u = _checks.floats("u", u)
        wanted = (len(w), x.shape[1], model.outputs)
        if u.shape != wanted:
            if u.ndim == 4:  # several cotangents
                return np.asarray(self._here.vjp(u, out))
            raise ValueError(f"u must have shape {wanted} for {model}; got {u.shape}")
        out = np.empty((len(w), model.parameters), u.dtype) if out is None else out
        parts = model._parts(len(w), x.shape[1])
        dtype = np.result_type(w, x)
        with model._lock:
            model._together = len(parts)
            for agent, rows in parts:
                if len(parts) > 1 or model._passes != self._passed or model._team is None:  # they remember another pass
                    model._pass_up(w[agent], x[agent % len(x), rows], dtype)
                found = model._down(u[agent, rows], model._started(dtype))
                out[agent] = found if rows.start == 0 else out[agent] + found
            self._passed = model._passes
        return out

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (the methods of a layered model's linearization)
        if name == "_here":  # the linearization in this process, when it is first needed
            self._here = self._model.plain.linearize(self._w, self._x)[1]
            return self._here
        return getattr(self._here, name)
