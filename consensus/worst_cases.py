"""Tight worst cases of first-order methods on a network, by performance-estimation problems."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

from consensus import _arguments, _checks, _extras
from consensus.engines.stacked import StackedNetwork
from consensus.problems.functions import FunctionProblem
from consensus.solvers.base import Solver
from consensus.solvers.check import check_needs

if TYPE_CHECKING:
    from topologies.schedules import ScheduleLike

__all__ = ["WorstCase", "worst_case"]

_MOST = 400  # points: a semidefinite problem of as many rows takes minutes
_IMAGES = 5  # coordinates of the points with which a method is tried
Measure = Literal["objective", "distance", "disagreement"]


@dataclass(frozen=True)
class WorstCase:
    """The worst that a method can do, and on which class of costs; see :func:`worst_case`.

    Attributes
    ----------
    value : float
        The largest value of the measure after the last round, as the solver of the semidefinite problem found it.
    measure : str
        What was measured.
    solver : Solver
        The method, with its step.
    rounds : int
        Number of rounds.
    lipschitz, convexity, distance, heterogeneity : float
        The class of the costs and of the starts.

    Examples
    --------
    The step that theory takes, and the contraction ``(1 - mu / L)^2`` of a step of 1 / L:

    >>> import topologies
    >>> from consensus.solvers import NIDS
    >>> from consensus.worst_cases import worst_case
    >>> found = worst_case(NIDS(), topologies.path(1), 1, lipschitz=1.0, convexity=0.5, measure="distance")
    >>> found.solver, round(found.value, 4)
    (NIDS(step_size=1.0), 0.25)
    """

    value: float
    measure: str
    solver: Solver
    rounds: int
    lipschitz: float
    convexity: float
    distance: float
    heterogeneity: float


def worst_case(
    solver: Solver,
    network: ScheduleLike | nx.Graph,
    rounds: int,
    *,
    lipschitz: float,
    convexity: float = 0.0,
    distance: float = 1.0,
    heterogeneity: float = 1.0,
    measure: Measure = "objective",
) -> WorstCase:
    """Return the worst that a method does on a network within some rounds: over all costs of a class, and of any dimension.

    The class: U is the mean of the f_i, with a minimiser ``w*``; the f_i have gradients of Lipschitz constant L and moduli of
    convexity mu; all agents start from one point with ``|w_0 - w*| <= distance``; ``mean_i |grad f_i(w*)|^2 <=
    heterogeneity^2``. What is returned is no bound of an analysis but the value of a semidefinite problem that is exact for the
    class and these mixing matrices: some costs attain it, if their dimension is large enough, and none exceed it.

    The method's own ``step`` runs, on coordinates with respect to its starts and gradients. So it may be any method whose
    iterates are linear in these, as of DGD, gradient tracking, EXTRA, NIDS, KGT, OPAPC or PushPull. It needs the extra ``pep``,
    and seconds to minutes: the problem has ``agents * (gradients in all rounds + 1) + 1`` points, of which 400 are allowed.

    Parameters
    ----------
    solver : Solver
        A method of whole gradients, without a search along its steps.
    network : schedule or networkx.Graph
        The mixing matrices.
    rounds : int
        Number of rounds, at least 1.
    lipschitz : float
        L of the f_i, > 0; in a problem it is ``problem.lipschitz().max()``.
    convexity : float
        mu of the f_i, in [0, L).
    distance : float
        Largest distance of the start from ``w*``, > 0.
    heterogeneity : float
        Root mean square of the gradients of the f_i at ``w*``, at least 0: how much the agents' data differ.
    measure : {"objective", "distance", "disagreement"}
        ``U(mean of the agents) - U(w*)``; the mean over the agents of ``|w_i - w*|^2``; or that of ``|w_i - mean|^2``.

    Returns
    -------
    WorstCase
        With its ``value``.

    Raises
    ------
    ImportError
        If PEPit is not installed.
    TypeError, ValueError
        If the method needs more than gradients, or is not linear in them; if the problem is too large; if an argument is out of
        range; what :func:`consensus.solvers.check_needs` raises.
    RuntimeError
        If the semidefinite problem has no finite value: the method has no bound on this class.

    References
    ----------
    Drori, Teboulle, "Performance of first-order methods for smooth convex minimization: a novel approach", Mathematical
    Programming 145, 2014; Taylor, Hendrickx, Glineur, "Smooth strongly convex interpolation and exact worst-case performance of
    first-order methods", Mathematical Programming 161, 2017, Theorem 4; Colla, Hendrickx, "Automatic performance estimation for
    decentralized optimization", IEEE TAC 68(12), 2023, for a given W.

    Examples
    --------
    Gradient descent of one agent, whose worst case after K steps of 1 / L is ``L |w_0 - w*|^2 / (4 K + 2)``:

    >>> import topologies
    >>> from consensus.solvers import DGD
    >>> from consensus.worst_cases import worst_case
    >>> found = worst_case(DGD(0.5), topologies.path(1), 2, lipschitz=2.0)
    >>> round(found.value, 4), 2 / 10
    (0.2, 0.2)
    """
    _checks.solver(solver)
    schedule = _arguments.schedule(network)
    rounds = _checks.count("rounds", rounds)
    lipschitz = _checks.number("lipschitz", lipschitz, above=0)
    convexity = _checks.number("convexity", convexity, least=0, below=lipschitz)
    distance = _checks.number("distance", distance, above=0)
    heterogeneity = _checks.number("heterogeneity", heterogeneity, least=0)
    _checks.choice("measure", measure, ("objective", "distance", "disagreement"))
    _extras.module("PEPit.functions", "worst_case", "pep")
    pep = _extras.module("PEPit", "worst_case", "pep")
    agents = schedule.agents

    counted = _Recorded(agents, 1, lipschitz, convexity, np.zeros((0, 1)))
    check_needs(solver, counted, schedule)
    ready = solver.prepared(counted, schedule)
    _run(ready, counted, schedule, rounds, np.zeros(1))
    points = agents * len(counted.calls) + 1
    if points + agents > _MOST:
        raise ValueError(
            f"{rounds} rounds of {type(solver).__name__} among {agents} agents have {points + agents} points, and at most "
            f"{_MOST} are allowed: take fewer rounds or agents"
        )
    basis = np.eye(points)  # the start, then the gradients
    recorded = _Recorded(agents, points, lipschitz, convexity, basis[1:])
    w = _run(ready, recorded, schedule, rounds, basis[0])
    _check_linear(ready, schedule, rounds, w, recorded)
    setting = WorstCase(np.nan, measure, ready, rounds, lipschitz, convexity, distance, heterogeneity)
    return replace(setting, value=_solved(pep, setting, w, recorded.calls))


class _Recorded(FunctionProblem):
    """Costs f_i whose gradients are given rows, one after the other, and that record where they were asked for."""

    def __init__(self, agents: int, columns: int, lipschitz: float, convexity: float, rows: np.ndarray) -> None:
        self.calls: list[np.ndarray] = []
        self._rows, self._mu = rows, convexity
        super().__init__(self._no_value, self._next, agents, columns, lipschitz=lipschitz / agents)

    def _no_value(self, w: np.ndarray) -> np.ndarray:
        raise ValueError(
            "the method compares costs along its steps: worst_case takes those of gradients alone, as DGD or EXTRA"
        )

    def _next(self, w: np.ndarray) -> np.ndarray:
        first = len(self.calls) * len(w)
        self.calls.append(w.copy())
        found = self._rows[first : first + len(w)] / len(w)  # of the g_i = f_i / A
        return found if len(found) else np.zeros_like(w)

    def strong_convexity(self) -> np.ndarray:
        return np.full(self.network_size, self._mu)


def _run(solver: Solver, problem: _Recorded, schedule: ScheduleLike, rounds: int, start: np.ndarray) -> np.ndarray:
    """Return the agents' last iterates."""
    network: Any = StackedNetwork(schedule, problem.dtype)
    state = solver.init(problem, np.tile(start, (problem.agents, 1)))
    for _ in range(rounds):
        state = solver.step(problem, network, state)
    w: np.ndarray = state.w
    return w


