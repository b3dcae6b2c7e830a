"""The problem that the agents solve together: a model on shards, or a user's own functions."""

from consensus.problems.base import BaseProblem
from consensus.problems.batch import Batch, NumberedBatch
from consensus.problems.convex_costs import ConvexCosts
from consensus.problems.costs import Costs
from consensus.problems.coupled import Coupled
from consensus.problems.functions import FunctionProblem
from consensus.problems.lazy import LazyProblem
from consensus.problems.linearizable import Linearizable, has_model
from consensus.problems.minibatches import Minibatches
from consensus.problems.problem import Problem
from consensus.problems.quadratic_costs import QuadraticCosts
from consensus.problems.state import Work

__all__ = [
    "BaseProblem",
    "Batch",
    "ConvexCosts",
    "Costs",
    "Coupled",
    "FunctionProblem",
    "LazyProblem",
    "Linearizable",
    "Minibatches",
    "NumberedBatch",
    "Problem",
    "QuadraticCosts",
    "Work",
    "has_model",
]
