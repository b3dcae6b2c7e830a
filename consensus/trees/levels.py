"""The centre of a graph, and the levels of a tree from there."""

import numpy as np
import scipy.sparse as sp


def centre(links: sp.csr_array) -> tuple[int, int]:
    """Return the least eccentricity of the graph with these links, and the first agent that has it."""
    agents = links.shape[0]
    bits = -(-agents // 64) * 64  # of whole words
    everything = np.packbits(np.arange(bits) < agents).view(np.uint64)
    received, distance = np.packbits(np.eye(agents, bits, dtype=bool), axis=1).view(np.uint64), 0
    while not (done := (received == everything).all(axis=1)).any():
        before, received = received, np.bitwise_or.reduceat(received[links.indices], links.indptr[:-1])
        if (received == before).all():
            raise ValueError("a spanning tree needs an undirected, connected graph, and this one is not connected")
        distance += 1
    return distance, int(done.argmax())


class Levels:
    """A matrix for each of the tree's exchanges: from the lowest level up to the root, then down again."""

    def __init__(self, depth: int, parent: np.ndarray, level: np.ndarray) -> None:
        self.agents, self._depth, self._parent, self._level = len(parent), depth, parent, level

    def key(self, round: int) -> int:
        return round

    def weights(self, key: int) -> sp.csr_array:
        """Up: the identity and an entry (parent, child) for each child of a level. Down: a child's row is its parent's."""
        up, everyone = key < self._depth, np.arange(self.agents)
        among = self._level == (self._depth - key if up else key - self._depth + 1)
        if up:
            rows, columns = np.r_[everyone, self._parent[among]], np.r_[everyone, everyone[among]]
        else:
            rows, columns = everyone, np.where(among, self._parent, everyone)
        matrix = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(self.agents, self.agents))
        matrix.sort_indices()
        return matrix
