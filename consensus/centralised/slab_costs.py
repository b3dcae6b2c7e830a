"""Costs of a gradient by :class:`LayerParallel`, from formulas."""

import itertools
from typing import NamedTuple

import numpy as np

from consensus.costs import Load


class SlabWork(NamedTuple):
    """The sizes on which the work of a gradient depends: those of the network, its slabs and its levels, and ``samples``."""

    layers: int
    width: int
    workers: int
    coarsening: int
    levels: int
    iterations: int
    samples: int

    @property
    def counts(self) -> list[int]:
        """A slab's steps on every level."""
        return [self.layers // self.workers // self.coarsening**level for level in range(self.levels)]

    def steps(self, iterations: int, cold: bool) -> int:
        """Return how many steps follow each other in a pass.

        An iteration goes twice through a level that has a next one, computes the next one's sources and, but on the finest
        level, renews the states between corners. Slab after slab marches through the last level. In the end all steps of the
        finest level are taken once more.
        """
        counts = self.counts
        fill = sum(count - coarse for count, coarse in itertools.pairwise(counts[1:]))
        march = self.workers * counts[-1]
        cycle = sum(2 * count + coarse for count, coarse in itertools.pairwise(counts)) + fill + march
        return iterations * cycle + (fill + march if cold else 0) + counts[0]

    def messages(self, cold: bool) -> int:
        """Return how many states a slab that has a next one sends it in a pass: one a level and iteration."""
        return self.iterations * self.levels + cold

    def load(self, itemsize: int, cold: bool) -> Load:
        """Return what follows one another in a gradient, forward and backward."""
        size, counts = self.samples * self.width, self.counts
        marches = (self.iterations + cold) * (self.workers - 1)
        swaps = self.iterations * (self.levels - 1) if self.workers > 1 else 0
        # Backward, slopes of the activation are computed on all levels but the first, and the gradient of each layer.
        steps = 2 * self.steps(self.iterations, cold) + sum(counts[1:]) + counts[0]
        return Load(
            exchanges=np.array([2 * (marches + swaps)]),
            bytes=np.array([2 * (marches + 2 * swaps) * size * itemsize]),
            flops=np.array([2.0 * size * self.width * steps]),
            waits=float(self.workers),
            adds=np.array([float((self.levels - 1) * counts[0] * self.width * (self.width + 1))]),  # coarse levels' W and b
        )
