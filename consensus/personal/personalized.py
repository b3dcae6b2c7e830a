"""Models of the agents' own, near those of their neighbours."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

import topologies
from consensus import _checks
from consensus.communication.network import Network
from consensus.personal.measured import Personal
from consensus.personal.pair_weights import PairWeights
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.base import Solver, settled
from consensus.solvers.bounds import is_linear, refuse_batches, six_digits, steepest
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike, is_static
from topologies.schedules.reordered import permuted

_DENSE = 300  # agents, up to which eigenvalues are computed
_ESTIMATED = 0.5  # of the step, where Lipschitz constants are estimates


class PersonalisedState(NamedTuple):
    """The agents' models w, and the points ahead of them at which gradients are taken; both (agents, P)."""

    round: int
    w: np.ndarray
    ahead: np.ndarray


@dataclass(frozen=True)
class Personalized(Solver):
    """Each agent has a model of its own, near those of similar agents: an accelerated proximal gradient method.

    On the average form ``f_i = A g_i + r``, with weights w_ij of pairs of neighbours, each pair once:

        minimise  (1/A) [ sum_i f_i(x_i)  +  l/2 sum_{i<j} w_ij |x_i - x_j|^2 ]

    In a round every agent sends y_i to its neighbours, once, and takes a step; Y = X at first:

        x_i+ = prox_{alpha r}( y_i - alpha [A grad g_i(y_i) + l sum_j w_ij (y_i - y_j)] )
        y_i+ = x_i+ + beta (x_i+ - x_i)

    With l = 0 each agent trains alone; as l grows, the models approach the one that minimises the average. ``result.w`` has the
    agents' models, of which ``result.predictor(pipeline, agent=i)`` takes one. Their mean is no model: the history's
    ``objective``, ``stationarity`` and test errors are those of the agents' own models, and ``disagreement`` is zero, as there
    is nothing to agree on. r is shared by all agents, and need not be smooth.

    Parameters
    ----------
    weights : array_like, scipy sparse matrix or pandas DataFrame (A, A), optional
        The w_ij, symmetric and at least 0; only neighbours have one above 0. By default the network's mixing weights. Rows are
        in the order of the network, as of ``networkx.to_numpy_array(graph)``; rows of a DataFrame have the agents' names.
    l : float
        Strength l >= 0 of the coupling, on the scale of the curvature of the f_i.
    step_size : float or rule, optional
        Step alpha > 0. By default ``1 / lmax``, with lmax the largest eigenvalue of ``diag(L_1, ..., L_A) + l (D - W)``, and
        L_i the Lipschitz constants of the grad f_i; for models that are not linear half of that.
    momentum : float, optional
        The factor beta in [0, 1). By default ``(1 - q) / (1 + q)``, with ``q^2 = alpha lmin``, and lmin the least eigenvalue of
        ``diag(mu_1, ..., mu_A) + l (D - W)``, if moduli mu_i of strong convexity are known of the f_i; otherwise 0.
    batch : int or Minibatches, optional
        Number of samples of each agent in every round, instead of all.

    References
    ----------
    Bellet, Guerraoui, Taziki, Tommasi, "Personalized and private peer-to-peer machine learning", AISTATS 2018, for the
    objective, whose blocks it minimises in turn by gradient steps; Vanhaesebrouck, Bellet, Tommasi, "Decentralized
    collaborative learning of personalized models over networks", AISTATS 2017, where it is minimised by ADMM; Nesterov,
    "Introductory lectures on convex optimization", Kluwer, 2004, section 2.2, for the momentum.

    Examples
    --------
    Two pairs of agents, whose data differ between the pairs:

    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import Personalized
    >>> centres = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1) / 8, lambda w: (w - centres) / 4, agents=4, parameters=1, lipschitz=0.25)
    >>> similar = np.kron(np.eye(2), [[0.0, 1.0], [1.0, 0.0]])
    >>> result = consensus.solve(problem, topologies.complete(4), Personalized(similar, l=2.0), rounds=200)
    >>> result.w[:, 0].round(6).tolist()
    [0.4, 0.6, 10.4, 10.6]
    """

    weights: Any = None
    l: float = field(default=1.0, metadata={"least": 0})  # noqa: E741  # as in the objective
    step_size: float | Rule | None = None
    momentum: float | None = field(default=None, metadata={"least": 0, "below": 1})
    batch: int | Minibatches | None = None
    # Of the mixing matrix M = I - (D - W) / scale; prepared finds them.
    scale: float | None = field(default=None, init=False, repr=False, compare=False)
    coupling: sparse.csr_array | None = field(default=None, init=False, repr=False, compare=False)

    needs = Needs(regularizer="prox", mixing="symmetric", static=True, own_models=True)
    exchanges_a_round = 1
    sends = "w"
    default = "1 / (L + l lmax)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None:
            object.__setattr__(self, "weights", PairWeights(self.weights))

    def check_network(self, schedule: ScheduleLike) -> None:
        if not is_static(schedule):
            raise ValueError(f"Personalized couples the same neighbours always, and {schedule} changes: give a static network")
        if self.weights is None:
            return
        agents, matrix = schedule.agents, self.weights.matrix
        if matrix.shape[0] != agents:
            raise ValueError(f"weights must have shape {(agents, agents)}, a number for each pair; got {matrix.shape}")
        edges = (schedule.weights(schedule.key(0)) != 0).astype(float)
        beyond = matrix - matrix * edges
        beyond.eliminate_zeros()
        if beyond.nnz:
            i, j = (int(place[0]) for place in beyond.nonzero())
            first, second = (repr(name) for name in np.array(topologies.schedules.labels(schedule), dtype=object)[[i, j]])
            raise ValueError(
                f"weights must be zero except between neighbours; agents {first} and {second} have {matrix[i, j]:g}. Rows of "
                "arrays are in the order of network.labels; networkx.to_pandas_adjacency(graph) has their names"
            )
        order = getattr(schedule, "order", None)
        if self.weights.labels is None and (order is not None or getattr(schedule, "resorted", False)):
            self._warn_of_order(edges, order)

    def _warn_of_order(self, edges: sparse.csr_array, order: tuple[int, ...] | None) -> None:
        """Warn if rows without names would be on edges in another order, too, such as that of the problem."""
        matrix = self.weights.matrix
        other = matrix if order is None else permuted(matrix, np.argsort(order).tolist())  # as it was given
        alike = not matrix.nnz or (np.ptp(matrix.data) == 0 and matrix.nnz == edges.nnz - np.count_nonzero(edges.diagonal()))
        if alike or (order is not None and not (other != matrix).nnz) or (other * edges != other).nnz:
            return
        _checks.warn(
            "rows of weights have no names, and are taken in the order of network.labels, where they could be in another: "
            "networkx.to_pandas_adjacency(graph) has names of rows, pandas.DataFrame(weights, names, names) gives them"
        )

    def matched(self, order: tuple[int, ...] | None, labels: tuple[Hashable, ...] | None) -> Self:
        return self if self.weights is None else replace(self, weights=self.weights.matched(order, labels))

    def edges(self, network: ScheduleLike) -> ScheduleLike:
        return network if self.weights is None else self.weights.schedule()

    def personal(self, problem: BaseProblem) -> Personal:
        return Personal(np.ones(_checks.problem(problem).parameters, bool), self.coupling)

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        refuse_batches(self)
        if not self.l:
            return (1.0 if is_linear(problem) else _ESTIMATED) / steepest(problem, network)
        largest = _eigenvalue(_checks.problem(problem).lipschitz(), self.l, self._pairs(network), -1)
        return (1.0 if is_linear(problem) else _ESTIMATED) / largest

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        ready = super().prepared(problem, network)
        if ready.momentum is None:
            ready = replace(ready, momentum=ready._momentum(problem, network))
        elif ready is self:
            ready = replace(self)
        object.__setattr__(ready, "scale", 1.0 if self.weights is None else self.weights.scale)
        object.__setattr__(ready, "coupling", self.l * self._pairs(network).matrix)
        return ready

    def _pairs(self, network: ScheduleLike) -> PairWeights:
        return PairWeights.of(network) if self.weights is None else self.weights

    def _momentum(self, problem: BaseProblem, network: ScheduleLike) -> float:
        """Return beta by the moduli of strong convexity; 0 where none are known, or steps or gradients vary."""
        if self.batch is not None or not isinstance(self.step_size, float):
            return 0.0
        try:
            moduli = problem.strong_convexity()
        except TypeError:  # costs that need not be convex
            return 0.0
        least = _eigenvalue(moduli, self.l, self._pairs(network), 0)
        root = six_digits(np.sqrt(max(self.step_size * least, 0.0)))
        return max(0.0, (1 - root) / (1 + root)) if root else 0.0

    def init(self, problem: BaseProblem, w: np.ndarray) -> PersonalisedState:
        return PersonalisedState(0, w, w)

    def step(self, problem: BaseProblem, network: Network, state: PersonalisedState) -> PersonalisedState:
        n, w, y = state
        alpha, beta, c = value_at(self.step_size, n), settled(self.momentum, "momentum"), self.l * settled(self.scale, "scale")
        (mixed,) = network.mix(n, y)
        gradient = problem.network_size * problem.gradient(y, draw(self.batch, problem, n))
        new = problem.regularizer.prox(y - alpha * (gradient + c * (y - mixed)), alpha)
        return PersonalisedState(n + 1, new, new + beta * (new - w))


def _eigenvalue(diagonal: np.ndarray, l: float, pairs: PairWeights, place: int) -> float:  # noqa: E741
    """Return the least (place 0) or largest (-1) eigenvalue of ``diag(diagonal) + l (D - W)``, or a bound for many agents."""
    degrees = l * pairs.degrees
    if len(diagonal) > _DENSE:
        return float(diagonal.min() if place == 0 else (diagonal + 2 * degrees).max())
    matrix = np.diag(diagonal + degrees) - l * pairs.matrix.toarray()
    return float(np.linalg.eigvalsh(matrix)[place])
