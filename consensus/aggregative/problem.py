"""Problems whose agents have variables of their own, and costs that depend on an aggregate of all agents."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.problems.base import BaseProblem
from consensus.problems.functions import for_function, takes_rows
from consensus.regularizers import Regularizer
from topologies import _names

if TYPE_CHECKING:
    from consensus.observe.measure import MeasuredAgents

Rows = np.ndarray


class Aggregative(BaseProblem):
    """``minimise sum_i f_i(x_i, s)``,  ``s = (1/A) sum_i phi_i(x_i)``,  over x_i in a set of agent i.

    Agent i alone knows f_i, phi_i and its x_i in R^n; w stacks the x_i, and the agents need not agree. The gradient with
    respect to x_i is ``d1 f_i(x_i, s) + dphi_i(x_i)' (1/A) sum_j d2 f_j(x_j, s)``. For
    :class:`consensus.solvers.AggregativeGT`; other solvers refuse it.

    Functions get rows of all agents and return rows of all; those with an argument ``rows`` get the rows and the numbers of the
    agents that a process holds, and return theirs.

    Parameters
    ----------
    value : callable
        ``value(x, s)``: x (agents, n), s (agents, d) -> the costs f_i(x_i, s_i) (agents,).
    gradients : callable
        ``gradients(x, s)`` -> a pair: d1 f_i (agents, n) and d2 f_i (agents, d).
    agents, parameters : int
        Numbers of agents, and of variables n of each.
    contribution : callable, optional
        ``contribution(x)`` -> phi_i(x_i) (agents, d). By default phi_i(x) = x, and s is the mean of the x_i.
    pullback : callable, optional
        ``pullback(x, v)`` with v (agents, d) -> ``dphi_i(x_i)' v_i`` (agents, n); needed with ``contribution``.
    regularizer : Regularizer or sequence of Regularizer, optional
        A set or regularizer of x_i: one that all agents have, or a list with one of each; ``sum_i r_i(x_i)`` joins the costs.
    labels : sequence, optional
        The names of the agents.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind; later, if a function returns another shape.

    References
    ----------
    Li, Xie, Hong, "Distributed aggregative optimization over multi-agent networks", IEEE TAC 67(6), 2022, section II.

    Examples
    --------
    Three robots want to be near targets, and their barycentre at the origin; the second may not pass 0.2:

    >>> import numpy as np, consensus, topologies
    >>> from consensus.problems import Aggregative
    >>> from consensus.solvers import AggregativeGT
    >>> targets = np.array([[1.0], [2.0], [6.0]])
    >>> problem = Aggregative(
    ...     lambda x, s: (((x - targets) ** 2 + s**2) / 2).sum(axis=1), lambda x, s: (x - targets, s), agents=3, parameters=1,
    ...     regularizer=[None, consensus.Box(-1.0, 0.2), None])
    >>> result = consensus.solve(problem, topologies.path(3), AggregativeGT(0.2), rounds=300)
    >>> result.w[:, 0].round(6).tolist(), round(problem.objective(result.w), 6)
    ([-0.44, 0.2, 4.56], 6.804)
    """

    def __init__(
        self,
        value: Callable[..., np.ndarray],
        gradients: Callable[..., tuple[np.ndarray, np.ndarray]],
        agents: int,
        parameters: int,
        contribution: Callable[..., np.ndarray] | None = None,
        pullback: Callable[..., np.ndarray] | None = None,
        regularizer: Regularizer | Sequence[Regularizer | None] | None = None,
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        for name, function in (("value", value), ("gradients", gradients)):
            if not callable(function):
                raise TypeError(f"{name} must be a function of x (agents, n) and s (agents, d); got {_checks.shown(function)}")
        for name, given in (("contribution", contribution), ("pullback", pullback)):
            if (contribution is None) != (pullback is None) or not (given is None or callable(given)):
                raise TypeError(
                    "contribution and pullback must be two functions, phi(x) and (x, v) -> dphi(x)' v, or both left out; got "
                    f"{name}={_checks.shown(given)}"
                )
        agents, parameters = _checks.count("agents", agents), _checks.count("parameters", parameters)
        super().__init__(np.arange(agents), agents, parameters, np.float64, regularizer)
        if self.nonconvex is not None:
            raise ValueError(f"regularizer must be convex; got {self.nonconvex}: put its smooth part into the costs")
        if labels is not None:
            self.labels = _names.checked("labels", labels, agents)
        given_ = {"value": value, "gradients": gradients, "contribution": contribution, "pullback": pullback}
        self._functions = {name: (f, takes_rows(f)) for name, f in given_.items() if f is not None}
        probe = np.zeros((agents, parameters))
        self.size = parameters if contribution is None else np.shape(self._called("contribution", probe))[-1]

    def __repr__(self) -> str:
        r = self.regularizer
        return f"Aggregative({self.agents} agents, {self.parameters} variables, an aggregate of {self.size}, {r})"

    def costs(self, x: Rows, s: Rows) -> np.ndarray:
        """Return the agents' costs.

        Parameters
        ----------
        x : ndarray (agents, n)
            Their variables.
        s : ndarray (agents, d)
            The aggregate, as each of them knows it.

        Returns
        -------
        ndarray (agents,)
            The costs f_i(x_i, s_i).
        """
        return self._shaped("value", self._called("value", x, s), (self.agents,))

    def gradients(self, x: Rows, s: Rows) -> tuple[Rows, Rows]:
        """Return the gradients of the agents' costs with respect to both arguments.

        Parameters
        ----------
        x : ndarray (agents, n)
            Their variables.
        s : ndarray (agents, d)
            The aggregate, as each of them knows it.

        Returns
        -------
        own : ndarray (agents, n)
            The d1 f_i(x_i, s_i).
        aggregate : ndarray (agents, d)
            The d2 f_i(x_i, s_i).
        """
        found = self._called("gradients", x, s)
        if not isinstance(found, tuple) or len(found) != 2:
            raise ValueError(f"gradients must return a pair, d1 f (agents, n) and d2 f (agents, d); got {_checks.shown(found)}")
        self.work.gradients += 1
        shapes = (self.agents, self.parameters), (self.agents, self.size)
        first, second = (self._shaped("gradients", part, shape) for part, shape in zip(found, shapes, strict=True))
        return first, second

    def contribution(self, x: Rows) -> Rows:
        """Return the agents' contributions to the aggregate.

        Parameters
        ----------
        x : ndarray (agents, n)
            Their variables.

        Returns
        -------
        ndarray (agents, d)
            The phi_i(x_i).
        """
        if "contribution" not in self._functions:
            return x
        return self._shaped("contribution", self._called("contribution", x), (self.agents, self.size))

    def pullback(self, x: Rows, v: Rows) -> Rows:
        """Return products with the transposed Jacobians of the contributions.

        Parameters
        ----------
        x : ndarray (agents, n)
            The agents' variables.
        v : ndarray (agents, d)
            What is multiplied.

        Returns
        -------
        ndarray (agents, n)
            The products ``dphi_i(x_i)' v_i``.
        """
        if "pullback" not in self._functions:
            return v
        return self._shaped("pullback", self._called("pullback", x, v), (self.agents, self.parameters))

    def prox(self, x: Rows, step: float) -> Rows:
        """Return the proximal points of each agent's own regularizer, projections if they are sets.

        Parameters
        ----------
        x : ndarray (agents, n)
            The points.
        step : float
            The step.

        Returns
        -------
        ndarray (agents, n)
            The proximal points.
        """
        return self.regularizer.prox(x, step / self._share)

    @property
    def _share(self) -> int:
        """Factor of a list's regularizers in the average form."""
        return self.network_size if self.regularizer.of_agents else 1

    def penalties(self, x: Rows) -> np.ndarray:
        """Return the values r_i(x_i) of the agents' regularizers.

        Parameters
        ----------
        x : ndarray (agents, n)
            Their variables.

        Returns
        -------
        ndarray (agents,)
            The values.
        """
        return np.asarray(self.regularizer.value(x)) / self._share

    def objective(self, point: ArrayLike) -> float:
        """Return ``sum_i f_i(x_i, s) + r_i(x_i)`` at the variables of all agents.

        Parameters
        ----------
        point : array_like (agents, n)
            The variables x_i of all agents.

        Returns
        -------
        float
            The objective.
        """
        x = self._whole(point)
        return float((self._value(x) + self.penalties(x)).sum())

    def stationarity(self, point: ArrayLike) -> float:
        """Return ``|x - prox_r(x - gradient)|`` at the variables of all agents: zero exactly at stationary points.

        Parameters
        ----------
        point : array_like (agents, n)
            The variables x_i of all agents.

        Returns
        -------
        float
            The norm.
        """
        x = self._whole(point)
        return float(np.linalg.norm(x - self.prox(x - self._gradient(x), 1.0)))

    def check_solver(self, solver: object) -> None:
        from consensus.aggregative.tracking import AggregativeGT

        inner = solver
        while hasattr(inner, "solver"):
            inner = inner.solver
        if not isinstance(inner, AggregativeGT):
            raise TypeError(
                f"{type(solver).__name__} looks for one w of all agents, and in {self} each has its own: take "
                "AggregativeGT(step_size)"
            )

    def digests(self) -> list[str]:
        probe = np.linspace(-1, 1, self.network_size * self.parameters).reshape(self.network_size, -1)[self.rows]
        phi = self.contribution(probe)
        found = [*self._called("gradients", probe, phi), phi]
        return [
            hashlib.sha256(b"".join(np.ascontiguousarray(part[row]).tobytes() for part in found)).hexdigest()
            for row in range(self.agents)
        ]

    def _whole(self, point: ArrayLike) -> np.ndarray:
        x = self._stack(point)
        if self.agents < self.network_size:
            raise ValueError(f"the aggregate needs all {self.network_size} agents, and {self.agents} are held here")
        return x

    def _value(self, w: np.ndarray) -> np.ndarray:
        return self.costs(w, self._aggregate(w))

    def _gradient(self, w: np.ndarray) -> np.ndarray:
        own, aggregate = self.gradients(w, self._aggregate(w))
        self.work.gradients -= 1  # the caller counts it
        return np.asarray(own + self.pullback(w, np.tile(aggregate.mean(axis=0), (self.agents, 1))))

    def _aggregate(self, w: np.ndarray) -> np.ndarray:
        return np.tile(self.contribution(self._whole(w)).mean(axis=0), (self.agents, 1))

    def _called(self, name: str, *stacks: np.ndarray) -> Any:  # noqa: ANN401  # what a user's function returns
        """Return the rows of the agents held here of what a function returns."""
        function, by_rows = self._functions[name]
        given, rows = for_function(self, by_rows, *(stack.copy() for stack in stacks))
        found = function(*given, **rows)
        if len(given[0]) == self.agents:
            return found
        return (
            tuple(np.asarray(part)[self.rows] for part in found) if isinstance(found, tuple) else np.asarray(found)[self.rows]
        )

    def _shaped(self, name: str, found: object, shape: tuple[int, ...]) -> np.ndarray:
        array = np.array(found, dtype=self.dtype)
        if array.shape != shape:
            raise ValueError(f"{name} must return an array of shape {shape} for the {self.agents} agents; got {array.shape}")
        return array


