"""Newton's method on sums over a tree."""

from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.compression import IntegerRows
from consensus.privacy.fixed_point import SecureSums
from consensus.problems import BaseProblem, Linearizable
from consensus.solvers.adaptive.gauss_newton import products
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs
from consensus.trees.tree_lbfgs import check_secure, everywhere, words_of_keys
from consensus.trees.tree_root import FACTORS, MIDDLE, Known, Plan, Sums, decide, first_units, quadratic_weights

_MOST = 2000  # parameters: the root factors a P x P matrix in every round


class TreeNewtonState(NamedTuple):
    """The common point, and the root's knowledge.

    Attributes
    ----------
    round : int
        Number of rounds so far.
    w : ndarray (agents, P)
        Point.
    local : ndarray (agents, P)
        The agents' gradients at ``w``.
    sent : ndarray (agents, P)
        Sums of the parts of its own gradient that each agent has sent.
    plan : Plan
        Next evaluation, the same for all agents.
    known : Known
        The root's knowledge.
    """

    round: int
    w: np.ndarray
    local: np.ndarray
    sent: np.ndarray
    plan: Plan
    known: Known


@dataclass(frozen=True)
class TreeNewton(Solver):
    """Damped Gauss-Newton steps, computed by the root of a tree from sums of curvature.

    All agents share one point w. The root's model of the network's curvature is A times its own Gauss-Newton matrix at w,
    corrected by the last four blocks of the network's products (O, Z = H O):

        M <- M - M O (O'M O)^-1 O'M + Z (O'Z)^-1 Z' .

    A round is one evaluation and one sum up the tree, of integers but for the values:

        up      g_i(w + d_t) for t in (tau/4, tau, 4 tau);  rint((grad g_i(w + d_t) - s_i) / a), with s_i what was sent before;
                rint(J_i'S_i J_i(w + d_tau) O / b),  O = [d_tau / |d_tau|, p / |p|, random signs / sqrt P]
        root    the lowest trial is the new w if U falls by 1e-4 of what M promised, and its t the new tau; else tau <- 8 tau.
                d_t = -(M + D + t I)^-1 grad U ,  p = -(M + D + tau/4 I)^-1 (grad U + (M + D) d_tau) ,  D the curvature of r
        down    d_t and p in the largest units that keep 99% and 70% of the model's decrease, a, b, which trial was taken.

    The unit a lets rounding cost 1% of the decrease, and falls by 256 where the rounded gradient is zero; b gives the
    rounding of products a 2-norm of tau / 10; both are powers of two, so that sums are exact. The signs are drawn from the
    round, by all agents alike. U never rises (proved: values are not rounded, and the root takes a trial only if U falls);
    convergence is observed, not proved.

    The network must be static, undirected and connected, without lost messages. The root is a single point of failure. r
    must be quadratic, and P at most 2,000: the root factors a P x P matrix in every round.

    Parameters
    ----------
    columns : int
        Number of columns of O, >= 2: products per round.
    secure : SecureSums, optional
        Secure aggregation: masks hide the terms of the sums. Messages up the tree take eight bytes a number. M then begins with
        a multiple of the identity, the mean curvature along O, in place of the root's own matrix, and the first units are
        2^-bits: all that the root sends down is computed from sums.

    References
    ----------
    Levenberg, "A method for the solution of certain non-linear problems in least squares", Quart. Appl. Math. 2, 1944, for
    tau; Gower, Goldfarb, Richtarik, "Stochastic block BFGS: squeezing more curvature out of data", ICML 2016, for what corrects
    M.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.solvers import TreeNewton
    >>> data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    >>> shards = consensus.partition(data.X, data.y, agents=10, scheme="sorted")
    >>> problem = consensus.Problem(consensus.MLP([10, 8, 1]), consensus.SquaredLoss(), shards, consensus.L2(0.01))
    >>> result = consensus.solve(problem, topologies.ring(10), TreeNewton(), rounds=60)
    >>> bool(result.history["stationarity"][-1] < 1e-3)
    True
    """

    columns: int = 16
    secure: SecureSums | None = None

    needs = Needs(
        regularizer="smooth", model=True, exact=True, loss=("quadratic", "curvature_root"), tree=True, counts_exchanges=True
    )
    sends = "costs, y, H O, d"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _checks.count("columns", self.columns, least=2))
        check_secure(self.secure)

    def check(self, problem: BaseProblem) -> None:
        if _checks.problem(problem).parameters > _MOST:
            raise ValueError(
                f"TreeNewton factors a P x P matrix at the root, P at most {_MOST:,}; got P = {problem.parameters:,}: "
                "TreeLBFGS() takes any P"
            )
        if quadratic_weights(problem) is None:
            raise ValueError(
                f"TreeNewton needs a quadratic regularizer; got {problem.regularizer}: TreeLBFGS() takes any smooth one"
            )

    def width(self, problem: BaseProblem) -> int:
        vectors = len(FACTORS) + 1 + min(self.columns, problem.parameters)
        numbers = len(FACTORS) + vectors * problem.parameters
        return max(numbers, words_of_keys(self.secure, problem)) * 8 // problem.dtype.itemsize  # sums are in float64

    def init(self, problem: BaseProblem, w: np.ndarray) -> TreeNewtonState:
        agents, parameters = w.shape
        zeros = np.zeros(w.shape)  # in float64, so that sums of what is sent are exact
        known = Known.nothing(agents, parameters, min(self.columns, parameters))
        return TreeNewtonState(0, w, zeros, zeros, Plan.none(agents, parameters), known)

    def step(self, problem: BaseProblem, network: Network, state: TreeNewtonState) -> TreeNewtonState:
        (_, w, local, sent, plan, known), first = state, state.round == 0
        tree, linearizable = network.tree.secured(self.secure, first), cast(Linearizable, problem)  # as needs say
        root = tree.here
        # Up: values, rounded differences of gradients, and rounded products at the trial points.
        points = (w[0] + plan.steps[0, : 1 if first else len(FACTORS)]).astype(w.dtype)
        trials = [np.ascontiguousarray(everywhere(point, w)) for point in points]
        values = np.stack([problem.value(trial) for trial in trials], axis=1)
        gradients = [problem.gradient(trial).astype(float) for trial in trials]
        if first:
            tree.discover()
            units = np.zeros((len(w), 2))
            if self.secure is not None:  # what the root guesses would tell of its own data
                units[:] = self.secure.unit
            else:
                if root is not None:
                    units = first_units(problem, w, gradients[0], root, self.columns)
                units = tree.broadcast(units, IntegerRows(w.shape[1], powers=2))
            plan = plan._replace(units=units)
        basis, (a, b) = plan.directions(state.round, self.columns), plan.units[0]
        totals, codes = [sent], []
        for gradient in [local, *gradients] if plan.refused else gradients:
            codes.append(np.rint((gradient - totals[-1]) / a))
            totals.append(totals[-1] + codes[-1] * a)
        curvature = products(linearizable, trials[0 if first else MIDDLE], basis.astype(w.dtype))
        codes += list(np.rint(curvature.transpose(2, 0, 1) / b))
        rows = tree.reduce(np.concatenate([values, *codes], axis=1), IntegerRows(w.shape[1], floats=len(points)))
        # Root: which trial is taken, and what is tried next.
        message = np.zeros((len(w), 3 + plan.steps.shape[1] * (1 + w.shape[1])))  # the trial, two units, the steps and theirs
        if root is not None:
            sums = Sums(points, rows[root, : len(points)], rows[root, len(points) :].reshape(-1, w.shape[1]), basis)
            chosen, next_plan, known = decide(problem, w, root, plan, known, sums, own=self.secure is None)
            message[root] = _written(chosen, next_plan)
        # Down.
        codec = IntegerRows(w.shape[1], small=1, powers=2 + len(FACTORS) + 1)
        chosen, plan = _read(tree.broadcast(message, codec), w.shape[1])
        if plan.refused:
            return state._replace(round=state.round + 1, sent=totals[-1 - len(points)], plan=plan, known=known)
        taken = chosen - len(points)
        return TreeNewtonState(state.round + 1, trials[chosen], gradients[chosen], totals[taken], plan, known)


def _written(chosen: int, plan: Plan) -> np.ndarray:
    """Return the root's message: the trial, the units, and the steps in integers."""
    codes = plan.steps[0] / plan.step_units[0][:, None]
    return np.concatenate([[chosen], plan.units[0], plan.step_units[0], codes.ravel()])


def _read(rows: np.ndarray, parameters: int) -> tuple[int, Plan]:
    """Return the trial and the plan (agents, ...) of which :func:`_written` made the rows of a message (agents, numbers)."""
    count = len(FACTORS) + 1
    chosen, units, step_units, codes = np.split(rows[0], [1, 3, 3 + count])
    steps = codes.reshape(count, parameters) * step_units[:, None]
    steps, step_units, units = (everywhere(row, rows) for row in (steps, step_units, units))
    return int(chosen[0]), Plan(steps, step_units, units, bool(chosen[0] < 0))
