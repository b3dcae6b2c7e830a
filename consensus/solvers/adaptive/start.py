"""The start of a run: the agents move from the first exchange on, each with the curvature of its own cost."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consensus.problems.base import BaseProblem
from consensus.solvers.adaptive.acquainted import say_neighbours
from consensus.solvers.adaptive.alongside import mix_roughly
from consensus.solvers.adaptive.averaging import MISFIT
from consensus.solvers.adaptive.blocks import choose, pack, unpack
from consensus.solvers.adaptive.costs import Costs, costs, track
from consensus.solvers.adaptive.damping import Sent
from consensus.solvers.adaptive.first_exchanges import MOST
from consensus.solvers.adaptive.local import solve
from consensus.solvers.adaptive.quadratic import Hessian, Quadratic

if TYPE_CHECKING:
    from consensus.engines.network import Network
    from consensus.solvers.adaptive.next import AdaptiveState

ROUNDS = 4
_TAU, _STEP = 0.03, 0.5  # tau in units of the curvature's scale
_HALVED = 40  # exchanges after which steps on a changing graph, where there are more of them, are half as long


class Averaged(NamedTuple):
    """What exchanges average: the trial points, and how much the agents damp."""

    trial: np.ndarray
    damping: Sent


class Few(NamedTuple):
    """What is sent in full of a message."""

    mass: np.ndarray
    damping: Sent
    cost: np.ndarray
    probes: np.ndarray


class Origin(NamedTuple):
    """Where agents that move alone started: ``w`` (agents, P) and the local ``cost`` there (agents, 1).

    Nothing, (agents, 0), where they do not, and as soon as they know the network's costs.
    """

    w: np.ndarray
    cost: np.ndarray

    def forgotten(self) -> "Origin":
        """Nothing."""
        return Origin(self.w[:, :0], self.cost[:, :0])

    def or_back(
        self, problem: BaseProblem, w: np.ndarray, trial: np.ndarray, total: np.ndarray, then: np.ndarray
    ) -> np.ndarray:
        """The ``trial`` points (agents, P), or this origin where U rose: from the network's costs ``then`` (agents, 1 or
        0) to the ``total`` (agents,) at w."""
        if not then.size:
            return trial
        r = problem.regularizer
        rise = 0 if r.quadratic else r.value(w) - r.value(self.w)
        return choose(~(total + rise <= then[:, 0]), self.w, trial)


def lasts(network: "Network", state: "AdaptiveState") -> bool:
    """Whether the next round is one of those in which agents move alone, if they do.

    On a static graph these are the first four, and those until all know their graph, if they get to know it; on a changing one
    those until all know their pace. Where it is not found in 128 exchanges the agents look for it at rest.
    """
    if network.static:
        return state.round < (max(ROUNDS, network.crossing(0) - 1) if network.acquainted else ROUNDS)
    averaging = state.averaging
    return averaging.pace < 0 and (averaging.search.pace > 0 or averaging.sent < MOST)


def step_alone(problem: BaseProblem, network: "Network", state: "AdaptiveState", H: Hessian) -> "AdaptiveState":
    """A round of NEXT with one exchange, in which every agent takes its own curvature, times A, for the network's, ``H``.

        w_i = sum_j W_ij x_j,   x_i = w_i + d_i / 2,   d_i = argmin_d  A y_i . d + 1/2 d' H_i d + tau/2 |d|^2 + r(w_i + d)

    with tau three hundredths of the curvature's scale. On a changing graph, where there are more such rounds, steps become
    shorter: d_i / (2 + k / 20) in round k. x and y are sent in twelve bits a number. Where agents get to know their graph, they
    tell each other in the very first exchange who their neighbours are, and nothing else; on a changing one they look for their
    pace meanwhile, and once it is found make ready a wider first message of their curvature.
    """
    averaging = state.averaging._replace(before=state.averaging.sent)
    if network.acquainted and not averaging.sent:
        averaging = say_neighbours(network, averaging, 1)
    averaging, means, mixed = _mixed(network, averaging, Averaged(state.trial, state.damping.sent()), state.trackers)
    w, damping = means.trial, state.damping.agreed(means.damping)
    share = averaging.mass / network.agents
    model = Quadratic(mixed.cost / share[:, 0], mixed.gradient / share, H)
    d, solved = solve(problem, w, model, damping._replace(tau=(_TAU * damping.scale).astype(w.dtype)), state.curvature)
    trial = w + (_STEP if network.static else _STEP / (1 + state.round / _HALVED)) * d
    last = not network.static and averaging.pace > 0
    curvature = (state.curvature.widened(problem) if last else state.curvature).moved(problem, trial)
    local = costs(problem, trial)
    return state._replace(
        round=state.round + 1,
        w=w,
        model=model,
        trial=trial,
        local=local,
        trackers=track(mixed, local, state.local),
        curvature=curvature,
        damping=damping._replace(tries=solved.tries),
        averaging=averaging,
    )


def _mixed(network, averaging, averaged, trackers):
    """One exchange: the next averaging, what is averaged and the trackers."""
    mass, search = averaging.mass, averaging.search if network.static else averaging.search.begun(network)
    few = Few(mass, Sent(*(mass[:, 0] * x for x in averaged.damping)), trackers.cost, mass * search.probes[:, -1])
    rough = (mass * averaged.trial, trackers.gradient)
    beside = 0 if network.static else 2 * network.names + 1  # as find_pace's
    mixed, trial, gradient = mix_roughly(network, averaging.sent, pack(few), *rough, beside=beside)
    few = unpack(mixed, few)
    mass, averaging = few.mass, averaging._replace(mass=few.mass, sent=averaging.sent + 1)
    if not network.static:
        search = search.after(network, few.probes / mass, MISFIT)
        known = search.pace > 0 and averaging.sent >= search.end
        averaging = averaging._replace(search=search)
        if known:
            averaging = averaging._replace(pace=search.pace, search=search.nowhere(mass))
    means = Averaged(trial / mass, Sent(*(x / mass[:, 0] for x in few.damping)))
    return averaging, means, Costs(few.cost, gradient)
