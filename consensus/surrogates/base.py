"""What a surrogate is."""

from typing import Any, Protocol

import numpy as np

from consensus.problems import BaseProblem


class SurrogateModel(Protocol):
    """Convex models g~_i of the costs of a block of agents: what a surrogate hands to a local solver that knows its kind.

    A NamedTuple serves: of the data, and of numbers (agents, ...).
    """

    @property
    def w(self) -> np.ndarray:
        """The points (agents, P) around which they are models."""


class Surrogate(Protocol):
    """Makes strongly convex models g~_i(w; w_i) of the agents' local costs g_i, whose gradients at w_i are those of g_i.

    One of your own, a frozen dataclass of its settings, goes with a :class:`consensus.local.LocalSolver` that minimises its
    models: those of the package know :class:`FullLinearization`, :class:`PartialLinearization` and :class:`Blocks` of these.
    Checkpoints know it by its ``repr``.

    Notes
    -----
    What it may have besides:

    ``needs_model`` : bool
        Whether the costs must be those of a model and a loss; False where it is missing. NEXT and SONATA say it in their
        ``needs``, so that other problems are refused before any work.
    """

    def check(self, problem: BaseProblem) -> None:
        """Raise ``TypeError`` or ``ValueError`` if it cannot be formed for ``problem``; called once, before any work."""

    def at(self, problem: Any, w: np.ndarray, gradient: np.ndarray) -> SurrogateModel:
        """The models of a block of agents around ``w`` (agents, P), called every round.

        Parameters
        ----------
        problem : Problem
            The block's, one that :meth:`check` has let pass.
        w, gradient : ndarray (agents, P)
            The iterates, and the local costs' gradients there. To be left as they are.
        """
