"""Surrogates: strongly convex models of an agent's own cost around its iterate."""

from consensus.surrogates.full import FullLinearization
from consensus.surrogates.partial import PartialLinearization

__all__ = ["FullLinearization", "PartialLinearization"]
