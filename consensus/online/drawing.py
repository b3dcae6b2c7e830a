"""Solvers whose gradients are of the costs of their round, or are drawn for it."""

from __future__ import annotations

import numpy as np

from consensus.problems import NumberedBatch


def batch_of(agents: int, round: int) -> NumberedBatch:
    """Return a batch without samples, which says of which round a gradient is."""
    return NumberedBatch.of(np.zeros((agents, 0), np.intp), np.zeros((agents, 0)), round)


def draws(solver: object) -> bool:
    """Return whether all gradients of a solver, perhaps inside ``Gossip``, are of its round."""
    from consensus.solvers import DGD, Gossip, GradientTracking, Subgradient

    inner = solver
    while isinstance(inner, Gossip):
        inner = inner.solver
    return isinstance(inner, DGD | GradientTracking | Subgradient) and inner.batch is None
