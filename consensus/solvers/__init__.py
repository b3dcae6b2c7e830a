"""Decentralised methods: one file each."""

from consensus.solvers.base import Solver
from consensus.solvers.dgd import DGD
from consensus.solvers.gradient_tracking import GradientTracking
from consensus.solvers.next import NEXT

__all__ = ["DGD", "NEXT", "GradientTracking", "Solver"]