class AtAggregate:
    """Measures objective and stationarity at the agents' own variables, with the aggregate of all: nobody has to agree."""

    def __init__(self, own: np.ndarray, agents: MeasuredAgents | None = None, each: bool = False) -> None:
        self.own, self.agents, self.each = own, agents, each

    def points(self, w: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return the agents' variables."""
        return w

    def measures(self, agents: MeasuredAgents, solver: object, test: object, each: bool, hidden: bool) -> AtAggregate:
        """Return what measures, with the agents of this process."""
        return AtAggregate(self.own, agents, each)

    def measure(self, w: np.ndarray, mean: np.ndarray, round: int = 0, past: object = None) -> dict[str, float | np.ndarray]:
        """Return the measured quantities by name, at the variables ``w`` of the agents of this process."""
        assert self.agents is not None, "it measures once it is attached"
        problem: Any = self.agents.problem
        everyone = self.agents.gather.rows

        def of_all(rows: np.ndarray) -> np.ndarray:
            return np.tile(everyone(rows).mean(axis=0), (len(rows), 1))

        s = of_all(problem.contribution(w))
        costs = everyone(problem.costs(w, s) + problem.penalties(w))
        own, aggregate = problem.gradients(w, s)
        moved = w - problem.prox(w - own - problem.pullback(w, of_all(aggregate)), 1.0)
        row: dict[str, float | np.ndarray] = {
            "objective": float(costs.sum()),
            "stationarity": float(np.sqrt(everyone(np.square(moved).sum(axis=1)).sum())),
            "disagreement": 0.0,
        }
        return row | ({"agent_objective": costs} if self.each else {})
