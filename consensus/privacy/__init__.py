"""Differential privacy: clipped gradients with noise, and what they reveal; secure aggregation."""

from consensus.privacy.accountant import epsilon
from consensus.privacy.fixed_point import SecureSums
from consensus.privacy.private import Private

__all__ = ["Private", "SecureSums", "epsilon"]
