"""A problem given by the user's own functions."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.problems.base import BaseProblem
from consensus.regularizers import Regularizer
from topologies import _names

Function: TypeAlias = Callable[..., np.ndarray]  # of w (agents, P), and maybe of rows (agents,)


class FunctionProblem(BaseProblem):
    """A problem given by functions, as :meth:`consensus.Problem.from_functions` makes it from the same arguments.

    Parameters
    ----------
    value, gradient : callable
        Costs and their gradients, of w and perhaps of ``rows``.
    agents, parameters : int
        Numbers of agents and of parameters.
    regularizer : Regularizer or sequence of Regularizer, optional
        The regularizer r, or one of each agent.
    lipschitz : float or array_like (agents,), optional
        Lipschitz constants of the gradients.
    labels : sequence, optional
        The names of the agents.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.problems import FunctionProblem
    >>> centres = np.array([[0.0], [2.0]])
    >>> problem = FunctionProblem(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=2, parameters=1, lipschitz=2.0)
    >>> problem.objective(np.array([1.0])), problem.gradient([[1.0], [1.0]]).tolist()
    (2.0, [[2.0], [-2.0]])
    """

    def __init__(
        self,
        value: Function,
        gradient: Function,
        agents: int,
        parameters: int,
        regularizer: Regularizer | Sequence[Regularizer | None] | None = None,
        lipschitz: ArrayLike | None = None,
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        agents, parameters = _checks.count("agents", agents), _checks.count("parameters", parameters)
        for name, function in (("value", value), ("gradient", gradient)):
            if not callable(function):
                raise TypeError(f"{name} must be a function of w (agents, P); got {function!r}")
        super().__init__(np.arange(agents), agents, parameters, np.float64, regularizer)
        if labels is not None:
            self.labels = _names.checked("labels", labels, agents)
        self._functions = {"value": (value, takes_rows(value)), "gradient": (gradient, takes_rows(gradient))}
        self._constants = None if lipschitz is None else positive(lipschitz, agents)

    def __repr__(self) -> str:
        return (
            f"Problem.from_functions({self.agents} agents, {self.parameters} parameters, {self.nonconvex or self.regularizer})"
        )

    def _value(self, w: np.ndarray) -> np.ndarray:
        return self._call("value", w, ())

    def _gradient(self, w: np.ndarray) -> np.ndarray:
        return self._call("gradient", w, (self.parameters,))

    def _lipschitz(self, w: np.ndarray | None) -> np.ndarray:
        if self._constants is None:
            raise TypeError(
                f"{self} has no known Lipschitz constants of its gradients: give the solver a step_size=, or "
                "Problem.from_functions a lipschitz="
            )
        return np.asarray(self._constants[self.rows])

    def digests(self) -> list[str]:
        # Functions have no data: their gradients at a fixed point stand for them.
        probe = np.linspace(-1, 1, self.agents * self.parameters).reshape(self.agents, self.parameters)
        return [hashlib.sha256(row.tobytes()).hexdigest() for row in self._gradient(probe)]

    def _call(self, name: str, w: np.ndarray, tail: tuple[int, ...]) -> np.ndarray:
        """Return the values or gradients of the agents held here, each of shape ``tail``."""
        (stack,), rows = for_function(self, self._functions[name][1], w)
        result = np.array(self._functions[name][0](stack, **rows), dtype=self.dtype)  # a copy: callers work in place
        if result.shape != (len(stack), *tail):
            raise ValueError(f"{name} must return shape {(len(stack), *tail)} for w of shape {stack.shape}; got {result.shape}")
        return result if len(stack) == self.agents else result[self.rows]


def takes_rows(function: Callable[..., object]) -> bool:
    """Return whether ``function`` has an argument ``rows``."""
    try:
        return "rows" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function of C without a signature
        return False


def for_function(
    problem: BaseProblem, by_rows: bool, *stacks: np.ndarray
) -> tuple[Sequence[np.ndarray], dict[str, np.ndarray]]:
    """Return the stacks, and maybe ``rows``, with which to call a user's function: one without ``rows`` takes all agents."""
    if not by_rows and problem.agents < problem.network_size:
        place = np.zeros(problem.network_size, np.intp)  # agents that are not held here get the first row that is
        place[problem.rows] = np.arange(problem.agents)
        stacks = tuple(stack[place] for stack in stacks)
    return stacks, {"rows": problem.rows.copy()} if by_rows else {}


def positive(lipschitz: ArrayLike, agents: int) -> np.ndarray:
    """Return ``lipschitz`` as an array (agents,); raise ``ValueError`` unless its numbers are > 0."""
    found = _checks.floats("lipschitz", lipschitz)
    if found.shape not in ((), (agents,)) or not (np.isfinite(found) & (found > 0)).all():
        raise ValueError(f"lipschitz must be a finite number > 0, or {agents} of them; got {_checks.shown(lipschitz)}")
    return np.broadcast_to(found, (agents,)).astype(np.float64)
