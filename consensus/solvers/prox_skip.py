"""ProxSkip: most rounds without an exchange."""

from dataclasses import dataclass, field

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.bounds import steepest
from consensus.solvers.coin import heads
from consensus.solvers.needs import Needs
from consensus.solvers.states import DualSolver, DualState
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


@dataclass(frozen=True)
class ProxSkip(DualSolver):
    """Decentralised ProxSkip (Scaffnew): a gradient in every round, an exchange only if a coin says so.

    On the average form ``f_i = A g_i + r`` with G the stacked gradients, Wt = (I + W) / 2 and Y0 = 0:

        Z = X - alpha G(X) - Y;      with probability p   X+ = Wt Z,   Y+ = Y + p (Z - X+),      else   X+ = Z,   Y+ = Y .

    The coin is one for all agents, who draw it from the seed and the round; a round without communication counts no exchange.
    ``sum_i y_i = 0`` at every round. With p = 1 it is exact diffusion.

    W is fixed and symmetric, r smooth, the f_i strongly convex with modulus mu: for ``alpha <= 1 / L`` the expected squared
    error shrinks by ``1 - min(alpha mu, p^2 (1 - lambda_2) / 2)`` a round or faster, lambda_2 the second largest eigenvalue of
    W. So a p of the order of ``1 / sqrt(kappa (1 - lambda_2))``, with kappa = L / mu, saves the most exchanges.

    Parameters
    ----------
    step_size : float or rule, optional
        Step alpha > 0; 1 / L by default.
    probability : float
        Probability p of an exchange, in (0, 1].
    seed : int
        Seed of the coin, >= 0.

    References
    ----------
    Mishchenko, Malinovsky, Stich, Richtarik, "ProxSkip: yes! Local gradient steps provably lead to communication
    acceleration! Finally!", ICML 2022, Algorithm 4 (decentralised).

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> result = consensus.solve(problem, topologies.ring(5), consensus.solvers.ProxSkip(0.05, probability=0.5), rounds=200)
    >>> result.w.round(6).ravel(), int(result.history["exchanges"][-1])
    (array([2., 2., 2., 2., 2.]), 88)
    """

    step_size: float | Rule | None = None
    probability: float = field(default=0.5, metadata={"above": 0, "most": 1})
    seed: int = field(default=0, metadata={"count": 0})

    needs = Needs(regularizer="smooth", convex=True, mixing="symmetric", static=True)
    sends = "w"
    default = "1 / L"

    @property
    def exchanges_a_round(self) -> float:
        """The probability of an exchange."""
        return self.probability

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        return 1 / steepest(problem, network)

    def communicates(self, round: int) -> bool:
        """Return whether there is an exchange in a round.

        Parameters
        ----------
        round : int
            Number of rounds before it.

        Returns
        -------
        bool
            What the coin says.
        """
        return heads(self.seed, _checks.count("round", round, least=0), self.probability)

    def step(self, problem: BaseProblem, network: Network, state: DualState) -> DualState:
        n, w, y = state
        z = problem.descended(w, value_at(self.step_size, n), w) - y
        if not self.communicates(n):
            return DualState(n + 1, z, y)
        (mixed,) = network.mix(n, z)
        w = (z + mixed) / 2
        return DualState(n + 1, w, y + self.probability * (z - w))
