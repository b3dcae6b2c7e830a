"""The problem that the agents solve together: a model on shards, or a user's own functions."""

from consensus._elsewhere import elsewhere

__getattr__, __dir__, __all__ = elsewhere(__name__)
