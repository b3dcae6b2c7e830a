"""The network as a solver sees it: exchanges with neighbours, their messages, and sums over a spanning tree."""

from consensus._elsewhere import elsewhere

__getattr__, __dir__, __all__ = elsewhere(__name__)
