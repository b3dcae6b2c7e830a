"""A problem given by the user's own functions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.problems.base import BaseProblem
from consensus.regularizers import Regularizer

Function: TypeAlias = Callable[[np.ndarray], np.ndarray]  # of w (agents, P)


class FunctionProblem(BaseProblem):
    """A problem given by functions; see :meth:`consensus.Problem.from_functions`."""

    def __init__(
        self,
        value: Function,
        gradient: Function,
        agents: int,
        parameters: int,
        regularizer: Regularizer | None = None,
        lipschitz: ArrayLike | None = None,
    ) -> None:
        agents, parameters = _checks.count("agents", agents), _checks.count("parameters", parameters)
        for name, function in (("value", value), ("gradient", gradient)):
            if not callable(function):
                raise TypeError(f"{name} must be a function of w (agents, P); got {function!r}")
        super().__init__(np.arange(agents), agents, parameters, np.float64, regularizer)
        self._functions = value, gradient
        self._constants = None if lipschitz is None else _positive(lipschitz, agents)

    def __repr__(self) -> str:
        return (
            f"Problem.from_functions({self.agents} agents, {self.parameters} parameters, {self.nonconvex or self.regularizer})"
        )

    def _value(self, w: np.ndarray) -> np.ndarray:
        return self._call("value", self._functions[0], w, ())

    def _gradient(self, w: np.ndarray) -> np.ndarray:
        return self._call("gradient", self._functions[1], w, (self.parameters,))

    def _lipschitz(self, w: np.ndarray | None) -> np.ndarray:
        if self._constants is None:
            raise TypeError(
                f"{self} knows no Lipschitz constants of its gradients: give the solver a step=, or Problem.from_functions a "
                "lipschitz="
            )
        return self._constants[self.rows]

    def digests(self) -> list[str]:
        # Functions have no data to show: their values at a fixed point stand for them.
        probe = np.linspace(-1, 1, self.agents * self.parameters).reshape(self.agents, self.parameters)
        return [hashlib.sha256(row.tobytes()).hexdigest() for row in self._gradient(probe)]

    def _call(self, name, function, w, tail):
        # The user's functions take all agents: a block fills the rows it does not hold with one that it does.
        stack = w
        if self.agents < self.network_size:
            stack = np.repeat(w[:1], self.network_size, axis=0)
            stack[self.rows] = w
        result = np.array(function(stack), dtype=self.dtype)  # a copy: callers work in place
        if result.shape != (self.network_size, *tail):
            raise ValueError(
                f"{name} must return shape {(self.network_size, *tail)} for w of shape {stack.shape}; got {result.shape}"
            )
        return result if self.agents == self.network_size else result[self.rows]


def _positive(lipschitz, agents):
    """``lipschitz`` as an array (agents,); raise ``ValueError`` if it is none of numbers > 0."""
    found = _checks.floats("lipschitz", lipschitz)
    if found.shape not in ((), (agents,)) or not (np.isfinite(found) & (found > 0)).all():
        raise ValueError(f"lipschitz must be a finite number > 0, or {agents} of them; got {_checks.shown(lipschitz)}")
    return np.broadcast_to(found, (agents,)).astype(np.float64)
