"""AdaptiveNEXT, which has no settings to tune."""

from consensus.solvers.adaptive.next import AdaptiveNEXT

__all__ = ["AdaptiveNEXT"]
