"""The number of agents that share a call without changing their bits."""

from collections.abc import Callable

import numpy as np


def most_together(
    products: Callable[..., tuple[np.ndarray, ...]],
    most: int,
    parameters: int,
    shapes: tuple[tuple[int, ...], int, np.dtype],
    outputs: int,
) -> int:
    """Return the largest number of agents, at most ``most``, that share a call without changing each other's bits.

    Each agent's results must have the bits of a call with that agent twice. Libraries choose the order of sums by the shapes of
    a whole call, so this is tried on random numbers: ``products(w, x, u, v)`` of a block of agents, with samples whose shape,
    number and dtype are ``shapes``. The number is one if results change with three agents, or a call fails.
    """
    (features, samples, dtype), rng = shapes, np.random.default_rng(0)
    shape = (parameters,), (samples, *features), (samples, outputs), (parameters,)
    arrays = [0.3 * rng.standard_normal((most, *of_agent)).astype(dtype) for of_agent in shape]
    try:
        alone = [products(*(np.repeat(array[agent, None], 2, axis=0) for array in arrays)) for agent in range(most)]
        for count in range(2, most + 1):
            found = products(*(array[:count] for array in arrays))
            same = all(
                np.array_equal(array[agent], array_alone[0])
                for agent in range(count)
                for array, array_alone in zip(found, alone[agent], strict=True)
            )
            if not same:
                return count - 1 if count > 3 else 1
    except Exception:  # whatever the module does that only works for one agent
        return 1
    return most
