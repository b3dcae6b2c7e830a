"""Trees of shortest ways on a graph that stands still."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order


class Tree(NamedTuple):
    """The tree of shortest ways from the graph's centre, an agent whose news arrives first everywhere.

    Fields: the ``depth``, the centre's eccentricity; the agents in the ``order`` of their distance, the centre first; from whom
    each hears of the centre, its ``parent`` (agents,).

    Examples
    --------
    >>> import topologies
    >>> from consensus.engines.trees import Tree
    >>> tree = Tree.of(topologies.metropolis(topologies.path(5)))
    >>> tree.depth, tree.order[0].item(), tree.parent[[0, 4]].tolist()
    (2, 2, [1, 3])
    """

    depth: int
    order: np.ndarray
    parent: np.ndarray

    @classmethod
    def of(cls, matrix: sp.csr_array) -> "Tree | None":
        """That of the graph of a mixing matrix; None where links do not go both ways, or not everyone hears from everyone."""
        agents = matrix.shape[0]
        links = sp.csr_array(abs(matrix) + sp.eye_array(agents))
        if ((links != 0) != (links.T != 0)).nnz:
            return None
        bits = -(-agents // 64) * 64  # of whole words
        everything = np.packbits(np.arange(bits) < agents).view(np.uint64)
        heard, distance = np.packbits(np.eye(agents, bits, dtype=bool), axis=1).view(np.uint64), 0
        while not (done := (heard == everything).all(axis=1)).any():
            before, heard = heard, np.bitwise_or.reduceat(heard[links.indices], links.indptr[:-1])
            if (heard == before).all():
                return None
            distance += 1
        order, parent = breadth_first_order(links, int(done.argmax()), directed=False)
        return cls(distance, order, parent)
