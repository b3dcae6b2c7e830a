"""What the exchanges of a round tell of the network's curvature."""

from typing import Any, NamedTuple

import numpy as np

from consensus.solvers.adaptive.damping import Damping
from consensus.solvers.adaptive.quadratic import Quadratic


class News(NamedTuple):
    """After the exchanges of a round.

    Fields: how many ``exchanges`` a round takes; the ``sums`` of what was mixed or summed with the trackers, and of what was
    mixed in few bits, ``rounded``; the last ``step`` of w and the ``change`` of the network's gradient along it (agents, P);
    how the agents were ``damping`` before, and the model that was ``known`` to them.
    """

    exchanges: int
    sums: Any
    rounded: np.ndarray | None
    step: np.ndarray
    change: np.ndarray
    damping: Damping
    known: Quadratic
