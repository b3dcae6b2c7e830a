"""Directions: what an agent steps along, by its local or tracked gradients."""

from consensus._elsewhere import elsewhere

__getattr__, __dir__, __all__ = elsewhere(__name__)
