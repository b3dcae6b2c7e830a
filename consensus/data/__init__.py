"""Data: shards of agents, data sets by name, tables of one's own, training and test parts."""

from consensus._elsewhere import elsewhere

__getattr__, __dir__, __all__ = elsewhere(__name__)
