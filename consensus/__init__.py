"""Decentralised nonconvex optimisation by consensus.

Importing it imports nothing else: its parts are, when they are first used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from topologies._lazy import attach

if TYPE_CHECKING:
    from consensus import (
        centralised,
        costs,
        data,
        datasets,
        engines,
        estimators,
        local,
        losses,
        models,
        observe,
        packing,
        plotting,
        regularizers,
        robust,
        solvers,
        steps,
        surrogates,
    )
    from consensus.data import Shards, partition
    from consensus.errors import DivergenceError, Interrupted, LocalSolveError, WorkerError
    from consensus.history import History
    from consensus.losses import CrossEntropy, Huber, LogisticLoss, SquaredLoss
    from consensus.models import MLP, Linear, Model
    from consensus.problems import Minibatches, Problem
    from consensus.regularizers import L1, L2, SCAD, Box, ElasticNet, GroupL1, L2Ball, LogSum, NonNegative
    from consensus.result import Result, load
    from consensus.solve import solve
else:
    __getattr__, __dir__ = attach(__name__, __file__)

__version__ = "0.1.0"


class _Package(ModuleType):
    """``consensus.solve`` is the function, also once something imported its module, whose name is the same."""

    def __setattr__(self, name, value):
        if not (name == "solve" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __reduce__(self):  # cloudpickle copies modules by reference, but not those of other classes
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package

__all__ = [
    "L1",
    "L2",
    "MLP",
    "SCAD",
    "Box",
    "CrossEntropy",
    "DivergenceError",
    "ElasticNet",
    "GroupL1",
    "History",
    "Huber",
    "Interrupted",
    "L2Ball",
    "Linear",
    "LocalSolveError",
    "LogSum",
    "LogisticLoss",
    "Minibatches",
    "Model",
    "NonNegative",
    "Problem",
    "Result",
    "Shards",
    "SquaredLoss",
    "WorkerError",
    "centralised",
    "costs",
    "data",
    "datasets",
    "engines",
    "estimators",
    "load",
    "local",
    "losses",
    "models",
    "observe",
    "packing",
    "partition",
    "plotting",
    "regularizers",
    "robust",
    "solve",
    "solvers",
    "steps",
    "surrogates",
]
