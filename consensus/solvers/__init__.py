"""Decentralised methods: one file each."""

from consensus._elsewhere import elsewhere

__getattr__, __dir__, __all__ = elsewhere(__name__)
