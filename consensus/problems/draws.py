"""Sums over samples of models that draw random numbers or normalise batches, agent by agent."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from consensus.models import Model
from consensus.problems.batch import Batch


def by_agent(function: Callable[..., None], model: Model, batch: Batch | None) -> Callable[..., None]:
    """Return ``function(x, d, c, *rest)`` for agents one by one, as a function of ``(x, d, c, numbers, *rest)``.

    ``numbers`` (agents,) are those of the agents in the network. Each call gets the keyword ``model``, with the random numbers
    of this agent and the batch's draw, and no padding: what is drawn depends on the shapes of arrays, which must not depend on
    how agents are spread over chunks and processes. With all samples, batch None, that is in evaluation mode but for batch
    normalisation, which is by the samples of the call in both.
    """
    draw, drawn, normalises = getattr(batch, "draw", None), cast(Any, model).drawn, has_buffers(model)
    if batch is not None and draw is None and getattr(model, "stochastic", False):
        raise ValueError(
            f"batch must have the number of its draw, as NumberedBatch.of(indices, weights, round), because {model} draws "
            "random numbers: take consensus.Minibatches(32).at(problem, round), or call module.eval() first"
        )

    def of_each(x: np.ndarray, d: np.ndarray, c: np.ndarray, numbers: np.ndarray, *rest: object) -> None:
        for place, agent in enumerate(numbers.tolist()):
            used = np.flatnonzero(c[place])
            one, end = slice(place, place + 1), used[-1] + 1 if len(used) else 1
            if normalises and len(used) < cast(Any, model).least:
                raise ValueError(
                    f"agent {agent} has a batch of one sample, and {model} normalises two or more: give every agent more, and "
                    "batches whose last one in an epoch is none of a single sample, or Minibatches(size, replacement=True)"
                )
            own = used if normalises and len(used) < end else slice(0, end)  # samples without weight are no part of a batch
            others = [part[one] if isinstance(part, np.ndarray) else part for part in rest]
            called = cast(Any, model).normalised() if batch is None else drawn(agent, draw or 0)
            samples = (x, d, c) if isinstance(x, list) else (x[one, own], d[one, own], c[one, own])  # a collated one has none
            function(*samples, *others, model=called)

    return of_each


def has_buffers(model: object) -> bool:
    """Return whether a model has batch normalisation in training, whose statistics evaluation needs as buffers."""
    return getattr(model, "buffers", None) is not None
