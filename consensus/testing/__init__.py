"""Checks of solvers, models, losses and whatever else you write: yours, and those of this package, without a test framework."""

from consensus.testing.compressor import check_compressor
from consensus.testing.laws import Report
from consensus.testing.loss import check_loss
from consensus.testing.model import check_model
from consensus.testing.problem import check_problem
from consensus.testing.regularizer import check_regularizer
from consensus.testing.robust import check_robust
from consensus.testing.schedule import check_schedule
from consensus.testing.solver import check_solver

__all__ = [
    "Report",
    "check_compressor",
    "check_loss",
    "check_model",
    "check_problem",
    "check_regularizer",
    "check_robust",
    "check_schedule",
    "check_solver",
]
