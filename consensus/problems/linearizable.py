"""What a problem has besides, if its costs are those of a model."""

from typing import Protocol, TypeGuard

import numpy as np

from consensus.data import Shards
from consensus.losses.base import Loss
from consensus.models.base import Linearization, Model
from consensus.problems.base import BaseProblem
from consensus.problems.cache import Cache
from consensus.problems.work import Work
from consensus.regularizers.base import Regularizer


class Linearizable(Protocol):
    """A problem whose costs are ``g_i(w) = sum_m weights_m l(f(w, x_m), d_m)``: its model can be linearised inside the loss.

    :class:`consensus.Problem` is one. A class of one's own, derived from :class:`consensus.problems.BaseProblem`, becomes one
    by the last five members below: :func:`has_model` tells by ``linearize``. Then :class:`consensus.solvers.AdaptiveNEXT` takes
    its curvature from the model, where it otherwise learns it from secants, :class:`consensus.Minibatches` draw from its
    samples, and checkpoints know the run by its model and loss. The first members are those of every problem.

    Blocks of agents are worked in several threads, so that ``linearize`` is called by several at the same time, each with rows
    of its own. Samples that fill up smaller shards are zeros and have weight zero.
    """

    agents: int
    network_size: int
    parameters: int
    dtype: np.dtype
    rows: np.ndarray
    regularizer: Regularizer
    work: Work
    cache: Cache

    model: Model
    loss: Loss
    shards: Shards
    weights: np.ndarray  #: (agents, most): what the loss of each sample is multiplied by

    def linearize(self, w: np.ndarray, rows: slice) -> tuple[np.ndarray, Linearization]:
        """Outputs (agents, samples, outputs) and their linearization at w (agents here, P), for the agents ``rows``."""


def has_model(problem: BaseProblem) -> TypeGuard[Linearizable]:
    """Whether ``problem`` is :class:`Linearizable`.

    Examples
    --------
    >>> import consensus
    >>> from consensus.problems import has_model
    >>> has_model(consensus.Problem.from_functions(lambda w: 0 * w[:, 0], lambda w: 0 * w, agents=2, parameters=1))
    False
    """
    return hasattr(problem, "linearize")
