"""Gradients of models that draw random numbers, as those with dropout do."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from consensus.models import Model
from consensus.problems.batch import Batch


def by_agent(function: Callable[..., None], model: Model, batch: Batch) -> Callable[..., None]:
    """Return ``function(x, d, c, *rest)`` for agents one by one, as a function of ``(x, d, c, numbers, *rest)``.

    ``numbers`` (agents,) are those of the agents in the network. Each call gets the keyword ``model``, with the random numbers
    of this agent and the batch's draw, and no padding: what is drawn depends on the shapes of arrays, which must not depend on
    how agents are spread over chunks and processes.
    """
    draw, drawn = getattr(batch, "draw", None), cast(Any, model).drawn
    if draw is None:
        raise ValueError(
            f"batch must have the number of its draw, as NumberedBatch.of(indices, weights, round), because {model} draws "
            "random numbers: take consensus.Minibatches(32).at(problem, round), or call module.eval() first"
        )

    def of_each(x: np.ndarray, d: np.ndarray, c: np.ndarray, numbers: np.ndarray, *rest: object) -> None:
        for place, agent in enumerate(numbers.tolist()):
            used = np.flatnonzero(c[place])
            one, own = slice(place, place + 1), slice(0, used[-1] + 1 if len(used) else 1)
            others = [part[one] if isinstance(part, np.ndarray) else part for part in rest]
            samples = (x, d, c) if isinstance(x, list) else (x[one, own], d[one, own], c[one, own])  # a collated one has none
            function(*samples, *others, model=drawn(agent, draw))

    return of_each
