"""The public callables, found by walking the packages, and good arguments for each."""

import inspect
from types import ModuleType
from typing import NamedTuple

import consensus
import topologies

#: Good arguments: an expression, and the parameters that take it.
EXPRESSIONS = {
    "-1.0": "lower",
    "0.1": "byzantine_weight decay epsilon initial l1 l2 learning_rate speed step step_size value weight",
    "0.5": "bandwidth flops latency probability radius tau upper window",
    "2": "columns count degree dimension edges exchanges machines neighbours number replicas round size",
    "3": "every features iterations k layers rounds",
    "4": "agents bits parameters",
    "24": "samples",
    "'folder'": "folder",
    "'written'": "path checkpoint",
    "[1]": "byzantine",
    "[3, 2, 1]": "widths",
    "[0.0, 5.0, 20.0]": "times",
    "[1.0, 2.0, 3.0]": "seconds",
    "[[0, 1], [2]]": "groups",
    "[(0, 1), (1, 2), (2, 3)]": "contacts",
    "[(0, 1, 2)]": "outages",
    "slice(0, 2)": "rows",
    "np.ones(6)": "weights",
    "np.ones((4, 6, 1))": "u",
    "good.w()": "gradient linear v w",
    "good.X()": "X X_test",
    "good.X().reshape(4, 6, 3)": "x",
    "good.y()": "y y_test",
    "good.point()": "point",
    "good.outputs()": "outputs targets",
    "files.write('CSV data')": "name",
    "good.shards()": "shards",
    "good.model()": "model",
    "consensus.SquaredLoss()": "loss",
    "consensus.L2(0.1)": "regularizer",
    "good.problem()": "problem",
    "good.graph()": "graph",
    "[good.graph(), topologies.star(4)]": "graphs",
    "lambda round: good.graph()": "function",
    "topologies.metropolis(good.graph())": "matrix",
    "{'ring': topologies.metropolis(good.graph())}": "matrices",
    "good.schedule()": "network schedule",
    "good.solver()": "solver",
    "consensus.surrogates.FullLinearization(1.0)": "surrogate",
    "consensus.step_sizes.Constant(0.1)": "rule",
    "consensus.Minibatches(2).at(good.problem(), 0)": "batch",
    "consensus.compression.TopK(0.5)": "compressor",
    "consensus.robust.SignFlip()": "attack",
    "consensus.centralised.FedAvg(0.1)": "system",
    "good.history()": "history",
    "{'run': good.history()}": "histories",
    "good.row()": "row",
    "good.result()": "result",
    "consensus.costs.load(good.history(), good.problem())": "load",
    "[consensus.costs.load(good.history(), good.problem())] * 3": "loads",
}
GOOD = {name: value for value, names in EXPRESSIONS.items() for name in names.split()}
LAZY = "topologies.Static(topologies.ring(4), weights=topologies.lazy(topologies.metropolis))"
#: Where a parameter means something else, or an option is worth trying, by callable or class.
SPECIAL = {
    "consensus.Shards": {
        "features": "np.ones((4, 6, 3))", "targets": "np.ones((4, 6, 1))", "weights": "np.ones((4, 6))",
        "indices": "np.arange(24).reshape(4, 6)", "rows": "np.arange(4)", "network_size": "4",
    },
    "consensus.Shards.from_list": {"parts": "[(good.X()[:9], good.y()[:9]), (good.X()[9:], good.y()[9:])]"},
    "consensus.Result": {"reason": "'done'", "pipeline": "good.pipeline()"},
    "consensus.Result.predictor": {"model": "good.model()"},
    "consensus.Predictor": {"w": "good.point()", "pipeline": "good.pipeline()", "data": "good.table()"},
    "consensus.load": {"path": "files.write('result')"},
    "consensus.centralised.SynchronousSGD": {"batch": "4"},
    "consensus.compression.Drawn": {
        "values": "np.ones((3, 2))", "senders": "np.array([[0], [1], [2]], np.int32)", "seed": "0",
    },
    "consensus.compression.Drawn.some": {"rows": "good.w()", "senders": "np.arange(4)", "k": "2"},
    "consensus.compression.Halves": {
        "values": "np.ones((3, 2), np.float16)", "exponents": "np.zeros((3, 1), np.int16)", "dtype": "float",
    },
    "consensus.compression.Halves.nearest": {"rows": "good.w()"},
    "consensus.compression.Quantised": {
        "codes": "np.zeros((4, 2), np.uint8)", "scale": "np.ones((4, 1))", "columns": "4", "rows": "good.w()",
    },
    "consensus.compression.Quantised.random": {"uniform": "np.full((4, 4), 0.5)"},
    "consensus.compression.Runs": {"codes": "np.ones((4, 4), np.int64)", "unit": "np.ones((4, 2))", "rows": "good.w()"},
    "consensus.compression.Sparse": {
        "values": "np.ones((4, 2))", "indices": "np.zeros((4, 2), np.int32)", "columns": "4", "rows": "good.w()",
    },
    "consensus.compression.Whole": {"rows": "good.w()"},
    "consensus.directions.Clip": {"norm": "1.0"},
    "consensus.models.ResNet": {
        "width": "3", "outputs": "1", "w": "np.full((4, 52), 0.5)", "v": "np.ones((4, 52))",
    },
    "consensus.models.save_safetensors": {"w": "good.point()"},
    "consensus.L2.by_name": {"weight": "lambda name, shape: 0.1"},
    "consensus.solvers.D2": {"schedule": LAZY, "network": LAZY},
    "consensus.data.Columns": {"names": "('a', 'b', 'c')", "categories": "{'b': ('u', 'v')}", "frame": "good.frame()"},
    "consensus.data.own": {"data": "[good.frame(), good.frame()]", "target": "'a'"},
    "consensus.data.Pipeline": {
        "columns": "consensus.data.Columns(('a', 'b', 'c'), {'b': ('u', 'v')})", "target": "'d'", "mean": "np.zeros(4)",
        "scale": "np.ones(4)", "data": "good.frame().assign(d=1.0)",
    },
    "consensus.estimators.NetworkClassifier.fit": {"y": "good.y() > 0"},
    "consensus.data.LazyShards.from_list": {"datasets": "[(good.X()[:9], good.y()[:9]), (good.X()[9:], good.y()[9:])]"},
    "consensus.data.LazyShards.split": {"dataset": "(good.X(), good.y())", "indices": "[[0, 1], [2, 5]]"},
    "consensus.data.LazyShards": {
        "datasets": "([(np.ones(3), 1.0)] * 4,)", "indices": "(None,)", "sizes": "np.array([4])", "collate": "None",
        "chunk": "2", "most": "4", "rows": "np.arange(1)", "network_size": "1", "samples": "4",
    },
    "consensus.data.load_shards": {"folder": "files.write('shard').parent"},
    "consensus.datasets.load": {"target": "'target'"},
    "consensus.datasets.Split": {"X_scaler": "None"},
    "consensus.History.from_csv": {"path": "files.write('history')"},
    "consensus.Problem.from_functions": {"value": "lambda w: (w**2).sum(axis=1)", "gradient": "lambda w: 2 * w"},
    "consensus.CrossEntropy": {"outputs": "good.outputs(2)", "targets": "np.zeros(6, int)"},
    "consensus.models.DirectFeedback": {
        "model": "consensus.MLP([3, 2, 1])", "w": "np.full((4, 11), 0.5)", "shape": "(3,)", "u": "np.ones((4, 6, 1))",
    },
    "consensus.MLP": {"w": "np.full((4, 11), 0.5)", "v": "np.ones((4, 11))"},
    "consensus.regularizers.WeightedElasticNet": {"l1": "np.full(4, 0.1)", "l2": "[0.0, 1.0, 0.5, 0.0]"},
    "consensus.partition": {"agents": "4"},
    "consensus.testing.check_robust": {"rule": "consensus.robust.NNA(good.solver(), 0.25)"},
    "consensus.solvers.Personalised": {"weights": "topologies.metropolis(good.graph())", "l": "0.5"},
    "consensus.solvers.SharedBody": {"own": "[0]"},
    "consensus.Shards.weighted": {"agents": "np.ones(4)"},
    "consensus.privacy.Private": {"clip": "1.0", "noise": "1.0", "gradients": "10"},
    "consensus.privacy.epsilon": {"gradients": "10", "clip": "1.0", "noise": "1.0"},
    "topologies.Temporal.from_csv": {"path": "files.write('contacts')"},
    "topologies.grid": {"rows": "2"},
    "topologies.EquiStatic": {"shifts": "2"},
    "topologies.torus": {"rows": "3", "columns": "3"},
    "topologies.pull": {"graph": "good.directed()"},
    "topologies.push": {"graph": "good.directed()"},
    "topologies.lazy": {"weights": "topologies.metropolis"},
}  # fmt: skip
#: Objects for the methods of classes whose constructor does not make one that is ready.
READY = {f"consensus.estimators.Network{kind}": f"good.{kind.lower()}()" for kind in ("Classifier", "Regressor")}
#: Not called by users on purpose: records that the package fills in, abstract classes, parts of engines.
LEFT_OUT = {
    "topologies.Conditions", "topologies.Check", "topologies.GapEstimate", "topologies.ScheduleLike", "consensus.Model",
    "consensus.models.Linearization", "consensus.local.LocalSolver", "consensus.solvers.Solver",
    "consensus.surrogates.Surrogate", "consensus.surrogates.SurrogateModel", "consensus.losses.Loss",
    "consensus.regularizers.Regularizer", "consensus.regularizers.Separable", "consensus.regularizers.DifferenceOfConvex",
    "consensus.robust.Robust", "consensus.robust.PreAggregation", "consensus.testing.Report",
    "consensus.step_sizes.checked", "consensus.step_sizes.Rule", "consensus.step_sizes.positive_at",
    "consensus.step_sizes.value_at",
    "consensus.centralised.System", "consensus.centralised.Traffic", "consensus.centralised.Dask", "consensus.costs.Load",
    # Their methods start processes, which the daemons of the campaign may not.
    "consensus.centralised.LayerParallel", "consensus.centralised.SplitMLP",
    "consensus.centralised.Grid", "consensus.centralised.ShardedMLP",  # of several ranks together
    "consensus.compression.Compressor", "consensus.compression.Factors", "consensus.compression.IntegerRows",
    "consensus.compression.LowRank", "consensus.solvers.PowerGossip",  # no matrix of the problem here is worth its factors
    "consensus.asynchronous.Arcs", "consensus.asynchronous.AsynchronousSolver",
    "consensus.data.Owned", "consensus.models.NamedArray", "consensus.directions.Direction",
    "consensus.models.JAX", "consensus.models.Torch",  # their frameworks raise errors in words of their own
    "consensus.TorchLoss", "consensus.step_sizes.TorchSchedule",  # these, too
    *(f"consensus.{room}.{name}" for room in ("observe", "communication", "problems")
      for name in getattr(consensus, room).__all__),
    "consensus.engines.Torch",  # raises an error without ranks
    *(f"consensus.engines.{name}" for name in ("Begin", "Engine", "StackedNetwork", "reports", "run_rounds")),
    *(f"topologies.analysis.{name}" for name in ("crossing", "parts")),
    *(f"topologies.schedules.{name}" for name in ("Schedule", "is_static", "labels")),
}  # fmt: skip
LEFT_OUT -= {"consensus.problems.Problem", "consensus.problems.Minibatches"}  # which consensus exports, too
#: Methods that an engine calls with arguments that it has checked, those that a read-only mapping refuses, and those that need
#: a module of PyTorch.
INNER = {
    "active", "aggregate", "allgather", "around", "at", "average_form", "averaged", "broadcast", "buffers", "cautious_step",
    "check", "clear", "constraints", "curvature", "curvature_root", "descended", "digests", "drop_last", "edges", "estimated",
    "evaluated", "exchange", "expression", "gamma_for", "gram", "hold", "init", "jacobian", "jax_gradient", "last", "linearize",
    "load",
    "matrices", "memory", "minimise", "of", "omega", "open", "pack", "pop", "popitem", "prepare", "prox_jvp", "prox_slope",
    "read", "report", "run", "running", "send", "sends_at", "setdefault", "share", "slices", "smooth_gradient", "smooth_value",
    "solve",
    "split", "step", "take", "union", "update", "wake", "weights", "width",
}  # fmt: skip
ARITHMETIC = ("consensus.losses", "consensus.regularizers", "consensus.models")


class Target(NamedTuple):
    """A callable: how it is written, and good arguments by parameter, as expressions.

    ``arrays``: whether it is a method of a loss, a regularizer or a model, which engines call with arrays.
    """

    name: str
    text: str
    arguments: dict
    parameters: tuple
    arrays: bool

    def call(self, **odd):
        """The call with some arguments replaced."""
        given = self.arguments | odd
        return f"{self.text}({', '.join(f'{name}={value}' for name, value in given.items())})"


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
        if method in (consensus.solvers.Solver.stable_step, consensus.models.DirectFeedback.jvp):  # always an error
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
    parameters = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and not p.name.startswith("_")]
    special = SPECIAL.get(kind, {}) | SPECIAL.get(name, {})
    arguments = {p.name: special.get(p.name) or GOOD[p.name] for p in parameters if p.name in special or p.default is p.empty}
    return Target(name, text, arguments, tuple(p.name for p in parameters), arrays)
