"""Observation of runs: what is recorded, when a run stops, checkpoints, and the user's callbacks."""

from consensus._elsewhere import elsewhere

__getattr__, __dir__, __all__ = elsewhere(__name__)
