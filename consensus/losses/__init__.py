"""Losses: the cost of a sample's outputs, given its target."""

from consensus._elsewhere import elsewhere

__getattr__, __dir__, __all__ = elsewhere(__name__)
