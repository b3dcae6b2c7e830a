"""The public callables, found by walking the packages, and good arguments for each."""

import inspect
from types import ModuleType
from typing import NamedTuple

import consensus
import topologies

ROOTS = (consensus, topologies)

#: Good arguments by parameter, as expressions.
GOOD = {
    "X": "good.X()",
    "X_test": "good.X()",
    "a": "3.7",
    "accuracy": "0.01",
    "agents": "4",
    "batch": "consensus.Minibatches(2).at(good.problem(), 0)",
    "communicator": "None",
    "concentration": "0.5",
    "contacts": "[(0, 1), (1, 2), (2, 3)]",
    "cores": "1",
    "count": "2",
    "decay": "0.1",
    "degree": "2",
    "delta": "1.0",
    "dimension": "2",
    "directory": "'folder'",
    "edges": "2",
    "epsilon": "0.1",
    "every": "3",
    "exchanges": "2",
    "features": "3",
    "folder": "'folder'",
    "function": "lambda round: good.graph()",
    "gradient": "good.w()",
    "graph": "good.graph()",
    "graphs": "[good.graph(), topologies.star(4)]",
    "groups": "[[0, 1], [2]]",
    "histories": "{'run': good.history()}",
    "history": "good.history()",
    "initial": "0.1",
    "items": "[1, 2]",
    "iterations": "100",
    "k": "3",
    "key": "0",
    "l1": "0.1",
    "l2": "0.1",
    "lower": "-1.0",
    "bandwidth": "1e9",
    "flops": "1e9",
    "latency": "1e-4",
    "learning_rate": "0.1",
    "load": "consensus.costs.load(good.history(), good.problem())",
    "loads": "[consensus.costs.load(good.history(), good.problem())] * 3",
    "machines": "2",
    "replicas": "2",
    "seconds": "[1.0, 2.0, 3.0]",
    "system": "consensus.centralised.FedAvg(0.1)",
    "workers": "2",
    "loss": "consensus.SquaredLoss()",
    "matrices": "{'ring': topologies.metropolis(good.graph())}",
    "matrix": "topologies.metropolis(good.graph())",
    "model": "good.model()",
    "name": "good.dataset_file()",
    "neighbours": "2",
    "network": "good.schedule()",
    "outages": "[(0, 1, 2)]",
    "outputs": "good.outputs()",
    "parameters": "4",
    "path": "'written'",
    "point": "good.point()",
    "probability": "0.5",
    "problem": "good.problem()",
    "radius": "0.9",
    "result": "good.result()",
    "round": "1",
    "rounds": "3",
    "row": "good.row()",
    "rows": "slice(0, 2)",
    "columns": "2",
    "compressor": "consensus.compression.TopK(0.5)",
    "bits": "4",
    "number": "7",
    "rank": "1",
    "samples": "24",
    "rule": "consensus.step_sizes.Constant(0.1)",
    "schedule": "good.schedule()",
    "shards": "good.shards()",
    "size": "2",
    "solver": "good.solver()",
    "speed": "0.1",
    "state": "good.state()",
    "step": "0.1",
    "step_size": "0.1",
    "surrogate": "consensus.surrogates.FullLinearization(1.0)",
    "targets": "good.outputs()",
    "tau": "1.0",
    "times": "[0.0, 5.0, 20.0]",
    "upper": "1.0",
    "v": "good.w()",
    "byzantine_weight": "0.1",
    "byzantine": "[1]",
    "attack": "consensus.robust.SignFlip()",
    "before": "consensus.robust.NNM()",
    "honest": "[0, 2]",
    "d": "good.w()",
    "value": "0.1",
    "w": "good.w()",
    "weight": "0.1",
    "weights": "np.ones(6)",
    "widths": "[3, 2, 1]",
    "window": "10.0",
    "y": "good.y()",
    "y_test": "good.y()",
    "x": "good.X().reshape(4, 6, 3)",
    "u": "np.ones((4, 6, 1))",
    "rng": "np.random.default_rng(0)",
    "observer": "None",
    "slices": "[slice(0, 2), slice(2, 4)]",
    "linear": "good.w()",
    "regularizer": "consensus.L2(0.1)",
}
#: Where a parameter means something else, or an option is worth trying, by callable.
SPECIAL = {
    "consensus.Shards": {
        "features": "np.ones((4, 6, 3))",
        "targets": "np.ones((4, 6, 1))",
        "weights": "np.ones((4, 6))",
        "indices": "np.arange(24).reshape(4, 6)",
        "rows": "np.arange(4)",
        "network_size": "4",
    },
    "consensus.Shards.from_list": {"parts": "[(good.X()[:9], good.y()[:9]), (good.X()[9:], good.y()[9:])]"},
    "consensus.Result": {"reason": "'done'"},
    "consensus.load": {"path": "good.result_file()"},
    "consensus.solve": {"rounds": "2"},
    "consensus.centralised.solve": {"rounds": "2"},
    "consensus.centralised.SynchronousSGD": {"batch": "4"},
    "consensus.compression.Drawn": {
        "values": "np.ones((3, 2))",
        "senders": "np.array([[0], [1], [2]], np.int32)",
        "seed": "0",
        "number": "7",
    },
    "consensus.compression.Halves": {
        "values": "np.ones((3, 2), np.float16)",
        "exponents": "np.zeros((3, 1), np.int16)",
        "dtype": "float",
    },
    "consensus.compression.Quantised.random": {"rows": "good.w()", "uniform": "np.full((4, 4), 0.5)"},
    "consensus.compression.Drawn.some": {"rows": "good.w()", "senders": "np.arange(4)", "seed": "0", "k": "2"},
    "consensus.compression.Halves.nearest": {"rows": "good.w()"},
    "consensus.compression.Whole": {"rows": "good.w()"},
    "consensus.solvers.D2": {
        "schedule": "topologies.Static(topologies.ring(4), weights=topologies.lazy(topologies.metropolis))",
        "network": "topologies.Static(topologies.ring(4), weights=topologies.lazy(topologies.metropolis))",
    },
    "consensus.data.Columns": {"names": "('a', 'b', 'c')", "categories": "{'b': ('u', 'v')}", "frame": "good.frame()"},
    "consensus.estimators.NetworkClassifier.fit": {"y": "good.y() > 0"},
    "consensus.data.load_shards": {"folder": "good.shard_folder()"},
    "consensus.datasets.load": {"target": "'target'"},
    "consensus.datasets.Split": {"X_scaler": "None"},
    "consensus.History.from_csv": {"path": "good.history_file()"},
    "consensus.Problem.from_functions": {"value": "lambda w: (w**2).sum(axis=1)", "gradient": "lambda w: 2 * w"},
    "consensus.local.LocalSolution": {"iterations": "np.zeros(4, int)"},
    "consensus.local.Exact": {"linear": "'auto'"},
    "consensus.plotting.animate": {"path": "'written.gif'", "rounds": "[0, 1]", "y": "'disagreement'"},
    "consensus.plotting.convergence": {"y": "'objective'", "x": "'round'"},
    "consensus.plotting.adaptation": {"x": "'exchanges'"},
    "consensus.solvers.SONATA": {"surrogate": "consensus.surrogates.PartialLinearization(1.0)"},
    "consensus.CrossEntropy": {"outputs": "good.outputs(2)", "targets": "np.zeros(6, int)"},
    "consensus.MLP": {"w": "np.full((4, 11), 0.5)", "v": "np.ones((4, 11))"},
    "consensus.LogisticLoss": {"targets": "np.ones((6, 1))"},
    "consensus.regularizers.WeightedElasticNet": {"l1": "np.full(4, 0.1)", "l2": "[0.0, 1.0, 0.5, 0.0]"},
    "consensus.partition": {"agents": "4"},
    "topologies.AgentFailure": {"key": "topologies.AgentFailure(good.schedule(), [(0, 1, 2)]).key(1)"},
    "topologies.Check": {
        "solver": "'DGD'",
        "mixing": "'doubly stochastic'",
        "conditions": "topologies.conditions(good.schedule())",
        "contracts": "True",
    },
    "topologies.GapEstimate": {"gaps": "np.ones(4)", "exchanges": "3", "floats": "10"},
    "topologies.Temporal.from_csv": {"path": "good.contacts_file()"},
    "topologies.grid": {"rows": "2"},
    "topologies.torus": {"rows": "3", "columns": "3"},
    "topologies.pull": {"graph": "good.directed()"},
    "topologies.push": {"graph": "good.directed()"},
    "topologies.lazy": {"weights": "topologies.metropolis"},
    "topologies.Periodic": {"weights": "topologies.metropolis"},
    "topologies.Sequence": {"weights": "topologies.metropolis"},
    "topologies.Static": {"weights": "topologies.metropolis"},
    "consensus.surrogates.Blocks": {"parameters": "4"},
    "consensus.compression.Quantised": {
        "codes": "np.zeros((4, 2), np.uint8)",
        "scale": "np.ones((4, 1))",
        "columns": "4",
        "bits": "4",
        "rows": "good.w()",
    },
    "consensus.compression.Runs": {"codes": "np.ones((4, 4), np.int64)", "unit": "np.ones((4, 2))", "rows": "good.w()"},
    "consensus.compression.Sparse": {
        "values": "np.ones((4, 2))",
        "indices": "np.zeros((4, 2), np.int32)",
        "columns": "4",
        "rows": "good.w()",
    },
}
#: Objects for the methods of classes whose constructor does not make one that is ready.
MADE = {
    "consensus.estimators.NetworkClassifier": "good.classifier()",
    "consensus.estimators.NetworkRegressor": "good.regressor()",
}
# Not made by users, or asked for on purpose: records that the package fills in, abstract classes, what engines alone call.
RECORDS = {
    "topologies.Conditions", "topologies.Check", "topologies.GapEstimate", "consensus.solvers.Solver", "consensus.Model",
    "consensus.models.Linearization", "topologies.ScheduleLike", "consensus.local.LocalSolver",
    "consensus.surrogates.Surrogate", "consensus.surrogates.SurrogateModel",
    "consensus.centralised.System", "consensus.centralised.Traffic", "consensus.centralised.Dask", "consensus.costs.Load",
    "consensus.centralised.SplitMLP",  # its methods start processes, which the daemons of the campaign may not
    "consensus.compression.Compressor",
    "consensus.compression.Factors",  # what LowRank makes of rows
    "consensus.compression.LowRank",
    "consensus.solvers.PowerGossip",  # no matrix of the problem here is worth its factors
    "consensus.models.JAX", "consensus.models.Torch",  # what their frameworks refuse they say themselves
    *(f"consensus.observe.{name}" for name in consensus.observe.__all__),
    *(f"consensus.engines.{name}" for name in ("Begin", "Engine", "StackedNetwork", "reports", "run_rounds")),
    *(f"consensus.communication.{name}" for name in consensus.communication.__all__),  # what engines are made of
    *(f"consensus.problems.{name}" for name in consensus.problems.__all__),  # but those that consensus has, too
    "consensus.testing.Report", "consensus.step_sizes.checked",  # solvers call it
    *(f"topologies.analysis.{name}" for name in ("crossing", "parts")),
    *(f"topologies.schedules.{name}" for name in ("Schedule", "is_static", "labels")),
    "consensus.robust.Robust", "consensus.robust.PreAggregation",
    "consensus.losses.Loss", "consensus.regularizers.Regularizer",
    "consensus.regularizers.Separable", "consensus.regularizers.DifferenceOfConvex",
}  # fmt: skip
ARITHMETIC = ("consensus.losses", "consensus.regularizers", "consensus.models")
READ_ONLY = {"clear", "pop", "popitem", "setdefault", "update"}  # of a mapping: refused whatever is given
#: Methods between the package's own parts: an engine calls them with what it has checked.
INNER = {
    "cautious_step", "exchange", "gamma_for", "memory", "omega", "pack", "send", "share", "active", "aggregate",
    "around", "at", "average_form", "averaged", "check", "allgather", "constraints",
    "curvature", "curvature_root", "edges", "estimated", "expression", "gram", "init", "jacobian", "linearize",
    "minimise", "broadcast", "open", "prox_jvp", "running", "prox_slope", "report", "run", "slices", "smooth_gradient",
    "smooth_value", "solve", "split", "step", "weights", "width", "digests", "union", "drop_last", "last",
    "descended", "of", "take", "prepare", "jax_gradient",
}  # fmt: skip


