"""Solvers of the agents' convex local problems."""

from consensus.local.cvxpy_solver import CVXPYSolver
from consensus.local.exact import Exact, LocalSolution

__all__ = ["CVXPYSolver", "Exact", "LocalSolution"]
