"""Estimated costs of the ways to solve a local problem, from shapes alone."""

import math
from typing import NamedTuple

import numpy as np

from consensus._parallel import CHUNK_BYTES
from consensus.problems.linearizable import Linearizable
from consensus.regularizers.base import Regularizer

PASS = 30  # what reading and writing a number once costs, in the multiply-adds of a matrix product
LARGEST = 1 << 27  # numbers in a matrix that is worth forming
_FORMED = 1 << 24  # and in a J that saves passes through the model
_SMALL = 1 << 16  # numbers in an agent's R, and in its matrices, below which agents are worked in batches
_TOGETHER = 3  # agents that share Python's calls, which take a quarter of the time with 200 samples each, a tenth with 500
_ROOM = 1 << 25  # bytes that these may take
_ITERATIONS = 55  # of conjugate gradients, as seen on networks with tau near the loss's scale


class Estimate(NamedTuple):
    """The estimated cost for one agent: ``operations`` (multiply-adds), and ``numbers`` in its arrays.

    Chunks of up to ``together`` agents may exceed a core's cache.
    """

    operations: float
    numbers: int
    together: int = 1

    def of_agent(self, dtype: np.dtype) -> tuple[int, float, int]:
        """Return ``(bytes, operations, streamed)`` for :func:`consensus._parallel.for_chunks`."""
        size = self.numbers * dtype.itemsize
        together = max(1, min(self.together, _ROOM // max(1, size)))
        return size, self.operations, max(0, size - CHUNK_BYTES // together) if together > 1 else 0


def batched(n: int, parameters: int) -> bool:
    """Return whether proximal problems of these shapes are solved in batches of agents; others are one by one."""
    return n * parameters <= _SMALL and min(n, parameters) ** 2 <= _SMALL


def forms_jacobian(problem: Linearizable) -> bool:
    """Return whether local solves take J itself: else every product would begin with a pass through the model."""
    model, samples = problem.model, problem.shards.features.shape[1]
    return not hasattr(model, "linearize") and samples * model.outputs * problem.parameters < _FORMED


def estimates(problem: Linearizable, regularizer: Regularizer, columns: int, dense: bool) -> dict[str, Estimate]:
    """Estimate the cost for an agent of each way to solve for ``columns`` of its parameters.

    From shapes alone, so that the choice is the same on every engine; ``experiments.benchmarks.choice`` compares it with the
    clock. ``dense`` says that these columns of J are formed in any case.
    """
    model, loss = problem.model, problem.loss
    samples, *features = problem.shards.features.shape[1:]
    n, P = samples * model.outputs, columns
    widths = getattr(model, "widths", (math.prod(features), model.outputs))
    systems = 1 if loss.quadratic else 6  # Newton's method solves several, the first ones roughly
    cholesky = 1.35 / 3  # n^3/3 at three quarters of the product's speed
    iterations = _ITERATIONS * (1 + model.outputs / 12)  # more outputs, more large eigenvalues
    formed = n * P if dense else 0
    product = 4 * n * P if dense else 5 * samples * P + 100 * samples * sum(widths[1:]) + 250 * P + 2.5e6
    costs = {"iterative": Estimate(iterations * (0.7 + 0.3 * systems) * product, 4 * samples * sum(widths) + 8 * P + formed)}
    if not regularizer.quadratic:
        few = min(n, P)
        alone = 0 if batched(n, P) else CHUNK_BYTES  # numbers enough for a chunk of one agent
        return {"iterative": Estimate(10 * systems * (product + n * P * few), max(2 * n * P, alone))}
    if (dense or hasattr(model, "jacobian")) and max(P * P, n * P) < LARGEST:
        operations = systems * (n * P * P + cholesky * P**3 + PASS * (2 * n * P + 2 * P * P))
        costs["primal"] = Estimate(operations, 2 * n * P + 2 * P * P, _TOGETHER)
    if (dense or hasattr(model, "gram")) and n * n < LARGEST:
        form = n * n * P if dense else samples**2 * sum(widths[:-1]) + n**2 * sum(widths[1:-1])
        operations = form + 2 * PASS * len(widths) * n**2 + systems * (cholesky * n**3 + 3 * PASS * n**2)
        costs["dual"] = Estimate(operations, 4 * n * n + formed, _TOGETHER)
    return costs
