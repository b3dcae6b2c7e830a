"""How many agents a call for several may have without changing their bits."""

from collections.abc import Callable

import numpy as np


def most_together(products: Callable[..., tuple[np.ndarray, ...]], most: int, parameters: int, shapes, outputs: int) -> int:
    """The largest number of agents, at most ``most``, up to which ``products(w, x, u, v)`` has the bits of each one doubled.

    Libraries choose how to add by the shapes of a whole call: random numbers show where they begin to do it in another way.
    One, if that is at three already, or if agents cannot be worked together at all.
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
