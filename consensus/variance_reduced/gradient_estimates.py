"""The base class of gradient tracking over variance-reduced estimates."""

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem, Minibatches
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at


class EstimateState(NamedTuple):
    """Iterates w, ``ahead = Y + V(k) - V(k-1)``, which is sent next, and estimates v at w: all (agents, P)."""

    round: int
    w: np.ndarray
    ahead: np.ndarray
    v: np.ndarray


class GradientEstimates(Solver):
    """``Y+ = W (Y + V(k) - V(k-1))``, ``X+ = W (X - alpha Y+)`` with V the stack of a method's estimates of the gradients.

    Y_0 = V(-1) = 0, so that ``mean(Y+) = mean(V)`` at every round.
    """

    step_size: float | Rule
    batch: int | Minibatches | None

    needs = Needs(regularizer="smooth")
    exchanges_a_round = 2
    sends = "w, y"

    @abstractmethod
    def estimated(self, problem: BaseProblem, w: np.ndarray, state: Any) -> Any:  # noqa: ANN401  # methods add fields
        """Return ``state`` with the estimates at ``w``, the iterates of round ``state.round + 1``, and with what they need."""

    def _moved(self, w: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
        """Return where the agents step from ``w`` along their trackers ``y``, before they mix."""
        return w - alpha * y

    def init(self, problem: BaseProblem, w: np.ndarray) -> Any:  # noqa: ANN401
        v = _checks.problem(problem).average_gradient(w)
        return EstimateState(0, w, v, v)

    def step(self, problem: BaseProblem, network: Network, state: Any) -> Any:  # noqa: ANN401
        n, alpha = state.round, value_at(self.step_size, state.round)
        (y,) = network.mix(n, state.ahead)
        (w,) = network.mix(n, self._moved(state.w, y, alpha))
        after = self.estimated(problem, w, state)
        return after._replace(round=n + 1, w=w, ahead=y + after.v - state.v)
