"""Regularizers and sets of the agents' own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

import topologies
from consensus import _checks
from consensus.regularizers.base import Regularizer, RegularizerDefaults
from consensus.regularizers.points import points, to_prox
from topologies.schedules import ScheduleLike, is_static

if TYPE_CHECKING:
    import cvxpy

_SWEEPS, _NEAR = 2000, 1e-13  # of the prox of a sum, and how near to its end


@dataclass(frozen=True)
class OwnRegularizers(Regularizer):
    """Convex regularizers r_i of the agents' own, of which U has the sum: what ``regularizer=[...]`` of a problem becomes.

    A constraint is a regularizer, too, so that each agent may have a set of its own; w is then to lie in their intersection.
    U is ``sum_i (g_i + r_i)``, so that ``[L1(0.1)] * A`` is ``L1(0.1 * A)``.

    For a point (P,) ``value`` and ``prox`` are those of the sum. For a stack of the agents held here they are those of
    ``A r_i``, the regularizers of the average form, each of its agent.

    Parameters
    ----------
    regularizers : sequence of Regularizer
        One for each agent of the network; None stands for none.
    rows : sequence of int, optional
        The agents held here; all by default.

    Raises
    ------
    TypeError, ValueError
        If a regularizer is not one, or is not convex.

    Notes
    -----
    The prox of a sum, by which the history's ``stationarity`` is measured, is found by the parallel form of Dykstra's algorithm
    [1]_; it is NaN where that does not come to rest within 2000 sweeps. Where the mean of the agents lies outside an agent's
    set, ``objective`` is infinite.

    References
    ----------
    .. [1] Combettes, "Iterative construction of the resolvent of a sum of maximal monotone operators", J. Convex Anal. 16(4),
       2009, section on proximity operators of sums.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.regularizers import OwnRegularizers
    >>> r = OwnRegularizers([consensus.Box(0.0, 2.0), consensus.Box(1.0, 3.0), None])
    >>> r.prox(np.array([[5.0], [0.0], [7.0]]), 1.0).tolist(), r.prox(np.array([0.0]), 1.0).round(9).tolist()
    ([[2.0], [1.0], [7.0]], [1.0])
    """

    regularizers: Sequence[Regularizer | None]
    rows: Sequence[int] | None = field(default=None, repr=False, compare=False)

    of_agents = True  #: each agent has its own, which few solvers take: ``Needs(own_regularizers=True)``

    def __post_init__(self) -> None:
        if not isinstance(self.regularizers, list | tuple) or not self.regularizers:
            raise TypeError(f"regularizers must be a list, one for each agent; got {_checks.shown(self.regularizers)}")
        for agent, r in enumerate(self.regularizers):
            if r is None:
                continue
            _checks.regularizer(r, f"regularizer of agent {agent}")
            if isinstance(r, OwnRegularizers) or not _checks.completed(r, RegularizerDefaults).is_convex:
                raise ValueError(f"regularizer of agent {agent} must be convex and one agent's; got {r}: give all agents one")
        object.__setattr__(self, "regularizers", tuple(self.regularizers))
        if self.rows is not None:
            object.__setattr__(self, "rows", tuple(self.rows))

    def for_network(self, agents: int) -> Self:
        """Return it, if there is one for each agent of a network.

        Parameters
        ----------
        agents : int
            Number of agents of the network.

        Returns
        -------
        OwnRegularizers
            The same.

        Raises
        ------
        ValueError
            If there are more or fewer.
        TypeError
            If ``agents`` is no integer.
        """
        _checks.count("agents", agents)
        if len(self.regularizers) != agents:
            raise ValueError(
                f"regularizer must be one for all, or a list with one for each of {agents} agents; got {len(self.regularizers)}"
            )
        return self

    def restrict(self, rows: slice | Sequence[int]) -> Self:
        """Return it for the agents of a block.

        Parameters
        ----------
        rows : slice or sequence of int
            Their numbers in the network.

        Returns
        -------
        OwnRegularizers
            With the same regularizers, and these ``rows``.
        """
        agents = len(self.regularizers)
        return replace(self, rows=tuple(int(row) for row in np.arange(agents)[_checks.rows(rows, agents)]))

    def refusal(self, who: str, schedule: ScheduleLike) -> str:
        """Return the message by which a solver is refused that takes one regularizer for all.

        Parameters
        ----------
        who : str
            The solver.
        schedule : schedule
            The network.

        Returns
        -------
        str
            The message, with a solver that runs on this network.
        """
        from consensus.solvers import NIDS, Subgradient

        if is_static(schedule) and not topologies.check(schedule, NIDS(0.1)).refusal:
            remedy = "NIDS(step_size) and PGEXTRA(step_size) take them"
        elif not topologies.check(schedule, Subgradient(0.1)).refusal:
            remedy = "Subgradient(step_size) takes them"
        else:
            remedy = "give all agents one regularizer, or take doubly stochastic weights and Subgradient(step_size)"
        return f"{who} needs one regularizer that all agents share, and each has its own: {remedy}"

    def value(self, w: ArrayLike) -> np.ndarray | float:
        w = points("w", w)
        if w.ndim == 1:
            return float(sum(float(r.value(w)) * len(rows) for r, rows in self._kinds(range(len(self.regularizers)))))
        total: np.ndarray = np.zeros(len(w), w.dtype)
        for r, rows in self._kinds(self._held(w)):
            total[rows] = len(self.regularizers) * np.asarray(r.value(w[rows]))
        return total

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        if v.ndim == 1:
            return self._of_sum(v, float(step))
        found = v.copy()
        for r, rows in self._kinds(self._held(v, "v")):
            own = step[rows] if isinstance(step, np.ndarray) else step
            found[rows] = r.prox(v[rows], len(self.regularizers) * own)
        return found

    def _held(self, w: np.ndarray, name: str = "w") -> Sequence[int]:
        held = range(len(self.regularizers)) if self.rows is None else self.rows
        if len(w) != len(held):
            raise ValueError(
                f"each of {len(held)} agents has a regularizer of its own, and {name} has {len(w)} points: give one for each "
                "agent, or one point (P,) for the sum"
            )
        return held

    def _kinds(self, held: Sequence[int]) -> list[tuple[Regularizer, list[int]]]:
        """Return the different regularizers among those of the agents ``held``, with their places there."""
        kinds: dict[int, tuple[Regularizer, list[int]]] = {}
        for place, agent in enumerate(held):
            r = self.regularizers[agent]
            if r is not None:
                kinds.setdefault(id(r), (r, []))[1].append(place)
        return list(kinds.values())

    def _of_sum(self, v: np.ndarray, step: float) -> np.ndarray:
        """Return ``prox(v, step)`` of the sum of all r_i."""
        kinds = self._kinds(range(len(self.regularizers)))
        if len(kinds) < 2:
            return kinds[0][0].prox(v, step * len(kinds[0][1])) if kinds else v.copy()
        m, x = len(kinds), v
        z = np.tile(v, (m, 1))
        scale = _NEAR * max(1.0, float(np.abs(v).max()))
        for _ in range(_SWEEPS):
            p = np.stack([r.prox(own, m * step * len(rows)) for (r, rows), own in zip(kinds, z, strict=True)])
            before, x = x, p.mean(axis=0)
            z += x - p
            if np.abs(x - before).max() <= scale and np.ptp(p, axis=0).max() <= 1e3 * scale:
                return np.asarray(x)
        return np.full_like(v, np.nan)

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:
        import cvxpy as cp

        return sum((r.expression(w) for r in self.regularizers if r is not None), cp.Constant(0))

    def constraints(self, w: cvxpy.Variable) -> list[cvxpy.Constraint]:
        return [constraint for r in self.regularizers if r is not None for constraint in r.constraints(w)]
