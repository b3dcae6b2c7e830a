"""Counts of messages and work, and their totals over the network."""

from collections.abc import Sequence
from typing import Any

import numpy as np

NAMES = ("exchanges", "messages", "floats", "bytes", "gradients", "samples", "solves", "iterations", "unfinished")
BETWEEN_HOSTS = "bytes_between_hosts"  # only where agents are on several machines
# The others are the same in all blocks.
_SUMMED = ("messages", "floats", "bytes", BETWEEN_HOSTS, "samples", "iterations", "unfinished")


def total(counts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of the network from those of its blocks of agents.

    Parameters
    ----------
    counts : sequence of dict
        Counts of each block by name, in the order of the agents.

    Returns
    -------
    dict
        Sums over the blocks, or the common value of counts that are those of each agent.

    Examples
    --------
    >>> from consensus.observe import total
    >>> total([{"exchanges": 3, "messages": 10}, {"exchanges": 3, "messages": 14}])
    {'exchanges': 3, 'messages': 24}
    """
    whole = {name: sum(block[name] for block in counts) if name in _SUMMED else first for name, first in counts[0].items()}
    return whole | ({"traffic": np.concatenate([block["traffic"] for block in counts])} if "traffic" in whole else {})
