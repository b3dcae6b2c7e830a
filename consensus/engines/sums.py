"""Sums over all agents of a graph that stands still, through hubs."""

from typing import TYPE_CHECKING

import numpy as np

from consensus.engines.hubs import Hubs
from consensus.packing.multiples import Multiples, largest, length

if TYPE_CHECKING:
    from consensus.engines.known import Known


def rows(network: "Known", hubs: Hubs, own: np.ndarray) -> np.ndarray:
    """The sum (n,) of all agents' rows, for ``network.sum``."""
    sums = network._all_rows(own.astype(network.dtype, copy=False)).copy()
    hubs.add_up(sums)
    network._count(hubs.messages(network.rows) * sums.shape[1])
    total: np.ndarray = sums[hubs.hubs].sum(axis=0)
    return total


def multiples(network: "Known", hubs: Hubs, own: Multiples) -> tuple[np.ndarray, np.ndarray]:
    """The sum of all agents' blocks, and their steps, for ``network.total``."""
    everyone = _everyone(network, own)
    values, step = np.ascontiguousarray(everyone.values), everyone.step  # those of messages lie column by column
    agents, parameters, _ = values.shape
    least, sums = step.copy(), values.reshape(agents, -1)
    hubs.add_up(sums)
    for parents, starts, level in hubs.levels():
        with np.errstate(invalid="ignore"):  # of a block that is lost
            least[parents] = np.minimum(least[parents], np.minimum.reduceat(least[level], starts))
    sizes = length(np.rint(np.nan_to_num(largest(values) / least[:, None])), parameters)
    if len(hubs.hubs) < agents:  # beside its step every sum has that of the squares of all steps in it
        sizes += 8
    here, hub = slice(network.rows.start, network.rows.stop), hubs.among(network.rows)
    up, down = int(sizes[here][~hub].sum()), len(hub) * int(sizes[hubs.hubs].sum()) - int(sizes[here][hub].sum())
    network._count(hubs.messages(network.rows) * sums.shape[1], up + down)
    return values[hubs.hubs].sum(axis=0), step


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
