"""Digests of agents' samples, by which checkpoints know the data."""

import hashlib

import numpy as np

from consensus._arrays.sparse import SparseRows
from consensus.data.shards import Shards


def digests(shards: Shards) -> list[str]:
    """Return a digest of each agent's features and targets, and of its weights unless all are one."""
    found = []
    for x, d, weights in zip(shards.features, shards.targets, shards.weights, strict=True):
        own = weights > 0
        arrays = [d[own]] if (weights[own] == 1).all() else [d[own], weights[own]]
        if isinstance(shards.features, SparseRows):
            rows = x[own]
            arrays = [rows.data, *(places.astype(np.int64) for places in (rows.indices, rows.indptr)), *arrays]
        else:
            arrays = [x[own], *arrays]
        found.append(hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest())
    return found
