"""Costs that move from round to round."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.observe.measure import AtMean, squared_distances
from consensus.online.drawing import batch_of, draws
from consensus.problems.base import BaseProblem
from consensus.problems.batch import Batch, NumberedBatch
from consensus.problems.functions import for_function, positive, takes_rows
from consensus.problems.state import Work
from consensus.regularizers import Regularizer
from topologies import _names

if TYPE_CHECKING:
    from consensus.history import History


class AtRound(AtMean):
    """Measures at the mean of the agents, with the costs of the round, and adds up regrets."""

    def measure(self, w: np.ndarray, mean: np.ndarray, round: int = 0, past: object = None) -> dict[str, float | np.ndarray]:
        """Return the measured quantities by name; a regret is that of the round before, in ``past``, and what this one adds."""
        online: Any = self.problem
        now = online.at(round)
        self.problem = self.agents.problem = now
        try:
            row = super().measure(w, mean)
            cost = float(row["objective"])
            if online.optimum is not None:
                best = now.minimiser()
                row["dynamic_regret"] = self._added("dynamic_regret", cost - self._objective(best, None), round, past)
                squares = self.agents.numbers(lambda rows: squared_distances(w[rows], best), len(w), w.dtype)
                row["tracking_error"] = float(np.sqrt(squares.mean()))
            if online.comparator is not None:
                row["regret"] = self._added("regret", cost - self._objective(online.comparator, None), round, past)
        finally:
            self.problem = self.agents.problem = online
        return row

    def _added(self, name: str, more: float, round: int, past: Any) -> float:  # noqa: ANN401  # a History
        history: History = past
        if not history.rows:
            return more if round == 0 else float("nan")
        last = history.last()
        if last["round"] == round - 1:
            return float(last[name]) + more
        if np.isfinite(last[name]):
            _checks.warn(
                f"{name} adds up all rounds, and round {round} is recorded after round {last['round']}: it is nan from here; "
                "give record_every=1"
            )
        return float("nan")


class Online(BaseProblem):
    """Costs that come round by round: ``minimise sum_t U_t(w_t)`` with ``U_t(w) = sum_i g_it(w) + r(w)``.

    In round t the agents know the costs up to t, and choose the next w. :class:`consensus.solvers.DGD`,
    :class:`consensus.solvers.GradientTracking` and :class:`consensus.solvers.Subgradient`, alone or inside
    :class:`consensus.solvers.Gossip`, take the gradients of the round; other solvers, whose theory is of costs that stay,
    refuse it. Diffusion LMS is DGD on squared errors of one new sample of each agent in every round.

    The history's ``objective`` and ``stationarity`` are those of the round's costs, at the mean of the agents. More columns:

    ``dynamic_regret``
        ``sum_t U_t(mean_t) - U_t(w*_t)``, with the minimisers ``w*_t`` of the rounds.
    ``tracking_error``
        ``sqrt(mean_i |w_i - w*_t|^2)``, the distance of the agents from that of the round.
    ``regret``
        ``sum_t U_t(mean_t) - U_t(u)``, with a fixed point u, such as the best in hindsight.

    Regrets are sums over all rounds: NaN if rounds are not recorded, so give ``record_every=1``.

    Parameters
    ----------
    value : callable
        ``value(w, round)``: w (agents, P) -> the costs (agents,) of the round, from 0, row by row.
    gradient : callable
        ``gradient(w, round)`` -> their gradients (agents, P). With an argument ``rows`` functions get w of some agents and
        their numbers; otherwise they get all agents.
    agents, parameters : int
        Numbers of agents and of parameters.
    regularizer : Regularizer or sequence of Regularizer, optional
        The regularizer r, or one of each agent.
    lipschitz : float or array_like (agents,), optional
        Lipschitz constants of the gradients, of all rounds.
    labels : sequence, optional
        The names of the agents.
    optimum : callable, optional
        ``optimum(round)`` -> the minimiser of the round's U (P,).
    comparator : array_like (P,), optional
        The fixed point u.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind; later, if a function returns another shape.

    References
    ----------
    Zinkevich, "Online convex programming and generalized infinitesimal gradient ascent", ICML 2003, section 2, for both
    regrets; Shahrampour, Jadbabaie, "Distributed online optimization in dynamic environments using mirror descent", IEEE TAC
    63(3), 2018, over networks; Sayed, "Adaptation, learning, and optimization over networks", 2014, for diffusion LMS.

    Examples
    --------
    A target that moves by 0.01 a round; agents see it from different sides:

    >>> import numpy as np, consensus, topologies
    >>> from consensus.problems import Online
    >>> from consensus.solvers import GradientTracking
    >>> sides = np.array([[-1.0], [0.0], [1.0]])
    >>> problem = Online(
    ...     lambda w, round: ((w - sides - 0.01 * round) ** 2).sum(axis=1) / 2, lambda w, round: w - sides - 0.01 * round,
    ...     agents=3, parameters=1, optimum=lambda round: np.array([0.01 * round]))
    >>> result = consensus.solve(problem, topologies.ring(3), GradientTracking(0.1), rounds=200, record_every=1)
    >>> float(result.history["tracking_error"][-1].round(6))  # 0.01 / (3 * 0.1)
    0.033333
    """

    measured = AtRound
    moves = True

    def __init__(
        self,
        value: Callable[..., np.ndarray],
        gradient: Callable[..., np.ndarray],
        agents: int,
        parameters: int,
        regularizer: Regularizer | Sequence[Regularizer | None] | None = None,
        lipschitz: ArrayLike | None = None,
        labels: Sequence[Hashable] | None = None,
        *,
        optimum: Callable[[int], ArrayLike] | None = None,
        comparator: ArrayLike | None = None,
    ) -> None:
        for name, function in (("value", value), ("gradient", gradient), ("optimum", optimum)):
            if not (callable(function) or (function is None and name == "optimum")):
                raise TypeError(
                    f"{name} must be a function of {'w and ' * (name != 'optimum')}round; got {_checks.shown(function)}"
                )
        agents, parameters = _checks.count("agents", agents), _checks.count("parameters", parameters)
        super().__init__(np.arange(agents), agents, parameters, np.float64, regularizer)
        if labels is not None:
            self.labels = _names.checked("labels", labels, agents)
        self._functions = {"value": (value, takes_rows(value)), "gradient": (gradient, takes_rows(gradient))}
        self._constants = None if lipschitz is None else positive(lipschitz, agents)
        self.optimum, self.round = optimum, 0
        self.comparator = None if comparator is None else self._point("comparator", comparator)

    def __repr__(self) -> str:
        return f"Online({self.agents} agents, {self.parameters} parameters, {self.nonconvex or self.regularizer})"

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns of the history beside those of all runs."""
        moving = ("dynamic_regret", "tracking_error") if self.optimum is not None else ()
        return moving + (("regret",) if self.comparator is not None else ())

    def at(self, round: int) -> Self:
        """Return the problem of a round, whose ``value`` and ``gradient`` are of its costs; by default they are of round 0.

        Parameters
        ----------
        round : int
            The round, from 0.

        Returns
        -------
        Online
            A copy, which counts its own work.
        """
        moment = copy.copy(self)
        moment.round, moment.work = _checks.count("round", round, least=0), Work()
        return moment

    def minimiser(self) -> np.ndarray:
        """Return the minimiser of the round's U.

        Returns
        -------
        ndarray (P,)
            What ``optimum(round)`` returns.

        Raises
        ------
        TypeError
            If there is no ``optimum``.
        """
        if self.optimum is None:
            raise TypeError(f"{self} knows no minimisers: give it optimum=, a function of the round")
        return self._point("optimum(round)", self.optimum(self.round))

    def batch_of(self, round: int) -> Batch:
        return batch_of(self.agents, round)

    def check_solver(self, solver: object) -> None:
        if not draws(solver):
            raise TypeError(
                f"{type(solver).__name__} is for costs that stay, and those of {self} move from round to round: take "
                "DGD(step_size), GradientTracking(step_size) or Subgradient(step_size), without batch="
            )

    def digests(self) -> list[str]:
        probe = np.linspace(-1, 1, self.network_size * self.parameters).reshape(self.network_size, -1)[self.rows]
        rounds = [self.at(round)._gradient(probe) for round in range(3)]
        return [hashlib.sha256(b"".join(part[row].tobytes() for part in rounds)).hexdigest() for row in range(self.agents)]

    def _value(self, w: np.ndarray) -> np.ndarray:
        return self._called("value", w, self.round, ())

    def _gradient(self, w: np.ndarray) -> np.ndarray:
        return self._called("gradient", w, self.round, (self.parameters,))

    def _batch_gradient(self, w: np.ndarray, batch: Batch) -> np.ndarray:
        if not isinstance(batch, NumberedBatch) or batch.indices.shape[1]:
            return super()._batch_gradient(w, batch)
        return self._called("gradient", w, batch.draw, (self.parameters,))

    def _lipschitz(self, w: np.ndarray | None) -> np.ndarray:
        return super()._lipschitz(w) if self._constants is None else np.asarray(self._constants[self.rows])

    def _point(self, name: str, value: ArrayLike) -> np.ndarray:
        point = _checks.floats(name, value).astype(self.dtype)
        if point.shape != (self.parameters,):
            raise ValueError(f"{name} must be one point (P,) = ({self.parameters},); got shape {point.shape}")
        return point

    def _called(self, name: str, w: np.ndarray, round: int, tail: tuple[int, ...]) -> np.ndarray:
        function, by_rows = self._functions[name]
        (stack,), rows = for_function(self, by_rows, w.copy())
        found, size = np.array(function(stack, round, **rows), dtype=self.dtype), len(stack)
        if found.shape != (size, *tail):
            raise ValueError(f"{name} must return shape {(size, *tail)} for w of {size} agents; got {found.shape}")
        return found if size == self.agents else found[self.rows]
