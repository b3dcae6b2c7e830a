"""Memory that workers share with the process that asks them for passes through a network."""

from typing import NamedTuple, Self

import numpy as np

from consensus.workers.shared_memory import SharedArray


class PassMemory(NamedTuple):
    """Memory of which each worker reads and writes its own part.

    Attributes
    ----------
    w, gradient : SharedArray (P,)
        Parameters, and their gradient.
    x : SharedArray (samples, features)
        Features.
    outputs, u : SharedArray (samples, outputs)
        Outputs, and their cotangents.
    """

    w: SharedArray
    gradient: SharedArray
    x: SharedArray
    outputs: SharedArray
    u: SharedArray

    @classmethod
    def of(cls, parameters: int, features: int, outputs: int, samples: int, dtype: np.dtype) -> Self:
        """Return memory for so many ``samples`` at a time."""
        shapes = (parameters,), (parameters,), (samples, features), (samples, outputs), (samples, outputs)
        return cls(*(SharedArray(shape, dtype) for shape in shapes))
