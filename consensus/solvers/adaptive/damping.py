"""How far an agent trusts its model: tau, which grows when U rose and shrinks while the model predicts well."""

from typing import NamedTuple

import numpy as np

from consensus.problems.base import BaseProblem
from consensus.solvers.adaptive.costs import quadratic_weight
from consensus.solvers.adaptive.quadratic import Quadratic

LEAST, _LARGEST = 1e-7, 1.0  # tau in units of H's trace
_POWER = 4  # by which tau is averaged: near its largest, for one agent's trouble is everyone's
# Rise of the costs, relative: what the agents disagree by may hide smaller ones. On a changing graph their trial points lie
# further apart, and costs there are not those at the mean.
_MARKED, _MARKED_CHANGING = 1e-3, 0.1
_REFUSALS = 4  # in a row


class Sent(NamedTuple):
    """What agents average of their damping: the fourth ``power`` of tau in units of the ``scale``, and that; (agents,)."""

    power: np.ndarray
    scale: np.ndarray


class Damping(NamedTuple):
    """What agents remember of their damping, shape (agents,).

    Fields: ``tau``; the curvature's ``scale``; how many trials in a row were ``refused``; how many local solves the last round
    took (``tries``).
    """

    tau: np.ndarray
    scale: np.ndarray
    refused: np.ndarray
    tries: np.ndarray

    @classmethod
    def at_start(cls, scale: np.ndarray, share: float) -> "Damping":
        """With tau a ``share`` of the ``scale`` (agents,)."""
        scale = np.maximum(scale, np.finfo(scale.dtype).tiny ** 0.5)
        return cls(scale * share, scale, np.zeros_like(scale), np.zeros_like(scale))

    def sent(self) -> Sent:
        """The blocks that are averaged over the network."""
        return Sent((self.tau / self.scale) ** _POWER, self.scale)

    def agreed(self, means: Sent) -> "Damping":
        """With the network's scale and tau, of which the exchanges brought the ``means`` (Sent)."""
        scale = np.maximum(means.scale, 1e-3 * self.scale)
        return self._replace(tau=scale * np.maximum(means.power, LEAST**_POWER) ** (1 / _POWER), scale=scale)

    def judged(
        self, problem: BaseProblem, w_old: np.ndarray, old: Quadratic, w: np.ndarray, new: Quadratic, static: bool
    ) -> "Damping":
        """By what the last trial brought: whether it is refused (``refused`` > 0), and how tau changes.

        Parameters
        ----------
        problem : Problem
        w_old, w : ndarray (agents, P)
            Where the trial began, and where it led.
        old, new : Quadratic
            What is known of the network's costs there.
        static : bool
            Whether the graph stands still: else costs count only if they rose by much.
        """
        r, step = problem.regularizer, w - w_old
        rise = 0 if r.quadratic else r.value(w) - r.value(w_old)
        trapezoid, change = np.vecdot(step, old.slope + new.slope) / 2, new.total - old.total
        marked = change > (_MARKED if static else _MARKED_CHANGING) * np.abs(new.total)
        actual = np.where(marked, np.maximum(trapezoid, change), trapezoid) + rise
        predicted = old.change(step, quadratic_weight(problem)) + rise
        falls = predicted < 0
        ratio = np.where(falls, actual / np.where(falls, predicted, 1), -1)
        refused = (ratio < 0) & falls & (self.refused < _REFUSALS)
        factor = np.select([ratio < 0, ratio < 0.25, ratio > 0.75], [4.0, 2.0, 1 / 3], 1.0)
        dtype = self.tau.dtype
        times_refused = np.where(refused, self.refused + 1, 0).astype(dtype)
        return self._replace(tau=self.tau * factor.astype(dtype), refused=times_refused)

    def unrefused(self) -> "Damping":
        """With a next trial that counts in any case."""
        return self._replace(refused=np.full_like(self.refused, _REFUSALS))

    def limited(self) -> "Damping":
        """With tau between its least and its largest."""
        return self._replace(tau=np.clip(self.tau, LEAST * self.scale, _LARGEST * self.scale))
