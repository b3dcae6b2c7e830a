"""Network-GIANT."""

from dataclasses import dataclass, field

from consensus import _checks
from consensus.communication.network import Network
from consensus.local.exact import newton_directions
from consensus.problems import BaseProblem
from consensus.solvers.needs import Needs
from consensus.solvers.states import TrackingSolver, TrackingState
from consensus.step_sizes import Rule, value_at


@dataclass(frozen=True)
class NetworkGIANT(TrackingSolver):
    """Gradient tracking along the agents' own Newton directions: the harmonic mean of the Hessians stands for their mean.

    On the average form ``f_i = A g_i + r`` with G(X) the stacked gradients, B_i the Hessian of f_i at x_i, W the round's mixing
    matrix, Y0 = G(X0):

        n_i = (B_i + e I)^-1 y_i,       X+ = W (X - alpha N),       Y+ = W (Y + G(X+) - G(X))

    Two exchanges a round. If the model is not linear, B_i is the Gauss-Newton matrix. It needs a symmetric W, static for its
    theory, r = L2 or none, and f_i strongly convex: then it converges linearly with small alpha, near the optimum at a rate of
    ``1 - alpha`` or so if the Hessians are alike.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0, small in the paper. There is no default, because no agent knows how unlike the Hessians are. With equal
        Hessians 0.5 to 1 is good on well connected networks, less on others. The spectral gap of W over ``(L + m)^2 / (4 L m)``
        was stable for all quadratics tried with curvatures in [m, L], but is mostly ten times too small or more.
    damping : float
        Damping e >= 0; > 0 unless r is strongly convex. It is no part of the paper's method.

    References
    ----------
    Maritan, Sharma, Schenato, Dey, "Network-GIANT: fully distributed Newton-type optimization via harmonic Hessian consensus",
    arXiv 2305.07898, 2023.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> X, y = np.eye(4), np.array([1.0, 2.0, 3.0, 4.0])
    >>> shards = consensus.partition(X, y, agents=2)
    >>> problem = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    >>> result = consensus.solve(problem, topologies.path(2), consensus.solvers.NetworkGIANT(step_size=0.3), rounds=100)
    >>> bool(result.history["stationarity"][-1] < 1e-9)
    True
    """

    step_size: float | Rule
    damping: float = field(default=0.0, metadata={"least": 0})

    needs = Needs(
        regularizer="smooth", convex=True, model=True, exact=True, loss=("curvature_root",), mixing="symmetric", static=True
    )
    exchanges_a_round = 2
    sends = "w, y"

    def check(self, problem: BaseProblem) -> None:
        r = _checks.problem(problem).regularizer
        if not r.quadratic:
            raise TypeError(f"NetworkGIANT needs the Hessian of r, and knows that of L2 alone; got {r}")
        if self.damping + r.strong_convexity == 0:
            raise ValueError(f"damping must be > 0 with {r}, or the Hessians need not have inverses; got {self.damping}")

    def step(self, problem: BaseProblem, network: Network, state: TrackingState) -> TrackingState:
        n, w, y, gradient = state
        (w,) = network.mix(n, w - value_at(self.step_size, n) * newton_directions(problem, w, y, self.damping))
        new = problem.average_gradient(w)
        (y,) = network.mix(n, y + new - gradient)
        return TrackingState(n + 1, w, y, new)
