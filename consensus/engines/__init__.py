"""Engines: where a run happens. A solver gives the same bits on all of them."""

from consensus._elsewhere import elsewhere

__getattr__, __dir__, __all__ = elsewhere(__name__)
