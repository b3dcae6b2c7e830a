"""Problems whose costs are those of a model."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Protocol, TypeGuard

import numpy as np

from consensus.data import Shards
from consensus.losses.base import Loss
from consensus.models.linearization import Linearization, ModelDefaults
from consensus.problems.base import BaseProblem
from consensus.problems.state import Cache, Work
from consensus.regularizers.base import Regularizer

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class Linearizable(Protocol):
    """A problem whose costs are ``g_i(w) = sum_m weights_m l(f(w, x_m), d_m)``: its model can be linearised inside the loss.

    :class:`consensus.Problem` is one. A class derived from :class:`consensus.problems.BaseProblem` becomes one by defining
    ``model``, ``loss``, ``shards``, ``weights`` and ``linearize``. Then :class:`consensus.solvers.AdaptiveNEXT` takes its
    curvature from the model instead of learning it from secants, :class:`consensus.Minibatches` draw from its samples, and
    checkpoints identify the run by its model and loss.

    Attributes
    ----------
    agents, network_size, parameters, dtype, rows, labels, regularizer, work, cache
        As in :class:`consensus.problems.BaseProblem`.
    model : Model
        The model f.
    loss : Loss
        The loss l.
    shards : Shards
        The samples; the padding of smaller shards is zeros of weight zero.
    weights : ndarray (agents, most)
        Factors of the samples' losses.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> shards = consensus.Shards.from_list([([[1.0]], [0.0]), ([[2.0]], [0.0]), ([[4.0]], [0.0])])
    >>> problem = consensus.Problem(consensus.Linear(1, bias=False), consensus.SquaredLoss(), shards)
    >>> outputs, linearization = problem.linearize(np.array([[1.0], [1.0], [3.0]]), slice(1, 3))
    >>> outputs.ravel().tolist(), linearization.jvp(np.ones((2, 1))).ravel().tolist()
    ([2.0, 12.0], [2.0, 4.0])
    """

    agents: int
    network_size: int
    parameters: int
    dtype: np.dtype
    rows: Int[np.ndarray, " agents"]
    labels: tuple[Hashable, ...] | None
    regularizer: Regularizer
    work: Work
    cache: Cache

    model: ModelDefaults
    loss: Loss
    shards: Shards
    weights: Float[np.ndarray, "agents most"]

    def linearize(
        self, w: Float[np.ndarray, "agents P"], rows: slice
    ) -> tuple[Float[np.ndarray, "block most outputs"], Linearization]:
        """Return outputs and their linearization at w for some agents; several threads call it, each for rows of its own.

        Parameters
        ----------
        w : ndarray (agents, P)
            The points of all agents held here.
        rows : slice
            The agents.

        Returns
        -------
        outputs : ndarray (agents in rows, samples, outputs)
            The outputs f(w, x).
        linearization : Linearization
            Products with the Jacobian of f.
        """


def check_convex(who: str, loss: Loss) -> None:
    """Raise ``TypeError`` if a loss that ``who`` needs to be convex need not be."""
    if not loss.convex:
        raise TypeError(
            f"{who} needs a convex loss, and {loss} need not be convex: take a solver that uses gradients only, such as "
            "GradientTracking(0.1) or NEXT(FullLinearization(tau), step_size)"
        )


def has_model(problem: BaseProblem) -> TypeGuard[Linearizable]:
    """Return whether a problem is :class:`Linearizable`.

    Parameters
    ----------
    problem : BaseProblem
        The problem.

    Returns
    -------
    bool
        True if it has ``linearize``.

    Examples
    --------
    >>> import consensus
    >>> from consensus.problems import has_model
    >>> has_model(consensus.Problem.from_functions(lambda w: 0 * w[:, 0], lambda w: 0 * w, agents=2, parameters=1))
    False
    """
    return problem.linearize is not None