class Door(NamedTuple):
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
    """``(name, object)`` of all that a module and its public submodules offer."""
    listed = getattr(module, "__all__", None)
    names = listed or [name for name in vars(module) if not name.startswith("_")]
    for name in sorted(names, key=lambda name: isinstance(getattr(module, name), ModuleType)):  # the shortest name of each
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            if value.__name__.startswith(f"{module.__name__}."):
                yield from public(value)
        elif callable(value) and (listed or value.__module__ == module.__name__):
            yield f"{module.__name__}.{name}", value


def doors():
    """All of them: functions, constructors, and public methods of an object of each class."""
    seen, found = set(), []
    for name, value in (pair for root in ROOTS for pair in public(root)):
        if id(value) in seen:
            continue
        seen.add(id(value))
        if name in RECORDS:
            continue
        door = _door(name, name, value)
        found.append(door)
        if inspect.isclass(value):
            found += _methods(name, value, MADE.get(name) or door.call())
    return found


def _methods(name, kind, made):
    for attribute in sorted(dir(kind)):
        method = getattr(kind, attribute)
        if attribute.startswith("_") or attribute in INNER | READ_ONLY or not inspect.isroutine(method):
            continue
        if method is consensus.solvers.Solver.stable_step:  # of methods that have none: refused whatever is given
            continue
        if attribute == "gradient" and not getattr(kind, "smooth", True):
            continue
        if (getattr(method, "__module__", None) or "").split(".")[0] in ("consensus", "topologies"):
            bound = inspect.ismethod(method) or isinstance(inspect.getattr_static(kind, attribute), staticmethod)
            text = f"{name}.{attribute}" if bound else f"{made}.{attribute}"
            arrays = not bound and kind.__module__.startswith(ARITHMETIC)
            yield _door(f"{name}.{attribute}", text, method, drop=0 if bound else 1, kind=name, arrays=arrays)


def _door(name, text, function, drop=0, kind=None, arrays=False):
    try:
        parameters = list(inspect.signature(function).parameters.values())[drop:]
    except ValueError:  # an exception without a constructor of its own
        parameters = []
    parameters = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and not p.name.startswith("_")]
    special = SPECIAL.get(kind, {}) | SPECIAL.get(name, {})
    arguments = {p.name: special.get(p.name) or GOOD[p.name] for p in parameters if p.name in special or p.default is p.empty}
    return Door(name, text, arguments, tuple(p.name for p in parameters), arrays)
