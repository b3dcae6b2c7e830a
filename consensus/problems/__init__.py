"""The problem that the agents solve together: a model on shards, or a user's own functions."""

from consensus.problems.base import BaseProblem, Work
from consensus.problems.functions import FunctionProblem
from consensus.problems.minibatches import Batch, Minibatches
from consensus.problems.model import Problem

__all__ = ["BaseProblem", "Batch", "FunctionProblem", "Minibatches", "Problem", "Work"]
