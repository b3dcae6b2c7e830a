"""A problem whose agents have costs of different kinds."""

from __future__ import annotations

import hashlib
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._arrays.digest import digest
from consensus.problems.base import BaseProblem
from consensus.problems.functions import positive
from consensus.regularizers import Regularizer
from topologies import _names

if TYPE_CHECKING:
    import cvxpy

Pair: TypeAlias = "tuple[Callable[[np.ndarray], float], Callable[[np.ndarray], np.ndarray]]"
AgentCost: TypeAlias = "Pair | BaseProblem | cvxpy.Expression"
_WANTED = (
    "a pair (value, gradient) of functions of w (P,), a scalar CVXPY expression of one variable (P,), or a problem of one agent"
)
_EVALUATING = threading.Lock()  # a CVXPY variable has one value, and agents on several threads may share it


class UnlikeProblem(BaseProblem):
    """A problem whose agents have costs of different kinds, as :meth:`consensus.Problem.from_agents` makes it.

    Parameters
    ----------
    costs : sequence
        A cost g_i for each agent.
    parameters : int, optional
        P.
    regularizer : Regularizer or sequence of Regularizer, optional
        The regularizer r, or one of each agent.
    lipschitz : float or array_like (agents,), optional
        Lipschitz constants of the gradients.
    labels : sequence, optional
        The names of the agents.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.problems import UnlikeProblem
    >>> problem = UnlikeProblem([
    ...     (lambda w: (w**4).sum(), lambda w: 4 * w**3),
    ...     (lambda w: np.log(np.cosh(w)).sum(), np.tanh)], parameters=1)
    >>> problem.gradient([[1.0], [0.0]]).tolist()
    [[4.0], [0.0]]
    """

    def __init__(
        self,
        costs: Sequence[AgentCost],
        parameters: int | None = None,
        regularizer: Regularizer | Sequence[Regularizer | None] | None = None,
        lipschitz: ArrayLike | None = None,
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        if not isinstance(costs, list | tuple) or not costs:
            raise TypeError(f"costs must be a list, for each agent {_WANTED}; got {_checks.shown(costs)}")
        if labels is not None:
            self.labels = _names.checked("labels", labels, len(costs))
        names = [_names.agent(agent, self.labels) for agent in range(len(costs))]
        self.costs = [_cost(cost, name) for cost, name in zip(costs, names, strict=True)]
        size = None if parameters is None else _checks.count("parameters", parameters)
        for cost, name in zip(self.costs, names, strict=True):
            if cost.parameters is not None and size not in (None, cost.parameters):
                raise ValueError(f"all costs must have the same parameters, {size}; that of {name} has {cost.parameters}")
            size = size if cost.parameters is None else cost.parameters
        if size is None:
            raise ValueError("parameters must be given, as functions do not tell how many numbers they take")
        super().__init__(np.arange(len(costs)), len(costs), size, np.float64, regularizer)
        self._constants = None if lipschitz is None else positive(lipschitz, len(costs))

    def __repr__(self) -> str:
        r = self.nonconvex or self.regularizer
        return f"Problem.from_agents({self.agents} agents, {self.parameters} parameters, {r})"

    def restrict(self, rows: slice | ArrayLike) -> Self:
        block = super().restrict(rows)
        block.costs = [self.costs[row] for row in np.arange(self.agents)[_checks.rows(rows, self.agents)].tolist()]
        return block

    def _value(self, w: np.ndarray) -> np.ndarray:
        return np.array([self._number(row, cost.value(point)) for row, (cost, point) in enumerate(self._each(w))])

    def _gradient(self, w: np.ndarray) -> np.ndarray:
        return np.stack([self._vector(row, cost.gradient(point)) for row, (cost, point) in enumerate(self._each(w))])

    def _each(self, w: np.ndarray) -> zip[tuple[Cost, np.ndarray]]:
        return zip(self.costs, w.copy(), strict=True)  # a copy: functions may work in place

    def _number(self, row: int, found: object) -> float:
        number = np.asarray(found)
        if number.shape != () or number.dtype.kind not in "fiu":
            raise ValueError(f"the cost of {self._name(row)} must return a number; got {_checks.shown(found)}")
        return float(number)

    def _vector(self, row: int, found: object) -> np.ndarray:
        vector = np.asarray(found)
        if vector.shape != (self.parameters,) or vector.dtype.kind not in "fiu":
            got = f"shape {vector.shape}" if vector.shape != (self.parameters,) else _checks.shown(found)
            raise ValueError(f"the gradient of {self._name(row)} must return {self.parameters} numbers, (P,); got {got}")
        return vector.astype(self.dtype)

    def _name(self, row: int) -> str:
        return _names.agent(int(self.rows[row]), self.labels)

    def _lipschitz(self, w: np.ndarray | None) -> np.ndarray:
        if self._constants is not None:
            return np.asarray(self._constants[self.rows])
        unknown = next((row for row, cost in enumerate(self.costs) if not isinstance(cost, _OfProblem)), None)
        if unknown is not None:
            raise TypeError(
                f"the Lipschitz constant of {self._name(unknown)}'s gradient is not known: give the solver a step_size=, or "
                "Problem.from_agents a lipschitz="
            )
        points = [None] * self.agents if w is None else w
        return np.array([cost.lipschitz(point) for cost, point in zip(self.costs, points, strict=True)])

    def digests(self) -> list[str]:
        probe = np.linspace(-1, 1, self.parameters)
        return [cost.digest(probe) for cost in self.costs]


class Cost(ABC):
    """The cost of one agent, a function of w (P,); ``parameters`` is None if it does not say how many it takes."""

    parameters: int | None = None

    @abstractmethod
    def value(self, w: np.ndarray) -> object:
        """Return g(w)."""

    @abstractmethod
    def gradient(self, w: np.ndarray) -> object:
        """Return its gradient (P,)."""

    @abstractmethod
    def digest(self, probe: np.ndarray) -> str:
        """Return what tells the cost from others, perhaps its gradient at ``probe`` (P,)."""

    def lipschitz(self, w: np.ndarray | None) -> float:
        """Return a Lipschitz constant of the gradient, if it is known."""
        raise NotImplementedError


class _Functions(Cost):
    """A value and a gradient."""

    def __init__(self, value: Callable[[np.ndarray], float], gradient: Callable[[np.ndarray], np.ndarray]) -> None:
        self._value, self._gradient = value, gradient

    def value(self, w: np.ndarray) -> object:
        return self._value(w)

    def gradient(self, w: np.ndarray) -> object:
        return self._gradient(w)

    def digest(self, probe: np.ndarray) -> str:
        return hashlib.sha256(np.asarray(self._gradient(probe), float).tobytes()).hexdigest()


class _OfProblem(Cost):
    """The cost of the only agent of a problem, as of a model of its own."""

    def __init__(self, problem: BaseProblem) -> None:
        self.problem, self.parameters = problem, problem.parameters

    def value(self, w: np.ndarray) -> object:
        return self.problem.value(self._row(w))[0]

    def gradient(self, w: np.ndarray) -> object:
        return self.problem.gradient(self._row(w))[0]

    def _row(self, w: np.ndarray) -> np.ndarray:
        return w[None].astype(self.problem.dtype, copy=False)

    def digest(self, probe: np.ndarray) -> str:
        return digest(*self.problem.digests(), *(getattr(self.problem, part, None) for part in ("model", "loss", "reduction")))

    def lipschitz(self, w: np.ndarray | None) -> float:
        return float(self.problem.lipschitz(w)[0])


class _Stated(Cost):
    """A CVXPY expression of one variable."""

    def __init__(self, expression: cvxpy.Expression, variable: cvxpy.Variable) -> None:
        self.expression, self.variable, self.parameters = expression, variable, int(variable.size)

    def value(self, w: np.ndarray) -> object:
        with _EVALUATING, np.errstate(all="ignore"):  # outside the domain it is None or NaN
            self.variable.value = w
            found = self.expression.value
        return np.inf if found is None else np.asarray(found).item()

    def gradient(self, w: np.ndarray) -> object:
        with _EVALUATING, np.errstate(all="ignore"):
            self.variable.value = w
            found = self.expression.grad[self.variable]
        if found is None:
            raise ValueError(f"{self.expression} has no gradient at {_checks.shown(w)}: start inside its domain, or take a set")
        return (found.toarray() if hasattr(found, "toarray") else np.asarray(found, float)).reshape(-1)

    def digest(self, probe: np.ndarray) -> str:
        text = re.sub(r"\b(var|param)\d+\b", r"\1", str(self.expression))  # numbers of the session
        parts = *self.expression.constants(), *self.expression.parameters()
        return digest(text, *(np.asarray(getattr(part.value, "toarray", lambda part=part: part.value)()) for part in parts))


def _cost(cost: object, name: str) -> Cost:
    """Return the cost of the agent called ``name``; raise ``TypeError`` or ``ValueError`` if it is of no known kind."""
    if isinstance(cost, tuple | list) and len(cost) == 2 and all(map(callable, cost)):
        return _Functions(*cost)
    if isinstance(cost, BaseProblem):
        return _OfProblem(_alone(cost, name))
    if hasattr(cost, "variables") and hasattr(cost, "grad"):
        return _Stated(cost, _variable(cost, name))
    more = ": problems.ZerothOrder takes values alone" if callable(cost) else ""
    raise TypeError(f"the cost of {name} must be {_WANTED}; got {_checks.shown(cost)}{more}")


def _alone(problem: BaseProblem, name: str) -> BaseProblem:
    if problem.network_size != 1 or problem.coupled:
        raise ValueError(
            f"the cost of {name} must be a problem of one agent, as of consensus.partition(X, y, agents=1); got {problem}"
        )
    r = problem.nonconvex or problem.regularizer
    if not (getattr(r, "quadratic", False) and r.strong_convexity == 0):
        raise ValueError(
            f"the cost of {name} must have no regularizer, and it has {r}: give Problem.from_agents regularizer=[...], one of "
            "each agent"
        )
    return problem


def _variable(expression: cvxpy.Expression, name: str) -> cvxpy.Variable:
    variables = expression.variables()
    if not expression.is_scalar() or len(variables) != 1 or len(variables[0].shape) != 1:
        shapes = [variable.shape for variable in variables]
        raise ValueError(
            f"the cost of {name} must be a scalar CVXPY expression of one variable of shape (P,); got shape {expression.shape} "
            f"of variables of shapes {shapes}"
        )
    return variables[0]
