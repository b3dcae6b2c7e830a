"""Decentralised nonconvex optimisation by consensus.

Its parts are imported when they are first used.
"""

import copyreg
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from lazy_loader import attach

try:
    if "ScheduleLike" not in vars(import_module("topologies")).get("__all__", ()):  # theirs may answer to any name
        raise ImportError("topologies has no ScheduleLike")
except ImportError as error:  # whatever another package of that name does
    _spec = find_spec("topologies")
    _found = (
        f"another topologies, {_spec.origin}: if it is yours, rename it; if pip installed it, pip uninstall --yes topologies, "
        "then"
        if _spec
        else "none:"
    )
    raise ImportError(
        "consensus comes with the package topologies in the distribution consensus-opt; Python finds "
        f"{_found} pip install --force-reinstall --no-deps consensus-opt (or . in its checkout)"
    ) from error

if TYPE_CHECKING:
    from consensus import asynchronous as asynchronous
    from consensus import centralised as centralised
    from consensus import communication as communication
    from consensus import compression as compression
    from consensus import costs as costs
    from consensus import data as data
    from consensus import datasets as datasets
    from consensus import directions as directions
    from consensus import engines as engines
    from consensus import errors as errors
    from consensus import estimators as estimators
    from consensus import history as history
    from consensus import local as local
    from consensus import losses as losses
    from consensus import models as models
    from consensus import observe as observe
    from consensus import plotting as plotting
    from consensus import privacy as privacy
    from consensus import problems as problems
    from consensus import regularizers as regularizers
    from consensus import robust as robust
    from consensus import solvers as solvers
    from consensus import step_sizes as step_sizes
    from consensus import surrogates as surrogates
    from consensus import testing as testing
    from consensus._versions import show_versions as show_versions
    from consensus.data import Shards as Shards
    from consensus.data import partition as partition
    from consensus.errors import DivergenceError as DivergenceError
    from consensus.errors import Interrupted as Interrupted
    from consensus.errors import LocalSolveError as LocalSolveError
    from consensus.errors import Preempted as Preempted
    from consensus.errors import WorkerError as WorkerError
    from consensus.history import History as History
    from consensus.losses import CrossEntropy as CrossEntropy
    from consensus.losses import Huber as Huber
    from consensus.losses import LogisticLoss as LogisticLoss
    from consensus.losses import SquaredLoss as SquaredLoss
    from consensus.losses import TangentPropagation as TangentPropagation
    from consensus.losses import TorchLoss as TorchLoss
    from consensus.models import MLP as MLP
    from consensus.models import Linear as Linear
    from consensus.models import Model as Model
    from consensus.options import Checkpoint as Checkpoint
    from consensus.options import Record as Record
    from consensus.owners.predictor import Predictor as Predictor
    from consensus.problems import Minibatches as Minibatches
    from consensus.problems import Problem as Problem
    from consensus.regularizers import L1 as L1
    from consensus.regularizers import L2 as L2
    from consensus.regularizers import SCAD as SCAD
    from consensus.regularizers import Box as Box
    from consensus.regularizers import ElasticNet as ElasticNet
    from consensus.regularizers import GroupL1 as GroupL1
    from consensus.regularizers import L2Ball as L2Ball
    from consensus.regularizers import LogSum as LogSum
    from consensus.regularizers import NonNegative as NonNegative
    from consensus.result import Result as Result
    from consensus.result import load as load
    from consensus.solve import solve as solve
else:
    __getattr__, __dir__, __all__ = attach(
        __name__,
        submodules=[
            "asynchronous",
            "centralised",
            "communication",
            "compression",
            "costs",
            "data",
            "datasets",
            "directions",
            "engines",
            "errors",
            "estimators",
            "history",
            "local",
            "losses",
            "models",
            "observe",
            "plotting",
            "privacy",
            "problems",
            "regularizers",
            "robust",
            "solvers",
            "step_sizes",
            "surrogates",
            "testing",
        ],
        submod_attrs={
            "data": ["Shards", "partition"],
            "errors": ["DivergenceError", "Interrupted", "LocalSolveError", "Preempted", "WorkerError"],
            "history": ["History"],
            "losses": ["CrossEntropy", "Huber", "LogisticLoss", "SquaredLoss", "TangentPropagation", "TorchLoss"],
            "models": ["MLP", "Linear", "Model"],
            "options": ["Checkpoint", "Record"],
            "owners.predictor": ["Predictor"],
            "problems": ["Minibatches", "Problem"],
            "regularizers": ["L1", "L2", "SCAD", "Box", "ElasticNet", "GroupL1", "L2Ball", "LogSum", "NonNegative"],
            "result": ["Result", "load"],
            "solve": ["solve"],
            "_versions": ["show_versions"],
        },
    )
    # The package has a class of its own, which keeps `consensus.solve` the function: pickled by name, as all modules are.
    copyreg.pickle(type(sys.modules[__name__]), lambda package: (import_module, (package.__name__,)))

__version__ = "0.1.0"
