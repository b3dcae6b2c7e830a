"""Solvers of the agents' convex local problems."""

from consensus.local.base import LocalSolution, LocalSolver
from consensus.local.cvxpy_solver import CVXPYSolver
from consensus.local.exact import Exact

__all__ = ["CVXPYSolver", "Exact", "LocalSolution", "LocalSolver"]
