"""Differential privacy: clipped gradients with noise, and what they reveal; sums of which nobody learns a term."""

from consensus.communication import SecureSums
from consensus.privacy.accountant import epsilon
from consensus.privacy.private import Private

__all__ = ["Private", "SecureSums", "epsilon"]
