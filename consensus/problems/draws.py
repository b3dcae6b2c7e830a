"""Sums over samples of models that draw random numbers or normalise batches, and of losses of batches, agent by agent."""

from collections.abc import Callable
from typing import Any

import numpy as np

from consensus.losses.base import Loss
from consensus.models import Model
from consensus.problems.batch import Batch

_SIZES = 32  # that are tried, the smallest and the largest ones


def by_agent(function: Callable[..., None], model: Model, loss: object, batch: Batch | None) -> Callable[..., None]:
    """Return ``function(x, d, c, *rest)`` for agents one by one, as a function of ``(x, d, c, numbers, *rest)``.

    ``numbers`` (agents,) are those of the agents in the network. Each call gets the keyword ``model``, with the random numbers
    of this agent and the batch's draw, and no padding: what is drawn depends on the shapes of arrays, which must not depend on
    how agents are spread over chunks and processes. With all samples, batch None, that is in evaluation mode but for batch
    normalisation, which is by the samples of the call in both.
    """
    draw, normalises = getattr(batch, "draw", None), has_buffers(model)
    plain = not trains_apart(model)  # whose loss is one of a batch
    if batch is not None and draw is None and getattr(model, "stochastic", False):
        raise ValueError(
            f"batch must have the number of its draw, as NumberedBatch.of(indices, weights, round), because {model} draws "
            "random numbers: take consensus.Minibatches(32).at(problem, round), or call module.eval() first"
        )

    def of_each(x: np.ndarray, d: np.ndarray, c: np.ndarray, numbers: np.ndarray, *rest: object) -> None:
        for place, agent in enumerate(numbers.tolist()):
            used = np.flatnonzero(c[place])
            one, end = slice(place, place + 1), used[-1] + 1 if len(used) else 1
            if len(used) < (least := fewest(model, loss)):
                raise ValueError(
                    f"agent {agent} has a batch of one sample, and {needing(model, loss)} {least} or more: give every agent "
                    "more, and batches whose last one in an epoch is none of a single sample, or "
                    "Minibatches(size, replacement=True)"
                )
            several = normalises or of_batches(loss)
            own = used if several and len(used) < end else slice(0, end)  # samples without weight are no part of a batch
            others = [part[one] if isinstance(part, np.ndarray) else part for part in rest]
            called: Any = model
            if not plain and (normalises or batch is not None):
                called = called.normalised() if batch is None else called.drawn(agent, draw or 0)
            samples = (x, d, c) if isinstance(x, list) else (x[one, own], d[one, own], c[one, own])  # a collated one has none
            function(*samples, *others, model=called)

    return of_each


def trains_apart(model: object) -> bool:
    """Return whether gradients of batches are those of a training mode, of one agent at a time."""
    return getattr(model, "stochastic", False) or getattr(model, "apart", False) or has_buffers(model)


def of_batches(loss: object) -> bool:
    """Return whether a loss is one of all samples of an agent's batch together, of which padding is no part."""
    return getattr(loss, "over", "samples") == "batch"


def check_sizes(loss: Loss, sizes: list[int], targets: np.ndarray, outputs: int) -> None:
    """Raise ``ValueError`` if a loss of a batch fails on batches of some sizes, as one of pairs does on odd ones."""
    for size in sizes if len(sizes) <= _SIZES else [*sizes[: _SIZES // 2], *sizes[-_SIZES // 2 :]]:
        f, d = np.random.default_rng(0).random((size, outputs)), np.resize(targets, (size, *targets.shape[1:])).astype(float)
        try:
            loss.value(f, d)
        except Exception as error:
            raise ValueError(
                f"{loss} fails on a batch of {size} samples: {type(error).__name__}: {error}; agents have batches of {sizes}: "
                "let it take any number, or give every agent a multiple of the batch"
            ) from error


def fewest(model: object, loss: object) -> int:
    """Return how many samples a batch needs, of a model that normalises them or a loss of a batch; 1 of others."""
    return max(getattr(model, "least", 1) if has_buffers(model) else 1, getattr(loss, "least", 1) if of_batches(loss) else 1)


def needing(model: object, loss: object) -> str:
    """Return what needs so many samples, as the subject of a sentence and its verb."""
    return f"{model} normalises" if has_buffers(model) else f"{loss} is a loss of"


def has_buffers(model: object) -> bool:
    """Return whether a model has batch normalisation in training, whose statistics evaluation needs as buffers."""
    return getattr(model, "buffers", None) is not None
