"""Regularizers: the term r that all agents share, including constraints."""

from consensus._elsewhere import elsewhere

__getattr__, __dir__, __all__ = elsewhere(__name__)
