"""Surrogates: strongly convex models of the local costs around the iterates."""

from consensus.surrogates.base import Surrogate, SurrogateModel
from consensus.surrogates.blocks import Blocks
from consensus.surrogates.full import FullLinearization
from consensus.surrogates.partial import PartialLinearization

__all__ = ["Blocks", "FullLinearization", "PartialLinearization", "Surrogate", "SurrogateModel"]
