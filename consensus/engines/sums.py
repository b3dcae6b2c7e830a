"""Sums over all agents of a graph that stands still, through hubs."""

from typing import TYPE_CHECKING

import numpy as np

from consensus.engines.hubs import Hubs
from consensus.packing.multiples import Multiples, largest, length

if TYPE_CHECKING:
    from consensus.engines.known import Known


def rows(network: "Known", hubs: Hubs, own: np.ndarray) -> np.ndarray:
    """The sum (n,) of all agents' rows, for ``network.sum``."""
    everyone = network._all_rows(own.astype(network.dtype, copy=False))
    sums = hubs.add_up(lambda agents: everyone[agents], everyone.shape[1], network.dtype)
    network._count(hubs.messages(network.rows) * everyone.shape[1])
    network._traffic += hubs.traffic(np.full(network.agents, everyone.shape[1] * network.dtype.itemsize))[network.rows]
    total: np.ndarray = sums.sum(axis=0)
    return total


def multiples(network: "Known", hubs: Hubs, own: Multiples) -> tuple[np.ndarray, np.ndarray]:
    """The sum of all agents' blocks, and their steps, for ``network.total``."""
    everyone = _everyone(network, own)
    codes, step = everyone.codes, everyone.step
    agents, parameters, columns = codes.shape
    least = step.copy()
    for level in hubs.levels[:-1]:
        parents = hubs.parent[level.agents[level.begins[:-1]]]
        least[parents] = np.minimum(least[parents], np.minimum.reduceat(least[level.agents], level.begins[:-1]))
    sizes = np.full(agents, 8 * (len(hubs.hubs) < agents))  # beside its step a sum has that of the squares of all steps in it

    def values(some):
        found = codes.take(some, axis=0).reshape(len(some), -1)
        return np.multiply(found, step[some, None], out=found)

    def sent(some, sums):
        most = largest(sums.reshape(-1, parameters, columns)) / least[some, None]
        sizes[some] += length(np.rint(np.fmax(most, 0)), parameters)  # NaN, of a block that is lost, takes none

    sums = hubs.add_up(values, parameters * columns, np.dtype(float), sent)
    here, hub = slice(network.rows.start, network.rows.stop), hubs.among(network.rows)
    up, down = int(sizes[here][~hub].sum()), len(hub) * int(sizes[hubs.hubs].sum()) - int(sizes[here][hub].sum())
    network._count(hubs.messages(network.rows) * sums.shape[1], up + down)
    network._traffic += hubs.traffic(sizes)[network.rows]
    return sums.reshape(-1, parameters, columns).sum(axis=0), step


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