def _check_linear(solver: Solver, schedule: ScheduleLike, rounds: int, w: np.ndarray, recorded: _Recorded) -> None:
    """Raise ``ValueError`` unless the iterates are linear in starts and gradients, and move with the start."""
    images = np.random.default_rng(0).standard_normal((w.shape[1], _IMAGES))
    other = _Recorded(recorded.agents, _IMAGES, 1.0, 0.0, images[1:])
    found, expected = _run(solver, other, schedule, rounds, images[0]), w @ images
    close = np.allclose(found, expected, rtol=1e-8, atol=1e-8 * max(1.0, np.abs(w).max()))
    if not close or not np.allclose([each[:, 0] for each in (w, *recorded.calls)], 1, rtol=0, atol=1e-8):
        raise ValueError(
            "worst_case takes methods whose iterates are linear in the start and the gradients, and those of "
            f"{solver} are not: take one such as DGD, GradientTracking, EXTRA or NIDS, without a direction that scales"
        )


def _solved(pep: Any, setting: WorstCase, w: np.ndarray, calls: list[np.ndarray]) -> float:  # noqa: ANN401  # PEPit
    """Return the value of the performance-estimation problem; w* is the origin, and U(w*) is zero."""
    problem, agents = pep.PEP(), len(w)
    kind = pep.functions.SmoothStronglyConvexFunction
    costs = [problem.declare_function(kind, mu=setting.convexity, L=setting.lipschitz) for _ in range(agents)]
    leaves = [pep.Point() for _ in range(w.shape[1])]

    def point(row: np.ndarray) -> Any:  # noqa: ANN401
        return sum((float(c) * leaves[k] for k, c in enumerate(row) if c), start=pep.null_point * 1.0)

    own = [pep.Point() for _ in range(agents - 1)]  # the gradients at w*, which add up to zero
    own.append(-sum(own, start=pep.null_point * 1.0))
    values = [pep.Expression() for _ in range(agents)]
    for cost, gradient, value in zip(costs, own, values, strict=True):
        cost.add_point((pep.null_point, gradient, value))
    for number, rows in enumerate(calls):
        for agent, (cost, row) in enumerate(zip(costs, rows, strict=True)):
            cost.add_point((point(row), leaves[1 + number * agents + agent], pep.Expression()))
    problem.set_initial_condition(leaves[0] ** 2 <= setting.distance**2)
    if agents > 1:
        problem.set_initial_condition(sum(g**2 for g in own) / agents <= setting.heterogeneity**2)
    mean = w.mean(axis=0)
    if setting.measure == "objective":
        gaps = (cost(point(mean)) - value for cost, value in zip(costs, values, strict=True))
        problem.set_performance_metric(sum(gaps) / agents)
    else:
        around = mean if setting.measure == "disagreement" else 0 * mean
        problem.set_performance_metric(sum(point(row - around) ** 2 for row in w) / agents)
    try:
        found = problem.solve(verbose=0, solver="CLARABEL")
    except Exception as error:
        raise RuntimeError(f"the semidefinite problem of {setting.solver} was not solved: {error}") from error
    if found is None or not np.isfinite(found):
        raise RuntimeError(
            f"{setting.solver} has no finite worst case after {setting.rounds} rounds in this class: take a smaller step, a "
            "positive convexity, or another measure"
        )
    return float(found)
