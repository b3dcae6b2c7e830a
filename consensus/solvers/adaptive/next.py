"""AdaptiveNEXT: successive convex approximation that sets its own steps."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem, has_model
from consensus.solvers.adaptive import standardised, start
from consensus.solvers.adaptive.alongside import Alongside
from consensus.solvers.adaptive.averaging import Averaging, average, numbers
from consensus.solvers.adaptive.blocks import choose
from consensus.solvers.adaptive.costs import Costs, costs, track
from consensus.solvers.adaptive.curvature import Curvature, curvature_of
from consensus.solvers.adaptive.damping import Damping
from consensus.solvers.adaptive.local import solve
from consensus.solvers.adaptive.news import News
from consensus.solvers.adaptive.quadratic import Quadratic
from consensus.solvers.adaptive.start import Averaged, Origin
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs
from topologies import ScheduleLike
from topologies.analysis import crossing

if TYPE_CHECKING:
    from consensus.engines.network import Network


class AdaptiveState(NamedTuple):
    """What the agents remember: the states of the method's parts.

    Fields: ``round``; the iterates ``w`` (agents, P), as agreed on in the last exchanges, and the ``model`` of the network's
    costs around them; the ``trial`` points (agents, P), with the ``local`` costs and their ``curvature`` there; ``trackers`` u
    of the average cost and y of its gradient; the ``damping``; the ``averaging``; the ``origin``, while it may be gone back to.
    """

    round: int
    w: np.ndarray
    model: Quadratic
    trial: np.ndarray
    local: Costs
    trackers: Costs
    curvature: Curvature
    damping: Damping
    averaging: Averaging
    origin: Origin


class Summed(NamedTuple):
    """What the exchanges sum: trackers, what the curvature is made of, and once the costs at the start."""

    trackers: Costs
    curvature: tuple
    origin: np.ndarray


@dataclass(frozen=True)
class AdaptiveNEXT(Solver):
    """NEXT without settings: every local problem knows the network's curvature, and a step counts if U falls by it.

    A round is K exchanges, one local solve and one evaluation of the local cost, at a trial point x_i = w_i + d_i. What the
    agents exchange are the trial points, trackers y_i of the average gradient and u_i of the average cost;
    :func:`consensus.solvers.adaptive.averaging.average` makes of them each agent's estimates w_i of the mean trial point, G_i
    of ``grad sum_j g_j``, and T_i of ``sum_j g_j``. On a static graph whose links go both ways up to 256 agents get to know
    the graph in the first exchanges, and their estimates are exact: sums go through few agents
    (:class:`consensus.engines.hubs.Hubs`) in K exchanges, one more than the diameter or fewer. Of the Gauss-Newton curvature
    of all costs, ``H = sum_j J_j' S_j J_j``, they learn Z_i, about H Omega, with a few directions Omega that all know: on a
    static graph whose links go both ways, of at most 64, the products J_i' S_i J_i Omega go along with these sums, rounded to
    what tau_i does not see anyway, and Z is their exact sum (:class:`consensus.solvers.adaptive.sketch.Sketch`); on others they
    are mixed in twelve bits, at first of 64 or 128, then of 32. Then agent i

    1.  compares the change of U from its last w_i to the new one, ``s . (G_old + G_new) / 2 + r(w_new) - r(w_old)`` (with T_new
        - T_old instead of the trapezoid, if that is larger and a rise by over a thousandth, on a changing graph a tenth: the
        trapezoid is exact for short steps only), with what its model predicted for s = w_new - w_old: a ratio below 1/4 doubles
        tau_i, one above 3/4 divides it by three. If U rose, tau_i is multiplied by four, and unless it refused four in a row
        the agent goes back to its last w_i, whose G_i and V_i it still has (the trackers follow the trial points and notice
        nothing);
    2.  solves the local problem, with V_i V_i' the Nystrom approximation of H from Z_i (and on changing and directed graphs
        what it was before where Z_i does not tell, stretched so that V_i V_i' s = G_new - G_old),

            d_i = argmin_d  G_i . d + 1/2 |V_i' d|^2 + tau_i/2 |d|^2 + r(w_i + d) ,

        and doubles tau_i, at most twice, while its local cost at w_i + d_i is further from that of its Gauss-Newton model
        than a quarter of the decrease promised (times 1/A; nothing is sent);
    3.  moves: x_i = w_i + d_i,  y_i <- (what mixing made of y_i) + grad g_i(x_i new) - grad g_i(x_i old).

    Rounds of one exchange come first, in which agents have their own curvature only
    (:func:`consensus.solvers.adaptive.start.step_alone`) and send twelve bits a number: where agents get to know their graph,
    unless all hear all, four, or as many as that takes; on a changing one whose links go both ways, of at most 256 agents,
    those in which K is found. Agents go back to the start if U rose. Where H is the same everywhere, with the squared loss of
    a linear model of at most 64 parameters, it is sent once.

    A quadratic r (L2) is part of the costs; L1, ElasticNet and others stay in step 2, whose points have their exact zeros. The
    fourth power of tau is averaged along with w, in units of a common scale: the mean is near the largest. Where there is no
    Jacobian (costs given by functions) V_i comes from the last 20 secant pairs (w_new - w_old, G_new - G_old), and nothing is
    tested in step 2. Where a layered model has so many parameters (over 4,096) that few directions would fit into a message,
    and r is quadratic, Kronecker factors of its layers take the place of V_i V_i'
    (:class:`consensus.solvers.adaptive.kronecker.Kronecker`): far fewer numbers than parameters, but for those of the first
    layer's inputs, which are sent once. Where averages are estimated K is the first number of exchanges after which all have
    heard from all and the misfit of all averages is at most 1/100 on a static graph, 1/16 on a changing one. Directed graphs
    take push-sum's masses.

    The history gets the columns ``tau_least``, ``tau_largest``, ``exchanges_a_round`` (those of the round), ``tries`` (the most
    local solves of an agent in it) and ``pairs`` (the fewest columns of V in use).

    Why its fixed points are the stationary points of U, what agents find out by themselves and what they are given, what it
    does not depend on and how much memory it takes: ``docs/adaptive.md``.

    References
    ----------
    Di Lorenzo, Scutari, "NEXT: in-network nonconvex optimization", IEEE TSIPN 2(2), 2016; Scardapane, Di Lorenzo, Neural
    Networks 91, 2017, section 4, for partial linearization; Marquardt, "An algorithm for least-squares estimation of nonlinear
    parameters", J. SIAM 11(2), 1963, for tau; :func:`consensus.solvers.adaptive.nystrom.factor` for V; Martens, Grosse,
    "Optimizing neural networks with Kronecker-factored approximate curvature", ICML 2015, for Kronecker factors.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.solvers import AdaptiveNEXT
    >>> data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    >>> shards = consensus.partition(data.X, data.y > 0, agents=10, scheme="sorted")
    >>> problem = consensus.Problem(consensus.Linear(10), consensus.LogisticLoss(), shards, consensus.L2(0.01))
    >>> result = consensus.solve(problem, topologies.ring(10), AdaptiveNEXT(), rounds=20)
    >>> bool(result.history["stationarity"][-1] < 1e-9)
    True
    """

    needs = Needs(loss=("quadratic", "curvature_root"), mixing="column stochastic", counts_exchanges=True)
    sends = "mass, w, y, u, rounded H Omega"
    history_columns = MappingProxyType(
        {"tau_least": np.min, "tau_largest": np.max, "exchanges_a_round": np.max, "tries": np.max, "pairs": np.min}
    )

    def report(self, state: AdaptiveState) -> np.ndarray:
        tau, _, _, tries = state.damping
        exchanges = np.full(len(state.w), state.averaging.sent - state.averaging.before)
        return np.stack([tau, tau, exchanges, tries, state.model.H.rank()], axis=1)

    def check(self, problem: BaseProblem) -> None:
        r = _checks.problem(problem).regularizer
        _checks.needs("AdaptiveNEXT", r, "quadratic", "squares", "strong_convexity", "active")
        if has_model(problem):
            standardised.warn_if_not(problem.shards, targets_too=problem.loss.quadratic)

    def check_network(self, schedule: ScheduleLike) -> None:
        crossing(schedule)

    def width(self, problem: BaseProblem) -> int:
        parts = 2 * _checks.problem(problem).parameters + curvature_of(problem).numbers(problem)
        return parts + 3 + numbers(problem.network_size)  # tau, its scale and the cost beside w, y and the curvature

    def init(self, problem: BaseProblem, w: np.ndarray) -> AdaptiveState:
        local = costs(_checks.problem(problem), w)
        curvature = curvature_of(problem).at_start(problem, w)
        damping = Damping.at_start(*curvature.scale(problem, w, local.gradient))
        unknown = Quadratic(np.zeros_like(local.cost), np.zeros_like(w), curvature.unknown())
        origin = Origin(w, local.cost[:, None])
        return AdaptiveState(0, w, unknown, w, local, local, curvature, damping, Averaging.at_start(w), origin)

    def step(self, problem: BaseProblem, network: "Network", state: AdaptiveState) -> AdaptiveState:
        alone = state.curvature.alone(network) if start.lasts(network, state) else None
        if alone is not None:
            return start.step_alone(problem, network, state, alone)
        origin = state.origin if state.round else state.origin.forgotten()
        first = state.averaging.pace < 0 or origin.cost.size > 0
        # Exchange: estimate what the network's costs are around the agents' mean.
        averaged = Averaged(state.trial, state.damping.sent())
        summed = Summed(state.trackers, state.curvature.mixed(network), origin.cost)
        rounded = state.curvature.rounded(network)
        along: Network = network if rounded is None else Alongside(network, rounded)  # type: ignore[assignment]  # a network's part
        averaging, means, totals, mixed = average(along, state.averaging, averaged, summed)
        w, damping, (total, slope) = means.trial, state.damping.agreed(means.damping), totals.trackers
        pair = (w - state.w, slope - state.model.slope)
        rounded = along.total() if isinstance(along, Alongside) else None
        news = News(averaging.pace, totals.curvature, rounded, *pair, state.damping, state.model)
        H, curvature = state.curvature.of_network(problem, network, state.round, news)
        model = Quadratic(total, slope, H)
        # 1. Judge the last trial, if there was one.
        if not first:
            damping = damping.judged(problem, state.w, state.model, w, model, network.static)
            refused = damping.refused > 0
            w, model = choose(refused, state.w, w), choose(refused, state.model, model)
        elif origin.cost.size:
            damping = damping.unrefused()
            if not network.static:  # the costs were those of scattered points, which say nothing of that at w
                model = model._replace(total=np.full_like(total, np.inf))
        # 2. Solve the local problem.
        d, damping = solve(problem, w, model, damping.limited(), curvature)
        # 3. Move, and evaluate the local cost there.
        trial = origin.or_back(problem, w, w + d, total, totals.origin)
        local, curvature = costs(problem, trial), curvature.moved(problem, trial)
        trackers = track(mixed.trackers, local, state.local)
        origin = origin.forgotten()
        return AdaptiveState(state.round + 1, w, model, trial, local, trackers, curvature, damping, averaging, origin)
