"""Auto: the solver that a problem and a network suit."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.adaptive import AdaptiveNEXT
from consensus.solvers.base import Solver, settled
from consensus.solvers.bounds import spread
from consensus.solvers.check import check_needs
from consensus.solvers.defaults import SolverDefaults
from consensus.solvers.needs import Needs
from consensus.solvers.nids import NIDS
from consensus.solvers.opapc import OPAPC
from topologies import spectral_gap
from topologies.schedules import ScheduleLike, is_static

_NEAR = 5  # exchanges between any two agents: AdaptiveNEXT averages well in a few rounds
_ALIKE, _WIDE, _SEEN = 0.7, 150.0, 16  # z and chi, up to which AdaptiveNEXT is ahead whatever L / mu; directions of z
_AHEAD = 3.0  # L / mu over chi, from which OPAPC is ahead of NIDS; over chi^2, from which AdaptiveNEXT is ahead of both
_MOST = 1e5  # L / mu that counts: weaker convexity is as good as none, and OPAPC no better than NIDS
_EXACT = 2000  # agents, whose distances are all computed
_LOGGER = logging.getLogger("consensus")


@dataclass(frozen=True)
class Auto(Solver):
    """The default of :func:`consensus.solve`: a method without anything to tune, chosen by the problem and the network.

    ``prepared(problem, network)``, which ``solve`` calls, takes the first row that holds, checks that the method fits, and logs
    one line. With L the largest Lipschitz constant of the agents' gradients, mu the least of their moduli of strong convexity,
    ``chi = (1 - lmin(W)) / (1 - rho(W))``, d the number of exchanges between the two agents that are farthest apart, and
    ``z^2 = mean_i |s_i - s|^2 / |s|^2``, s_i the slopes of agent i's cost at 0 along 16 random directions, s their mean:

    =============================================================  ====================================
    the network changes, loses messages, or is directed            :class:`consensus.solvers.AdaptiveNEXT`
    d is at most 5                                                 AdaptiveNEXT
    costs or r are not known to be convex, or L is not known       AdaptiveNEXT
    not connected, or agents only swap values: rho(W) = 1          AdaptiveNEXT
    min(L / mu, 1e5) is above 3 chi^2                              AdaptiveNEXT
    agents' data are alike: z at most 0.7, and chi at most 150     AdaptiveNEXT
    r is smooth, and L / mu between 3 chi and 1e5                  :class:`consensus.solvers.OPAPC`
    otherwise                                                      :class:`consensus.solvers.NIDS`
    =============================================================  ====================================

    Steps of OPAPC and NIDS are those of their theory. The rows are justified by measurements: ``docs/solvers.md``.

    Parameters
    ----------
    solver : Solver, optional
        The method chosen, None until then.
    why : str
        The reason.

    References
    ----------
    Di Lorenzo, Scutari, "NEXT: in-network nonconvex optimization", IEEE TSIPN 2(2), 2016, for AdaptiveNEXT; those of OPAPC and
    NIDS are in their docstrings.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> rng = np.random.default_rng(0)
    >>> shards = consensus.partition(rng.standard_normal((200, 3)), rng.standard_normal(200), agents=20)
    >>> problem = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    >>> for graph in (topologies.ring(20), topologies.star(20)):
    ...     print(consensus.solve(problem, graph, rounds=5).solver)
    Auto(NIDS(step_size=0.328944), why='convex, 10 exchanges across, L/mu = 17.9 <= 123 = 3 chi')
    Auto(AdaptiveNEXT(), why='exchanges across the network: 2 <= 5')
    """

    solver: Solver | None = None
    why: str = ""

    sets_itself = True
    sends = "as the method chosen"

    def __post_init__(self) -> None:
        if self.solver is not None:
            object.__setattr__(self, "solver", _checks.completed(_checks.solver(self.solver), SolverDefaults))

    def __repr__(self) -> str:
        return "Auto()" if self.solver is None else f"Auto({self.solver!r}, why={self.why!r})"

    @property
    def needs(self) -> Needs:
        return Needs(mixing="column stochastic", counts_exchanges=True) if self.solver is None else self.solver.needs

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        _checks.problem(problem)
        _checks.schedule(network, "network")
        solver, why = (self.solver, self.why) if self.solver is not None else chosen(problem, network)
        check_needs(solver, problem, network)
        ready = replace(self, solver=solver.prepared(problem, network), why=why)
        if self.solver is None:
            _LOGGER.info("no solver given: %s, because %s", type(solver).__name__, why)
        return ready

    @property
    def _method(self) -> Solver:
        return settled(self.solver, "solver")

    @property
    def exchanges_a_round(self) -> float | None:
        """Those of the method."""
        return None if self.solver is None else self.solver.exchanges_a_round

    @property
    def history_columns(self) -> Mapping[str, Callable[[np.ndarray], Any]]:
        """Those of the method."""
        return MappingProxyType({}) if self.solver is None else self.solver.history_columns

    def report(self, state: Any) -> np.ndarray:  # noqa: ANN401
        return self._method.report(state)

    def width(self, problem: BaseProblem) -> int:
        return self._method.width(problem)

    def init(self, problem: BaseProblem, w: np.ndarray) -> Any:  # noqa: ANN401
        return self._method.init(problem, w)

    def step(self, problem: BaseProblem, network: Network, state: Any) -> Any:  # noqa: ANN401
        return self._method.step(problem, network, state)


def chosen(problem: BaseProblem, network: ScheduleLike) -> tuple[Solver, str]:
    """Return the method of the first row of :class:`Auto` that holds, and why."""
    adaptive = AdaptiveNEXT()
    if not is_static(network):
        return adaptive, "the network may change or lose messages"
    W = sparse.csr_array(network.weights(network.key(0)))
    if abs(W - W.T).max() > 1e-12 or abs(W.sum(axis=1) - 1).max() > 1e-9:
        return adaptive, "the mixing matrix is not symmetric and doubly stochastic"
    across = _across(W)
    if across <= _NEAR:
        return adaptive, f"exchanges across the network: {across:g} <= {_NEAR}"
    try:
        mu, L = float(problem.strong_convexity().min()), float(problem.lipschitz().max())
    except TypeError:
        return adaptive, "the costs are not known to be convex, or Lipschitz constants are not known"
    if mu < 0:
        return adaptive, "the regularizer is not convex"
    slack = spectral_gap(W)
    if not slack > 1e-12:
        return adaptive, "the graph is not connected, or agents only swap values: the mixing matrix has no spectral gap"
    condition, chi = L / mu if mu > 0 else np.inf, spread(network) / slack
    if min(condition, _MOST) > _AHEAD * chi**2:
        return adaptive, f"L/mu = {condition:.3g} > {_AHEAD * chi**2:.3g} = 3 chi^2"
    if chi <= _WIDE and (z := _unlikeness(problem)) <= _ALIKE:
        return adaptive, f"agents' gradients differ little: z = {z:.2g} <= {_ALIKE}"
    known, bound = f"convex, {across:g} exchanges across, L/mu = {condition:.3g}", f"{_AHEAD * chi:.3g} = 3 chi"
    if not (smooth := problem.regularizer.smooth) or condition > _MOST:
        return NIDS(), known + (f" > {_MOST:g}" if smooth else ", nonsmooth regularizer")
    return (OPAPC(), f"{known} > {bound}") if condition > _AHEAD * chi else (NIDS(), f"{known} <= {bound}")


def _across(W: sparse.csr_array) -> float:
    """Return the largest distance between two agents, of many a bound from below by two searches."""
    edges = (W != 0).astype(np.int8)

    def distances(first: int | None) -> np.ndarray:
        return np.asarray(csgraph.shortest_path(edges, "D", directed=False, unweighted=True, indices=first))

    first = None if W.shape[0] <= _EXACT else int(distances(0).argmax())
    return float(distances(first).max())


def _unlikeness(problem: BaseProblem) -> float:
    """Return z, ``z^2 = mean_i |s_i - s|^2 / |s|^2``, s_i the slopes of agent i's cost at 0, and s their mean."""
    slopes = problem._slopes(np.random.default_rng(0).standard_normal((problem.parameters, _SEEN)))
    return float(np.sqrt(slopes.var(axis=0).sum()) / max(np.linalg.norm(slopes.mean(axis=0)), np.finfo(float).tiny))
