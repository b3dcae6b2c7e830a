"""The busiest of the machines that share a network's agents."""

from collections.abc import Sequence

import numpy as np

from topologies.schedules import ScheduleLike

_ROUNDS = 8  # whose graphs, the first, stand for a schedule's


def busiest(schedule: ScheduleLike, blocks: Sequence[slice]) -> tuple[float, float]:
    """Return the busiest machine's share of all messages, if edges carry equally many, and how many machines it waits for."""
    machines = len(blocks)
    of = np.repeat(np.arange(machines), [rows.stop - rows.start for rows in blocks])
    moved, received, messages = np.zeros(machines), np.zeros(machines), 0
    keys = [schedule.key(round) for round in range(_ROUNDS)]
    for key in keys:
        matrix = schedule.weights(key).tocoo()
        receiver, sender = (index[matrix.row != matrix.col] for index in (matrix.row, matrix.col))
        messages += len(sender)
        across = of[receiver] != of[sender]
        # A row goes to another machine once, however many of its agents need it.
        pairs = np.unique(np.stack([sender[across], of[receiver[across]]]), axis=1)
        moved += np.bincount(of[pairs[0]], minlength=machines) + np.bincount(pairs[1], minlength=machines)
        joined = np.unique(np.stack([of[receiver[across]], of[sender[across]]]), axis=1)
        received += np.bincount(joined[0], minlength=machines)
    return float(moved.max() / max(1, messages)), 1 + float(received.max()) / len(keys)
