"""Blocks of consecutive agents, one for each worker."""

import itertools

import numpy as np


def blocks_of(agents: int, parts: int) -> list[slice]:
    """Return ``parts`` slices of consecutive agents, whose lengths differ by one at most.

    Examples
    --------
    >>> from consensus.workers.blocks import blocks_of
    >>> blocks_of(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    ends = [agents * part // parts for part in range(parts + 1)]
    return [slice(first, last) for first, last in itertools.pairwise(ends)]


def blocks_by_load(load: np.ndarray, workers: int) -> list[slice]:
    """Return slices of consecutive agents with about equal sums of ``load`` (agents,), the cost of each agent's gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.workers.blocks import blocks_by_load
    >>> blocks_by_load(np.array([9.0, 1.0, 1.0, 1.0]), 2)
    [slice(0, 1, None), slice(1, 4, None)]
    """
    agents, total = len(load), np.cumsum(load)
    # Padded arrays cost by their shape: agents count as much as their samples.
    total = total / total[-1] + np.arange(1, agents + 1) / agents
    ends = [0]
    for worker in range(1, workers):
        end = int(np.searchsorted(total, 2 * worker / workers)) + 1
        ends.append(min(max(end, ends[-1] + 1), agents - (workers - worker)))
    return [slice(first, last) for first, last in zip(ends, [*ends[1:], agents])]
