"""The public callables, found by walking the packages, and good arguments for each."""

import inspect
from types import ModuleType
from typing import NamedTuple

import consensus
import topologies
from tests.campaign.arguments import GOOD, READY, SPECIAL

#: Not called by users on purpose: records that the package fills in, abstract classes, parts of engines.
LEFT_OUT = {
    "topologies.Conditions", "topologies.Check", "topologies.GapEstimate", "topologies.ScheduleLike", "consensus.Model",
    "consensus.models.Linearization", "consensus.local.LocalSolver", "consensus.solvers.Solver",
    "consensus.surrogates.Surrogate", "consensus.surrogates.SurrogateModel", "consensus.losses.Loss",
    "consensus.regularizers.Regularizer", "consensus.regularizers.Separable", "consensus.regularizers.DifferenceOfConvex",
    "consensus.robust.Robust", "consensus.robust.PreAggregation", "consensus.testing.Report",
    "consensus.step_sizes.checked", "consensus.step_sizes.Rule", "consensus.step_sizes.positive_at",
    "consensus.step_sizes.value_at",
    "consensus.centralized.System", "consensus.centralized.Traffic", "consensus.centralized.Dask", "consensus.costs.Load",
    # Their methods start processes, which the daemons of the campaign may not.
    "consensus.centralized.LayerParallel", "consensus.centralized.SplitMLP",
    "consensus.centralized.SplitTransformer", "consensus.centralized.ShardedTransformer",
    "consensus.centralized.Grid", "consensus.centralized.ShardedMLP",  # of several ranks together
    "consensus.compression.Compressor", "consensus.compression.Factors", "consensus.compression.IntegerRows",
    "consensus.compression.LowRank", "consensus.solvers.PowerGossip",  # no matrix of the problem here is worth its factors
    "consensus.asynchronous.Arcs", "consensus.asynchronous.AsynchronousSolver",
    "consensus.data.Owned", "consensus.models.NamedArray", "consensus.directions.Direction",
    "consensus.models.JAX", "consensus.models.Torch",  # their frameworks raise errors in words of their own
    "consensus.TorchLoss", "consensus.step_sizes.TorchSchedule",  # these, too
    *(f"consensus.{room}.{name}" for room in ("observe", "communication", "problems")
      for name in getattr(consensus, room).__all__),
    "consensus.asynchronous.AsyncTorch", "consensus.device.Device", "consensus.engines.Torch",  # raise an error without ranks
    "consensus.peers.Peers", "consensus.peers.Finding", "consensus.cli.peer",  # need a file of a run, and keys
    *(f"consensus.engines.{name}" for name in ("Begin", "Engine", "StackedNetwork", "reports", "run_rounds")),
    *(f"topologies.analysis.{name}" for name in ("crossing", "parts")),
    *(f"topologies.schedules.{name}" for name in ("Schedule", "is_static", "labels")),
}  # fmt: skip
LEFT_OUT -= {"consensus.problems.Problem", "consensus.problems.Minibatches"}  # which consensus exports, too
#: Methods that an engine calls with arguments that it has checked, those that a read-only mapping refuses, and those that need
#: a module of PyTorch.
INNER = {
    "active", "aggregate", "allgather", "among_owners", "around", "at", "average_form", "averaged", "broadcast", "buffers",
    "cautious_step", "check", "clear", "constraints", "curvature", "curvature_root", "descended", "digests", "drop_last",
    "edges", "estimated", "evaluated", "exchange", "expression", "filled_by", "from_dict", "gamma_for", "gram", "hold",
    "init", "jacobian", "jax_gradient", "last", "linearize", "load", "matched", "matrices", "memory", "minimise", "of",
    "omega", "open", "pack", "pop", "popitem", "prepare", "prox_jvp", "prox_slope", "read", "report", "run", "running",
    "samples_at_once", "send", "sends_at", "setdefault", "share", "slices", "smooth_gradient", "smooth_value", "solve",
    "split", "step", "take", "union", "update", "wake", "weights", "width",
}  # fmt: skip
ARITHMETIC = ("consensus.losses", "consensus.regularizers", "consensus.models", "consensus.frameworks", "consensus.deep")

ALWAYS_AN_ERROR = (
    consensus.solvers.Solver.stable_step,
    consensus.models.DirectFeedback.jvp,
    consensus.problems.BaseProblem.test_set,
    consensus.losses.CoxLoss.curvature,
    consensus.estimators.NetworkPoissonRegressor.predictor,
)


class Target(NamedTuple):
    """A callable: how it is written, and good arguments by parameter, as expressions.

    ``arrays``: whether it is a method of a loss, a regularizer or a model, which engines call with arrays.
    ``before``: what is written before a value instead of ``name=``, by parameter.
    """

    name: str
    text: str
    arguments: dict
    parameters: tuple
    arrays: bool
    before: dict

    def call(self, **odd):
        """The call with some arguments replaced."""
        given = self.arguments | odd
        return f"{self.text}({', '.join(self.before.get(name, f'{name}=') + value for name, value in given.items())})"


def public(module):
    """``(name, object)`` of everything that a module and its public submodules export."""
    listed = getattr(module, "__all__", None)
    names = listed or [name for name in vars(module) if not name.startswith("_")]
    for name in sorted(names, key=lambda name: isinstance(getattr(module, name), ModuleType)):  # the shortest name of each
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            if value.__name__.startswith(f"{module.__name__}."):
                yield from public(value)
        elif callable(value) and (listed or value.__module__ == module.__name__):
            yield f"{module.__name__}.{name}", value


def targets():
    """All of them: functions, constructors, and public methods of an object of each class."""
    seen, found = set(), []
    for name, value in (pair for root in (consensus, topologies) for pair in public(root)):
        if id(value) not in seen and name not in LEFT_OUT:
            target = _target(name, name, value)
            found += [target, *(_methods(name, value, READY.get(name) or target.call()) if inspect.isclass(value) else ())]
        seen.add(id(value))
    return found


def _methods(name, kind, ready):
    for attribute in sorted(dir(kind)):
        method = getattr(kind, attribute)
        if attribute.startswith("_") or attribute in INNER or not inspect.isroutine(method):
            continue
        if method in ALWAYS_AN_ERROR:
            continue
        if attribute == "gradient" and not getattr(kind, "smooth", True):
            continue
        if (getattr(method, "__module__", None) or "").split(".")[0] in ("consensus", "topologies"):
            bound = inspect.ismethod(method) or isinstance(inspect.getattr_static(kind, attribute), staticmethod)
            text = f"{name}.{attribute}" if bound else f"{ready}.{attribute}"
            arrays = not bound and kind.__module__.startswith(ARITHMETIC)
            yield _target(f"{name}.{attribute}", text, method, drop=0 if bound else 1, kind=name, arrays=arrays)


def _target(name, text, function, drop=0, kind=None, arrays=False):
    try:
        parameters = list(inspect.signature(function).parameters.values())[drop:]
    except ValueError:  # an exception without a constructor of its own
        parameters = []
    special = SPECIAL.get(kind, {}) | SPECIAL.get(name, {})
    before = {p.name: "" for p in parameters if p.kind is p.POSITIONAL_ONLY}
    before |= {p.name: "**" for p in parameters if p.kind is p.VAR_KEYWORD and p.name in special}
    keywords = {name: special[name] for name, written in before.items() if written}
    parameters = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and not p.name.startswith("_")]
    arguments = {p.name: special.get(p.name) or GOOD[p.name] for p in parameters if p.name in special or p.default is p.empty}
    return Target(name, text, arguments | keywords, tuple(p.name for p in parameters), arrays, before)
