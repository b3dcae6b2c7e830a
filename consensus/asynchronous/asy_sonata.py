"""ASY-SONATA: asynchronous gradient tracking with any surrogate, which is asynchronous NEXT."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from consensus import _checks
from consensus.asynchronous.arcs import Arcs, checked_weights, graph_of, received
from consensus.asynchronous.base import AsynchronousSolver, steps_at
from consensus.engines.protocols import AnyProblem
from consensus.errors import LocalSolveError
from consensus.local import Exact, LocalSolver
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.regularizers import L2
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, checked
from consensus.surrogates import Surrogate
from consensus.surrogates.linearizations import ProximalModel
from topologies.schedules import ScheduleLike
from topologies.schedules.reordered import permuted

_EXACT, _NOTHING = Exact(), L2(0.0)  # of r only the gradient enters


class ASYSONATAState(NamedTuple):
    """Iterates w, trackers z, running sums rho (agents, P); sums already read of each neighbour, seen (agents, D, P).

    ``gradient`` has the last grad f_i, ``best`` the last local minimisers, ``wakes`` (agents,) how often each agent woke.
    """

    w: np.ndarray
    z: np.ndarray
    rho: np.ndarray
    seen: np.ndarray
    gradient: np.ndarray
    best: np.ndarray
    wakes: np.ndarray


class ASYSONATAMessage(NamedTuple):
    """The iterate after the local step, and the running sum: (agents, P) as sent, (agents, D, P) in a mailbox."""

    v: np.ndarray
    rho: np.ndarray


@dataclass(frozen=True)
class ASYSONATA(AsynchronousSolver):
    """Asynchronous successive convex approximation with gradient tracking, exact under delays and losses.

    With ``f_i = g_i + r/A``, matrices R (rows sum to one) and C (columns do), and a hat for the newest message that arrived,
    agent i does at each of its wakes

        h = z_i + sum_j C_ij (rho^_j - seen_ij) + grad f_i(x_i) - (grad f_i at the wake before),    seen_ij = rho^_j
        rho_i <- rho_i + h,    z_i = C_ii h
        x~ = argmin_x  f~_i(x; x_i) + (A z_i - grad f_i(x_i)) . (x - x_i)
        v_i = x_i + alpha (x~ - x_i),                    x_i <- R_ii v_i + sum_j R_ij v^_j,    and sends (v_i, rho_i).

    These are the paper's three steps; a wake begins with the tracker's, so that the gradient is computed before messages are
    read, and what was read is sent at once. All but x_i is zero at the start, where a neighbour from whom nothing came yet
    counts with its start. As sums are sent, a message that is lost or overtaken is made up for by the next one: at every wake

        sum_i z_i + sum over arcs C_ij (rho_j - seen_ij) = sum_i grad f_i,    with the last gradient of each agent.

    z_i is a share of the *sum* of gradients, about 1/A of it. The local step takes A z_i, as :class:`consensus.solvers.NEXT`
    and :class:`consensus.solvers.SONATA` do, so that a surrogate means the same in all three; the paper's takes z_i: its tau is
    this one divided by A. The graph is static and strongly connected; every agent keeps
    waking, and of so many messages along an arc one arrives. Then a constant, small alpha converges R-linearly on strongly
    convex costs, and to stationary points of nonconvex ones at a sublinear rate.

    Parameters
    ----------
    surrogate : FullLinearization, PartialLinearization or Blocks
        Convex models f~_i of the costs, r linearised, with the settings that they have in NEXT; ``FullLinearization(tau)`` is
        a gradient step of alpha / tau on U.
    step_size : float or rule
        Step alpha, in (0, 1]; a rule is one of the agent's own wakes.
    local : Exact or CVXPYSolver, optional
        Solves the local problems.
    tolerance : float
        Each agent's residual relative to that at x_i.
    batch : int or Minibatches, optional
        Samples of an agent and wake, instead of all.
    weights : (R, C), optional
        Matrices on the network's arcs, in its order of agents, as SciPy or NumPy has them, maybe on two graphs. By default
        by degrees: ``R_ij = 1 / (1 + in-degree of i)``, ``C_ij = 1 / (1 + out-degree of j)``.

    Raises
    ------
    ValueError
        If the regularizer is not smooth, the graph not strongly connected, or the weights do not fit it.

    References
    ----------
    Tian, Sun, Scutari, "Achieving linear convergence in distributed asynchronous multiagent optimization", IEEE Trans. Autom.
    Control 65(12), 2020, Algorithm 1 (with full linearization). With batches its kin is R-FAST: Zhu, Tian, Huang, Xu, He,
    "R-FAST: robust fully-asynchronous stochastic gradient tracking over general topology", arXiv 2307.11617.

    Examples
    --------
    >>> import networkx as nx, numpy as np, consensus
    >>> from consensus.asynchronous import ASYSONATA, Simulated
    >>> from consensus.surrogates import FullLinearization
    >>> centres = np.arange(5.0)[:, None]
    >>> value = lambda w, rows: ((w - centres[rows]) ** 2).sum(axis=1)
    >>> problem = consensus.Problem.from_functions(value, lambda w, rows: 2 * (w - centres[rows]), agents=5, parameters=1)
    >>> graph = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)])
    >>> late = Simulated(compute=(0.5, 1.5), delay=(0.0, 3.0), loss=0.2)
    >>> result = consensus.solve(problem, graph, ASYSONATA(FullLinearization(tau=10.0), 0.3), rounds=1000, engine=late)
    >>> result.w.round(6).ravel()
    array([2., 2., 2., 2., 2.])
    """

    surrogate: Surrogate
    step_size: float | Rule
    local: LocalSolver | None = None
    tolerance: float = 1e-8
    batch: int | Minibatches | None = None
    weights: Sequence[Any] | None = None

    needs = Needs(regularizer="smooth", mixing="column stochastic", wakes=True)
    sends = "v, rho"

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.offers("surrogate", self.surrogate, ("at", "check"), "one, such as PartialLinearization(tau=1.0)")
        checked(self.step_size, most=1)
        _checks.offers("local", self._solver, ("solve", "check"), "a local solver, such as consensus.local.Exact()")
        _checks.number("tolerance", self.tolerance, above=0, below=1)
        linearised = getattr(self.surrogate, "needs_model", False)
        object.__setattr__(self, "needs", replace(self.needs, model=linearised, exact=linearised))

    @property
    def _solver(self) -> LocalSolver:
        return _EXACT if self.local is None else self.local

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        linear = problem.restrict(slice(0, problem.agents))
        linear.regularizer = _NOTHING
        self._solver.check(self.surrogate, linear)

    def matrices(self, schedule: ScheduleLike) -> tuple[sparse.csr_array, sparse.csr_array]:
        if self.weights is None:
            return super().matrices(schedule)
        return checked_weights("ASYSONATA", self.weights, graph_of("ASYSONATA", schedule))

    def matched(self, order: tuple[int, ...] | None, labels: tuple[Hashable, ...] | None) -> Self:
        if self.weights is None or order is None or any(np.shape(matrix) != (len(order),) * 2 for matrix in self.weights):
            return self  # of which wrong shapes are rejected later
        return replace(self, weights=tuple(permuted(sparse.csr_array(matrix), order) for matrix in self.weights))

    def init(self, problem: BaseProblem, arcs: Arcs, w: np.ndarray) -> tuple[ASYSONATAState, ASYSONATAMessage]:
        nothing, wakes = np.zeros_like(w), np.zeros(len(w), int)
        seen = np.zeros((*arcs.sources.shape, w.shape[1]), w.dtype)
        return ASYSONATAState(w, nothing, nothing, seen, nothing, w, wakes), ASYSONATAMessage(w, nothing)

    def wake(
        self, problem: BaseProblem, arcs: Arcs, state: ASYSONATAState, mailbox: ASYSONATAMessage
    ) -> tuple[ASYSONATAState, ASYSONATAMessage]:
        x, z, rho, seen, before, best, wakes = state
        gradient = self._gradient(problem, x, wakes)
        h = z + received(arcs.c, mailbox.rho - seen) + gradient - before
        rho, z = rho + h, arcs.c_own * h
        best = self._minimise(problem, x, z, gradient, best, wakes)
        v = x + steps_at(self.step_size, wakes, x.dtype) * (best - x)
        x = arcs.r_own * v + received(arcs.r, mailbox.v)
        return ASYSONATAState(x, z, rho, mailbox.rho, gradient, best, wakes + 1), ASYSONATAMessage(v, rho)

    def _gradient(self, problem: BaseProblem, w: np.ndarray, wakes: np.ndarray) -> np.ndarray:
        """Return grad f_i, of the samples that belong to the agents' wakes if there are batches."""
        batch = None if self.batch is None else draw(self.batch, problem, int(wakes[0]))  # one agent at a time
        return problem.average_gradient(w, batch) / problem.network_size

    def _minimise(
        self, problem: AnyProblem, x: np.ndarray, z: np.ndarray, gradient: np.ndarray, best: np.ndarray, wakes: np.ndarray
    ) -> np.ndarray:
        """Return the minimisers x~ of the surrogates at x, looked for from the last ones on."""
        batch = None if self.batch is None else draw(self.batch, problem, int(wakes[0]))
        model = self.surrogate.at(problem if batch is None else problem.sampled(batch), x, gradient)
        problem.work.solves += 1
        total: np.ndarray = problem.network_size * z
        if isinstance(model, ProximalModel):
            return x - total / model.tau
        try:
            best, iterations = self._solver.solve(model, total - gradient, _NOTHING, best, self.tolerance)
        except LocalSolveError as error:
            raise LocalSolveError(f"at its wake {int(wakes[0]) + 1}, {error}") from error
        problem.work.iterations += int(iterations.sum())
        return best
