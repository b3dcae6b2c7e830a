"""Surrogates: strongly convex models of an agent's own cost around its iterate."""

from consensus.surrogates.blocks import Blocks
from consensus.surrogates.full import FullLinearization
from consensus.surrogates.partial import PartialLinearization

__all__ = ["Blocks", "FullLinearization", "PartialLinearization"]
