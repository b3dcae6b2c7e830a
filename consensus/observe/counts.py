"""What was sent and computed, by name, and how the counts of blocks become the network's."""

from collections.abc import Sequence
from typing import Any

import numpy as np

NAMES = ("exchanges", "messages", "floats", "bytes", "gradients", "samples", "solves", "iterations", "unfinished")
_SUMMED = ("messages", "floats", "bytes", "samples", "iterations", "unfinished")  # over blocks; the others are the same for all


def total(counts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The network's counts, from those of all its blocks in the agents' order.

    Examples
    --------
    >>> from consensus.observe import total
    >>> total([{"exchanges": 3, "messages": 10}, {"exchanges": 3, "messages": 14}])
    {'exchanges': 3, 'messages': 24}
    """
    whole = {name: sum(block[name] for block in counts) if name in _SUMMED else first for name, first in counts[0].items()}
    return whole | ({"traffic": np.concatenate([block["traffic"] for block in counts])} if "traffic" in whole else {})
