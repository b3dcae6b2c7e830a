"""Surrogates: strongly convex models of the local costs around the iterates."""

from consensus._elsewhere import elsewhere

__getattr__, __dir__, __all__ = elsewhere(__name__)
