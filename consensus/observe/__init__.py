"""Observation: what a run records, when it stops, what it saves, and a user's callbacks.

:class:`Observer` is what an engine speaks to, :class:`RoundInfo` what a callback is called with.
"""

from consensus.observe.callbacks import RoundInfo
from consensus.observe.counts import total
from consensus.observe.gather import Gather
from consensus.observe.observer import Decision, Due, Gathered, Observer

__all__ = ["Decision", "Due", "Gather", "Gathered", "Observer", "RoundInfo", "total"]
