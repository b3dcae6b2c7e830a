"""Checks of solvers, models, regularizers and schedules: yours, and those of this package. They need no test framework."""

from consensus.testing.laws import Report
from consensus.testing.model import check_model
from consensus.testing.regularizer import check_regularizer
from consensus.testing.schedule import check_schedule
from consensus.testing.solver import check_solver

__all__ = ["Report", "check_model", "check_regularizer", "check_schedule", "check_solver"]
