"""Observation of runs: what is recorded, when a run stops, checkpoints, and the user's callbacks."""

from consensus.observe.alignment import alignment
from consensus.observe.callbacks import RoundInfo
from consensus.observe.counts import total
from consensus.observe.due import Due
from consensus.observe.early_stopping import EarlyStopping
from consensus.observe.gather import Gather
from consensus.observe.gathered import Decision, Gathered
from consensus.observe.observer import Observer

__all__ = ["Decision", "Due", "EarlyStopping", "Gather", "Gathered", "Observer", "RoundInfo", "alignment", "total"]
