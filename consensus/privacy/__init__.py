"""Differential privacy: clipped gradients with noise, and what they reveal."""

from consensus.privacy.accountant import epsilon
from consensus.privacy.private import Private

__all__ = ["Private", "epsilon"]
