"""Push-pull: gradient tracking over directed graphs by a row and a column stochastic matrix."""

from dataclasses import dataclass

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.needs import Needs
from consensus.solvers.states import TrackingSolver, TrackingState
from consensus.step_sizes import Rule, value_at


@dataclass(frozen=True)
class PushPull(TrackingSolver):
    """Pull the iterates, push the trackers: no masses.

    On the average form ``f_i = A g_i + r``, C the round's column stochastic matrix and R the row stochastic one with which
    every agent averages what it receives along the same edges (:func:`topologies.pull`), Y0 = G(X0):

        X+ = R (X - alpha Y),   Y+ = C Y + G(X+) - G(X),        one exchange a round: X - alpha Y and Y travel together.

    ``sum_i y_i = sum_i grad f_i(x_i)`` at every round.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0, small: linear convergence on strongly convex problems over static graphs.

    References
    ----------
    Pu, Shi, Xu, Nedic, "Push-pull gradient methods for distributed optimization in networks", IEEE TAC 66(1), 2021, eq. (3);
    Xin, Khan, "A linear algorithm for optimization over directed graphs with geometric convergence", IEEE L-CSS 2(3), 2018.

    Examples
    --------
    >>> import networkx as nx, numpy as np, consensus, topologies
    >>> from consensus.solvers import PushPull
    >>> centres = np.arange(4.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=4, parameters=1)
    >>> graph = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    >>> network = topologies.Static(graph, weights=topologies.push)
    >>> consensus.solve(problem, network, PushPull(0.02), rounds=400).w[:, 0].round(6).tolist()
    [1.5, 1.5, 1.5, 1.5]
    """

    step_size: float | Rule

    needs = Needs(regularizer="smooth", mixing="column stochastic")
    exchanges_a_round = 1
    sends = "w, y"

    def step(self, problem: BaseProblem, network: Network, state: TrackingState) -> TrackingState:
        n, w, y, gradient = state
        y, w = network.mix_and_average(n, y, w - value_at(self.step_size, n) * y)
        new = problem.average_gradient(w)
        return TrackingState(n + 1, w, y + new - gradient, new)
