"""L-BFGS on sums over a tree."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.compression import IntegerRows
from consensus.privacy.fixed_point import SecureSums
from consensus.privacy.keys import KEY
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs
from consensus.trees.line_search import LineSearch
from consensus.trees.masked_tree import MaskedTree
from consensus.trees.tree import Tree

_NOISE = 0.02  # of the norm of the last gradient: how far rounding may move the next one


class Pairs(NamedTuple):
    """The last steps and changes of the gradient, both (agents, memory, P), the newest last, and their number ``held``."""

    steps: np.ndarray
    changes: np.ndarray
    held: int


class TreeLBFGSState(NamedTuple):
    """The common point and what agents know there; rows are equal but for those of ``sent``.

    Attributes
    ----------
    round : int
        Number of rounds so far.
    w, gradient : ndarray (agents, P)
        Point, and gradient of U there.
    trial, direction : ndarray (agents, P)
        Next trial point, and direction to it.
    sent : ndarray (agents, P)
        The part of each agent's gradient that was sent.
    total : ndarray (agents, P)
        Sum of ``sent`` over agents.
    pairs : Pairs
        The last pairs of steps and changes of the gradient.
    search : LineSearch
        Line search in progress.
    scale : float
        Norm of the newest gradient.
    """

    round: int
    w: np.ndarray
    gradient: np.ndarray
    trial: np.ndarray
    direction: np.ndarray
    sent: np.ndarray
    total: np.ndarray
    pairs: Pairs
    search: LineSearch
    scale: float


@dataclass(frozen=True)
class TreeLBFGS(Solver):
    """L-BFGS at one point that all agents share; values and gradients are summed along a spanning tree.

    A round is one evaluation: every agent computes ``g_i`` and ``grad g_i`` at the trial point, and the sums go up a
    breadth-first tree to the centre of the graph, and down again. From them all agents compute the same next trial point,

        d = -H grad U ,    w_trial = w + t d ,

    with H the inverse of the Hessian by the last ``memory`` pairs (two-loop recursion), and t by a line search for the strong
    Wolfe conditions. U never rises by more than the rounding of its value.

    With ``rounded=True`` an agent sends integers q_i: its gradient less the sum s_i of its messages, in units a,

        q_i = rint((grad g_i - s_i) / a) ,    s_i <- s_i + a q_i ,    a = 2^floor(log2(0.02 |grad U| sqrt(12 / (A P)))) ,

    so that errors do not add up, and all rounding together moves the gradient by about 2% of the last one's norm. Sums of
    integers are exact, in any order. Runs of 32 share a width (``consensus.compression.packing``). Values are sent in float64,
    and with ``rounded=False`` gradients, too. At first ``|grad U|`` is replaced by A times the norm of the root's gradient,
    which the root sends down, after the agents have found the tree in as many exchanges as the diameter. All this is counted.
    With ``secure`` the first unit is 2^-bits: what the root sends down is of sums alone.

    The network must be static, undirected and connected, without lost messages. The root is a single point of failure. r must
    be smooth. Convergence of L-BFGS to stationary points of nonconvex costs is not proved in general.

    Parameters
    ----------
    memory : int
        Number of pairs, >= 1; they take 2 memory P numbers.
    rounded : bool
        Whether gradients are sent as rounded differences, in about an eighth of the bytes.
    secure : SecureSums, optional
        Secure aggregation: masks hide the terms of the sums. Messages up the tree take eight bytes a number.

    References
    ----------
    Liu, Nocedal, "On the limited memory BFGS method for large scale optimization", Mathematical Programming 45, 1989,
    algorithm 2.1; Nocedal, Wright, "Numerical Optimization", 2006, algorithms 3.5, 3.6 and 7.4.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.solvers import TreeLBFGS
    >>> data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    >>> shards = consensus.partition(data.X, data.y, agents=10, scheme="sorted")
    >>> problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.01))
    >>> result = consensus.solve(problem, topologies.ring(10), TreeLBFGS(), rounds=40)
    >>> bool(result.history["stationarity"][-1] < 1e-6)
    True
    """

    memory: int = 20
    rounded: bool = True
    secure: SecureSums | None = None

    needs = Needs(regularizer="smooth", tree=True, counts_exchanges=True, deterministic=True, exact=True)
    sends = "cost, y"

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", _checks.count("memory", self.memory))
        _checks.flag("rounded", self.rounded)
        check_secure(self.secure)

    def width(self, problem: BaseProblem) -> int:
        return max(super().width(problem), words_of_keys(self.secure, problem) * 8 // problem.dtype.itemsize)

    def init(self, problem: BaseProblem, w: np.ndarray) -> TreeLBFGSState:
        zeros = np.zeros(w.shape)  # in float64, so that sums of what is sent are exact
        none = everywhere(np.zeros((self.memory, w.shape[1])), zeros)
        return TreeLBFGSState(0, w, zeros, w, zeros, zeros, zeros, Pairs(none, none, 0), LineSearch.along(0.0, 0.0, 0.0), 0.0)

    def step(self, problem: BaseProblem, network: Network, state: TreeLBFGSState) -> TreeLBFGSState:
        tree = network.tree.secured(self.secure, first=state.round == 0)
        r, trial = problem.regularizer, state.trial[0]
        stacked = np.ascontiguousarray(state.trial)  # as after a checkpoint: rows of one array, not one row many times
        local = problem.gradient(stacked)
        scale = state.scale
        if state.round == 0:
            tree.discover()
            scale = first_scale(tree, local) if self.secure is None else 0.0
        value, total, sent = self._summed(tree, problem.value(stacked), local, state, scale)
        value, gradient = value + float(r.value(trial)), total + r.gradient(trial)
        scale = float(np.linalg.norm(gradient))
        done = state._replace(round=state.round + 1, sent=sent, total=everywhere(total, sent), scale=scale)
        slope, search = float(gradient @ state.direction[0]), state.search
        if state.round == 0 or search.accepts(value, slope):
            return self._moved(done, value, gradient)
        if search.exhausted:  # the pairs mislead, or values are lost in rounding
            return _along(done, -state.gradient[0], 0, search.origin.value)
        return _at(done, search.after(value, slope))

    def _summed(
        self, tree: Tree | MaskedTree, values: np.ndarray, local: np.ndarray, state: TreeLBFGSState, scale: float
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the sums of values and of gradients (P,), and what each agent has sent of its gradient (agents, P)."""
        if not self.rounded:
            sums = tree.broadcast(tree.reduce(np.column_stack([values, local])))[0]
            return float(sums[0]), sums[1:], state.sent
        agents, parameters = tree.agents, local.shape[1]
        unit = power_of_two(_NOISE * scale * np.sqrt(12 / (agents * parameters)))
        if self.secure is not None and scale == 0:
            unit = self.secure.unit
        codes = np.rint((local - state.sent) / unit)
        codec = IntegerRows(parameters, floats=1, unit=unit)
        sums = tree.broadcast(tree.reduce(np.column_stack([values, codes]), codec), codec)[0]
        return float(sums[0]), state.total[0] + sums[1:] * unit, state.sent + codes * unit

    def _moved(self, state: TreeLBFGSState, value: float, gradient: np.ndarray) -> TreeLBFGSState:
        """Return the state at the trial point, with the first trial along the next direction."""
        w, trial = state.w[0], state.trial[0]
        pairs = remembered(state.pairs, trial - w, gradient - state.gradient[0]) if state.round > 1 else state.pairs
        state = state._replace(w=state.trial, gradient=everywhere(gradient, state.gradient), pairs=pairs)
        direction = -times_inverse(pairs.steps[0], pairs.changes[0], pairs.held, gradient)
        return _along(state, direction, pairs.held, value)


