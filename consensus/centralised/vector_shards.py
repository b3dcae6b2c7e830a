"""Parameter shards that hold L-BFGS's history and do its vector operations."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from consensus.workers.shared_memory import SharedArray


class Vectors(NamedTuple):
    """The vectors of a run in shared memory: each shard works on its slice.

    Attributes
    ----------
    x, g : SharedArray (P,)
        Iterate, and gradient there.
    d : SharedArray (P,)
        Direction.
    trial : SharedArray (P,)
        Gradient at the trial point.
    s, y : SharedArray (m, P)
        Steps, and changes of the gradient.
    point : SharedArray (1, P)
        Trial point.
    slots : SharedArray (slots, P)
        Gradients of the portions, which the replicas write.
    """

    x: SharedArray
    g: SharedArray
    d: SharedArray
    trial: SharedArray
    s: SharedArray
    y: SharedArray
    point: SharedArray
    slots: SharedArray

    @classmethod
    def of(cls, parameters: int, memory: int, slots: int, dtype: np.dtype) -> "Vectors":
        """Return vectors of P ``parameters``, for ``memory`` pairs s, y."""
        shapes = [(parameters,)] * 4 + [(memory, parameters)] * 2 + [(1, parameters), (slots, parameters)]
        return cls(*(SharedArray(shape, dtype) for shape in shapes))


class VectorShard(NamedTuple):
    """The shard with the slice ``part`` of all ``vectors``."""

    vectors: Vectors
    part: slice

    def begin(self) -> Callable[..., object]:
        """Return ``order(name, *arguments)``, which does the vector operation of that name."""
        x, g, d, trial, s, y, point, slots = (shared.array[..., self.part] for shared in self.vectors)

        def gram(places: Sequence[int]) -> np.ndarray:
            """Return all inner products of s, y, at the ``places``, and g."""
            basis = np.concatenate([s[places], y[places], g[None]]).astype(np.float64)
            products: np.ndarray = basis @ basis.T
            return products

        def direct(places: Sequence[int], coefficients: np.ndarray) -> None:
            """Set ``d``, the sum of coefficients times s, y, at the places, and g."""
            d[...] = coefficients @ np.concatenate([s[places], y[places], g[None]])

        def move(step: float) -> None:
            """Set ``point = x + step d``."""
            point[0] = x + step * d

        def gather(places: Sequence[int]) -> float:
            """Set the gradient at the point, the sum of ``slots``; return its product with d."""
            trial[...] = slots[places].sum(axis=0)
            return float(trial @ d)

        def accept(place: int | None) -> None:
            """Go to the point; store the step and the change of the gradient at ``place``, if one is given."""
            if place is not None:
                s[place], y[place] = point[0] - x, trial - g
            x[...], g[...] = point[0], trial

        orders: dict[str, Callable[..., object]]
        orders = {"gram": gram, "direct": direct, "move": move, "gather": gather, "accept": accept}
        return lambda name, *arguments: orders[name](*arguments)


def two_loops(gram: np.ndarray) -> np.ndarray:
    """Return the coefficients of L-BFGS's direction in s_1 .. s_k, y_1 .. y_k, g, from their inner products (2k + 1, 2k + 1).

    The two loops of L-BFGS on coefficients instead of vectors; without any pair the direction is ``-g / |g|``. See Chen, Wang,
    Zhou, "Large-scale L-BFGS using MapReduce", NeurIPS 2014.
    """
    pairs = len(gram) // 2
    q = np.zeros(len(gram))
    q[-1] = -1.0
    if not pairs:
        q[-1] /= np.sqrt(gram[-1, -1])
        return q
    alpha = np.zeros(pairs)
    for k in reversed(range(pairs)):
        alpha[k] = (q @ gram[:, k]) / gram[k, pairs + k]
        q[pairs + k] -= alpha[k]
    newest = pairs - 1
    q *= gram[newest, pairs + newest] / gram[pairs + newest, pairs + newest]
    for k in range(pairs):
        beta = (q @ gram[:, pairs + k]) / gram[k, pairs + k]
        q[k] += alpha[k] - beta
    return q
