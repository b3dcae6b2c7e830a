"""Observation of runs: what is recorded, when a run stops, checkpoints, and the user's callbacks."""

from typing import TYPE_CHECKING

from consensus._elsewhere import elsewhere
from consensus.observe.callbacks import RoundInfo
from consensus.observe.gather import Gather, total
from consensus.observe.observer import Decision, Due, Gathered, Observer
from consensus.observe.stopping import EarlyStopping

if TYPE_CHECKING:
    from consensus.deep.alignment import alignment as alignment

__getattr__, __dir__ = elsewhere(
    __name__,
    {
        "alignment": "consensus.deep.alignment",
    },
)

__all__ = ["Decision", "Due", "EarlyStopping", "Gather", "Gathered", "Observer", "RoundInfo", "alignment", "total"]
