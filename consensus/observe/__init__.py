"""Observation: what a run records, when it stops, what it saves, and a user's callbacks.

:class:`Observer` is what an engine speaks to, :class:`Seen` what a callback is called with.
"""

from consensus.observe.callbacks import Seen
from consensus.observe.counts import total
from consensus.observe.gather import Gather
from consensus.observe.observer import Due, Gathered, Observer, Verdict

__all__ = ["Due", "Gather", "Gathered", "Observer", "Seen", "Verdict", "total"]
