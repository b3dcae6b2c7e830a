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

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.surrogates import FullLinearization
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=2, parameters=1)
    >>> w = np.array([[3.0], [5.0]])
    >>> model = FullLinearization(tau=4.0).at(problem, w, problem.gradient(w))
    >>> model.w.tolist(), model.gradient.tolist(), model.tau
    ([[3.0], [5.0]], [[6.0], [10.0]], 4.0)
    """

    @property
    def w(self) -> Float[np.ndarray, "agents P"]:
        """Points (agents, P) at which the models have the gradients of the costs."""


class SurrogateDefaults:
    """The attribute of a :class:`Surrogate` that it need not have."""

    needs_model = False


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

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from typing import NamedTuple
    >>> import numpy as np, consensus
    >>> class Scaled(NamedTuple):  # g_i(w_i) + gradient . (w - w_i) + sum_k scale_k/2 (w - w_i)_k^2
    ...     w: np.ndarray
    ...     gradient: np.ndarray
    ...     scale: np.ndarray
    >>> @dataclass(frozen=True)
    ... class Diagonal:
    ...     scale: tuple[float, ...]
    ...     def check(self, problem):
    ...         if len(self.scale) != problem.parameters:
    ...             raise ValueError(f"scale must have {problem.parameters} numbers; got {self.scale}")
    ...     def at(self, problem, w, gradient):
    ...         return Scaled(w, gradient, np.array(self.scale))
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=2, parameters=1)
    >>> w = np.array([[3.0], [5.0]])
    >>> Diagonal((4.0,)).at(problem, w, problem.gradient(w)).gradient.tolist()
    [[6.0], [10.0]]
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