def check_secure(secure: SecureSums | None) -> None:
    """Raise ``TypeError`` unless ``secure`` is None or SecureSums."""
    if secure is not None:
        _checks.offers("secure", secure, ("encode", "decode"), "consensus.privacy.SecureSums(), or None")


def words_of_keys(secure: SecureSums | None, problem: BaseProblem) -> int:
    """Return how many words of eight bytes the public keys of all agents take, if sums are masked."""
    return 0 if secure is None else problem.network_size * KEY // 8


def first_scale(tree: Tree | MaskedTree, local: np.ndarray) -> float:
    """Return a first guess of the norm of the summed gradient: A times that of the root, of ``local`` (agents, P).

    The root sends the guess down.
    """
    return tree.agents * float(tree.broadcast(np.linalg.norm(local, axis=1)[:, None])[0, 0])


def remembered(pairs: Pairs, step: np.ndarray, change: np.ndarray) -> Pairs:
    """Return ``pairs`` with the newest, unless its curvature is lost in rounding."""
    if not step @ change > np.finfo(float).eps * (change @ change):
        return pairs
    memory = pairs.steps.shape[1]
    steps, changes = (np.concatenate([old[0, 1:], new[None]]) for old, new in ((pairs.steps, step), (pairs.changes, change)))
    return Pairs(everywhere(steps, pairs.steps), everywhere(changes, pairs.changes), min(memory, pairs.held + 1))


def times_inverse(steps: np.ndarray, changes: np.ndarray, count: int, v: np.ndarray) -> np.ndarray:
    """Return H v (P,), by the two-loop recursion over the last ``count`` of the pairs (memory, P)."""
    if not count:
        return v
    steps, changes = steps[-count:], changes[-count:]
    rho, alpha = 1 / np.vecdot(steps, changes), np.empty(count)
    for k in reversed(range(count)):
        alpha[k] = rho[k] * (steps[k] @ v)
        v = v - alpha[k] * changes[k]
    v = v / (rho[-1] * (changes[-1] @ changes[-1]))
    for k in range(count):
        v = v + (alpha[k] - rho[k] * (changes[k] @ v)) * steps[k]
    return v


def power_of_two(x: float) -> float:
    """Return the largest power of two that is at most ``x``; 1 for zero, infinity and NaN."""
    return float(2.0 ** np.floor(np.log2(x))) if 0 < x < np.inf else 1.0


def everywhere(common: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return ``common`` as the row of every agent, (agents, ...), in the dtype of ``like``, without a copy."""
    return np.broadcast_to(common.astype(like.dtype, copy=False), (len(like), *common.shape))


def _along(state: TreeLBFGSState, direction: np.ndarray, count: int, value: float) -> TreeLBFGSState:
    """Return the state with the first trial along a ``direction``, from a point of this ``value``."""
    slope = float(state.gradient[0] @ direction)
    first = 1.0 if count else 1 / max(float(np.linalg.norm(direction)), np.finfo(float).tiny)
    state = state._replace(direction=everywhere(direction, state.direction), pairs=state.pairs._replace(held=count))
    return _at(state, LineSearch.along(value, slope, first))


def _at(state: TreeLBFGSState, search: LineSearch) -> TreeLBFGSState:
    """Return the state whose trial is the one of ``search``."""
    return state._replace(trial=everywhere(state.w[0] + search.step * state.direction[0], state.w), search=search)
