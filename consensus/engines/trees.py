"""Sums over all agents of a graph that stands still, along trees."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

from consensus.packing.multiples import Multiples, largest, length

if TYPE_CHECKING:
    from consensus.engines.known import Known


class Tree(NamedTuple):
    """The tree of shortest ways from the graph's centre, an agent whose news arrives first everywhere.

    Fields: the ``depth``, the centre's eccentricity; the agents in the ``order`` of their distance, the centre first; from whom
    each hears of the centre, its ``parent`` (agents,).

    Examples
    --------
    >>> import topologies
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

    def levels(self) -> list[np.ndarray]:
        """All but the centre: those as far from it as one another together, sorted by parents; the farthest first."""
        levels, distance = [], np.zeros(len(self.order), int)
        for agent in self.order[1:].tolist():
            distance[agent] = distance[self.parent[agent]] + 1
        for far in range(self.depth, 0, -1):
            level = np.flatnonzero(distance == far)
            levels.append(level[np.argsort(self.parent[level], kind="stable")])
        return levels


def total(network: "Known", tree: Tree, own: Multiples, exchanges: int) -> tuple[np.ndarray, np.ndarray]:
    """The sum of all agents' blocks, and their steps, as all know them after ``exchanges``, for ``network.total``."""
    everyone = _everyone(network, own)
    values, step = np.ascontiguousarray(everyone.values), everyone.step  # those of messages lie column by column
    agents, parameters, columns = values.shape
    numbers = parameters * columns
    if 2 * tree.depth > exchanges:
        copies, here = agents - 1, own.bytes
        network._count(copies * len(here) * numbers, copies * int(here.sum()))
        return values.sum(axis=0), step
    # Up: an agent sends on what came from its children, with its own block added; then the whole comes down as it is.
    least, flat = step.copy(), values.reshape(agents, numbers)
    for level in tree.levels():
        parents, starts = np.unique(tree.parent[level], return_index=True)
        with np.errstate(invalid="ignore"):  # of a block that is lost
            least[parents] = np.minimum(least[parents], np.minimum.reduceat(least[level], starts))
        ends = np.append(starts, len(level))
        flat[parents] += sp.csr_array((np.ones(len(level)), level, ends), shape=(len(parents), agents)) @ flat
    top = largest(values)
    # Beside its step every sum has that of the squares of all steps in it.
    sizes = 8 + length(np.rint(np.nan_to_num(top / least[:, None])), parameters)
    centre = tree.order[0]
    children = np.arange(network.rows.start, network.rows.stop)
    children = children[children != centre]
    network._count(2 * len(children) * numbers, int(sizes[children].sum()) + len(children) * int(sizes[centre]))
    return values[centre], step


def _everyone(network, own):
    """The blocks of all agents, from the messages of those held here."""
    if len(own.step) == network.agents:
        return own
    messages = own.messages()
    lengths = network._all_rows(np.array([[len(message)] for message in messages]))[:, 0]
    padded = np.zeros((len(messages), lengths.max()), np.uint8)
    for row, message in zip(padded, messages, strict=True):
        row[: len(message)] = message
    rows = network._all_rows(padded)
    return Multiples.of_messages([row[:size] for row, size in zip(rows, lengths, strict=True)], *own.codes.shape[1:])
