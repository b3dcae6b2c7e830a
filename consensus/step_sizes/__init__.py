"""Step sizes: numbers, or rules that give one for each round."""

from consensus._elsewhere import elsewhere

__getattr__, __dir__, __all__ = elsewhere(__name__)
