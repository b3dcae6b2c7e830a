"""The problem that the agents solve together: a model on shards, or a user's own functions."""

from typing import TYPE_CHECKING

from consensus._elsewhere import elsewhere
from consensus.problems.base import BaseProblem
from consensus.problems.batch import Batch, NumberedBatch
from consensus.problems.functions import FunctionProblem
from consensus.problems.linearizable import Linearizable, has_model
from consensus.problems.minibatches import Minibatches
from consensus.problems.problem import Problem
from consensus.problems.state import Work

if TYPE_CHECKING:
    from consensus.coupled.convex_costs import ConvexCosts as ConvexCosts
    from consensus.coupled.costs import Costs as Costs
    from consensus.coupled.problem import Coupled as Coupled
    from consensus.coupled.quadratic_costs import QuadraticCosts as QuadraticCosts
    from consensus.streaming.lazy_problem import LazyProblem as LazyProblem

__getattr__, __dir__ = elsewhere(
    __name__,
    {
        "ConvexCosts": "consensus.coupled.convex_costs",
        "Costs": "consensus.coupled.costs",
        "Coupled": "consensus.coupled.problem",
        "LazyProblem": "consensus.streaming.lazy_problem",
        "QuadraticCosts": "consensus.coupled.quadratic_costs",
    },
)

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
