"""Solvers of an agent's own convex problem."""

from consensus.local.solve import solve_local

__all__ = ["solve_local"]
