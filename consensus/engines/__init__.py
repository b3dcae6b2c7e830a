"""Engines: where a run happens."""

from consensus.engines.stacked import Stacked

__all__ = ["Stacked"]
