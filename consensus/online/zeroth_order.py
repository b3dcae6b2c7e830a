"""Gradients estimated from values alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.online.drawing import batch_of, draws
from consensus.problems.batch import Batch, NumberedBatch
from consensus.problems.functions import Function, FunctionProblem
from consensus.regularizers import Regularizer


class ZerothOrder(FunctionProblem):
    """Costs of which only values are known: gradients are estimated from two values of each agent in every round.

    In round t agent i draws a direction u uniformly from the unit sphere of R^P, by seed, agent and round, and takes

        (P / (2 h)) [g_i(w + h u) - g_i(w - h u)] u ,

    an unbiased estimate of the gradient of g_i smoothed over a ball of radius h; of a quadratic, of its own gradient.
    :class:`consensus.solvers.DGD`, :class:`consensus.solvers.GradientTracking` and :class:`consensus.solvers.Subgradient`,
    alone or inside :class:`consensus.solvers.Gossip`, take these estimates. Solvers without a ``batch`` take differences along
    all P coordinates, 2 P values, which the history's ``stationarity`` is measured by, too.

    Parameters
    ----------
    value : callable
        Maps w (agents, P) to the costs (agents,), row by row, as for :meth:`consensus.Problem.from_functions`.
    agents, parameters : int
        Numbers of agents and of parameters.
    radius : float
        Half the distance h > 0 of the two points, in units of w: small, but so that values differ by far more than their
        rounding or noise.
    regularizer : Regularizer or sequence of Regularizer, optional
        The regularizer r, or one of each agent.
    lipschitz : float or array_like (agents,), optional
        Lipschitz constants of the gradients.
    labels : sequence, optional
        The names of the agents.
    seed : int
        Seed of the directions.

    References
    ----------
    Tang, Zhang, Li, "Distributed zero-order algorithms for nonconvex multiagent optimization", IEEE Trans. Control Netw. Syst.
    8(1), 2021, sections on the 2-point and the 2d-point estimator.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.problems import ZerothOrder
    >>> from consensus.solvers import DGD
    >>> from consensus.step_sizes import Diminishing
    >>> centres = np.arange(5.0)[:, None] * [1.0, -1.0]
    >>> problem = ZerothOrder(lambda w: ((w - centres) ** 2).sum(axis=1) / 2, agents=5, parameters=2)
    >>> result = consensus.solve(problem, topologies.ring(5), DGD(Diminishing(0.05, 0.2)), rounds=2000, record_every=1000)
    >>> result.mean.round(1)  # [2, -2]
    array([ 2., -2.])
    """

    def __init__(
        self,
        value: Function,
        agents: int,
        parameters: int,
        radius: float = 1e-4,
        regularizer: Regularizer | Sequence[Regularizer | None] | None = None,
        lipschitz: ArrayLike | None = None,
        labels: Sequence[Hashable] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(value, value, agents, parameters, regularizer, lipschitz, labels)
        self.radius = _checks.number("radius", radius, above=0)
        self.seed = _checks.count("seed", seed, least=0)

    def __repr__(self) -> str:
        r = self.nonconvex or self.regularizer
        return f"ZerothOrder({self.agents} agents, {self.parameters} parameters, radius={self.radius}, {r})"

    def directions(self, round: int) -> np.ndarray:
        """Return the agents' directions of a round.

        Parameters
        ----------
        round : int
            The round, from 0.

        Returns
        -------
        ndarray (agents, P)
            Vectors of length 1.
        """
        drawn = [np.random.default_rng([self.seed, int(row), round]).standard_normal(self.parameters) for row in self.rows]
        return np.stack([u / np.linalg.norm(u) for u in drawn])

    def batch_of(self, round: int) -> Batch:
        return batch_of(self.agents, round)

    def check_solver(self, solver: object) -> None:
        if not draws(solver) and (hasattr(solver, "batch") or hasattr(solver, "solver")):
            raise TypeError(
                f"{type(solver).__name__} takes batches of samples, and {self} has values alone: take DGD(step_size), "
                "GradientTracking(step_size) or Subgradient(step_size), without batch="
            )

    def _gradient(self, w: np.ndarray) -> np.ndarray:
        found = np.empty_like(w)
        for k in range(self.parameters):
            found[:, k] = self._slope(w, np.eye(1, self.parameters, k))
        return found

    def _batch_gradient(self, w: np.ndarray, batch: Batch) -> np.ndarray:
        if not isinstance(batch, NumberedBatch) or batch.indices.shape[1]:
            return super()._batch_gradient(w, batch)
        u = self.directions(batch.draw)
        return np.asarray(self.parameters * self._slope(w, u)[:, None] * u)

    def _slope(self, w: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return ``(g(w + h u) - g(w - h u)) / (2 h)``."""
        return np.asarray((self._value(w + self.radius * u) - self._value(w - self.radius * u)) / (2 * self.radius))
