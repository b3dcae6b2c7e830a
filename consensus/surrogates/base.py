"""The protocols of surrogates and of the models that they form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from consensus.problems import BaseProblem

if TYPE_CHECKING:
    from jaxtyping import Float


class SurrogateModel(Protocol):
    """Convex models g~_i of the costs of a block of agents, which a local solver minimises.

    A NamedTuple of the data and of arrays (agents, ...) is enough.
    """

    @property
    def w(self) -> Float[np.ndarray, "agents P"]:
        """Points (agents, P) at which the models have the gradients of the costs."""


class Surrogate(Protocol):
    """A rule that forms strongly convex models g~_i(w; w_i) of the local costs g_i, with the gradient of g_i at w_i.

    The local solvers here minimise the models of :class:`FullLinearization`, :class:`PartialLinearization` and :class:`Blocks`.
    Your own surrogate, a frozen dataclass of its settings, requires a :class:`consensus.local.LocalSolver` for its models.
    Checkpoints identify it by its ``repr``.

    Notes
    -----
    The following attribute is optional.

    ``needs_model`` : bool
        Whether the costs must be those of a model and a loss; False if it is missing. It enters the ``needs`` of NEXT and
        SONATA, so that other problems are rejected before anything runs.
    """

    def check(self, problem: BaseProblem) -> None:
        """Check that the surrogate can be formed for a problem; called once, before anything runs.

        Parameters
        ----------
        problem : BaseProblem
            The problem.

        Raises
        ------
        TypeError, ValueError
            If it cannot.
        """

    def at(
        self,
        problem: Any,  # noqa: ANN401  # or a subclass of BaseProblem
        w: Float[np.ndarray, "agents P"],
        gradient: Float[np.ndarray, "agents P"],
    ) -> SurrogateModel:
        """Return the models of a block of agents; called every round.

        Parameters
        ----------
        problem : Problem
            The block's problem, which `check` has accepted.
        w : ndarray (agents, P)
            The iterates w_i; not to be changed.
        gradient : ndarray (agents, P)
            Gradients of the local costs at w; not to be changed.

        Returns
        -------
        SurrogateModel
            The models.
        """
