"""Equal numbers in arrays of any layout, dtype and kind of container give equal results, but for rounding, or are refused."""

import itertools
import traceback
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import consensus
import topologies
from consensus import compression, losses, robust, solvers
from consensus.communication import Messages
from consensus.data import LazyShards
from consensus.local import Exact
from consensus.regularizers import WeightedElasticNet
from consensus.surrogates import FullLinearization
from tests.helpers.every_regularizer import ALL, P
from tests.helpers.turns import in_turn

pytestmark = pytest.mark.slow

AGENTS, SAMPLES = 4, 6
RNG = np.random.default_rng(0)


def drawn(*shape, least=-3, most=4):
    """Whole numbers as floats."""
    return RNG.integers(least, most, shape).astype(float)


def unaligned(a):
    memory = np.zeros(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
    memory[...] = a
    return memory


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


class NotATableError(Exception):
    """Tables have one or two axes."""


def in_pandas(a, dtype):
    if a.ndim > 2:
        raise NotATableError
    return (pd.Series if a.ndim == 1 else pd.DataFrame)(a).astype(dtype)


LAYOUTS = {
    "read-only": read_only,
    "Fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: a[..., ::-1].copy()[..., ::-1],
    "unaligned": unaligned,
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "masked": np.ma.array,
    "long doubles": lambda a: a.astype(np.longdouble),
    "float32": lambda a: a.astype(np.float32),
    "float16": lambda a: a.astype(np.float16),
    "int64": lambda a: a.astype(np.int64),
    "int8": lambda a: a.astype(np.int8),
    "big-endian int16": lambda a: a.astype(">i2"),
    "uint8": lambda a: a.astype(np.uint8),
    "uint64": lambda a: a.astype(np.uint64),
    "bool": lambda a: a.astype(bool),
    "nullable": lambda a: in_pandas(a, "Float64"),
    "nullable integers": lambda a: in_pandas(a, "Int64"),
    "list": lambda a: a.tolist(),
}
ALIKE = ("read-only", "Fortran", "strided", "reversed", "unaligned", "big-endian", "masked")  # never refused
OURS = tuple(str(Path(package.__file__).parent) for package in (consensus, topologies))
FOREIGN = ("bool", "nullable", "nullable integers", "list")  # no arrays of numbers
MODELS = {
    "Linear": consensus.Linear(3),
    "MLP": consensus.MLP([3, 2, 1]),
    "Convolutional": consensus.models.Convolutional((1, 3, 1), [1], 1, kernel=1, pool=1),
    "ResNet": consensus.models.ResNet(3, 2, 2, 1),
    "WithTangents": consensus.models.WithTangents(consensus.MLP([3, 2, 1]), np.ones((1, 3))),
}
X, Y = drawn(24, 3), drawn(24)
SHARDS = consensus.partition(X, Y, AGENTS)
PROBLEM = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), SHARDS, consensus.L2(0.1))
FUNCTIONS = consensus.Problem.from_functions(lambda w: (w**4).sum(axis=1), lambda w: 4 * w**3, agents=AGENTS, parameters=3)
LABELS = drawn(SAMPLES, 1, least=0, most=2)
LOSSES = {
    "SquaredLoss": (losses.SquaredLoss(), 1, drawn(SAMPLES, 1)),
    "Huber": (losses.Huber(0.7), 1, drawn(SAMPLES, 1)),
    "LogisticLoss": (losses.LogisticLoss(), 1, LABELS),
    "CrossEntropy": (losses.CrossEntropy(), 3, LABELS),
    "CrossEntropy, smoothed": (losses.CrossEntropy(weight=(1, 2, 3), label_smoothing=0.1), 3, LABELS),
    "TangentPropagation": (losses.TangentPropagation(losses.SquaredLoss(), 0.1), 2, drawn(SAMPLES, 1)),
}
RULES = {
    "NNA": robust.NNA(solvers.DGD(0.1), 0.2),
    "ClippedGossip": robust.ClippedGossip(solvers.DGD(0.1), 0.2),
    "CSPlus": robust.CSPlus(solvers.DGD(0.1), 0.2),
}
CASES = {}  # a function of arrays, and those


def case(name, function, *arrays):
    CASES[name] = function, arrays


def shards(found):
    return found.features, found.targets, found.weights


def solved(problem=PROBLEM, **given):
    network = topologies.ring(problem.network_size)
    result = consensus.solve(problem, network, solvers.GradientTracking(0.01), rounds=3, **given)
    return [result.w, *(result.history[name] for name in ("objective", "stationarity", "disagreement"))]


def of_shards(x, y, weights):
    problem = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), consensus.Shards.from_list([(x, y, weights)] * 3))
    return solved(problem)


case("partition", lambda X, y: shards(consensus.partition(X, y, AGENTS, "sorted", seed=1)), X, Y)
case("partition(sizes=)", lambda sizes: shards(consensus.partition(X, Y, AGENTS, "sizes", sizes=sizes)), np.array([3, 8, 6, 7]))
case("Shards.from_list", of_shards, drawn(7, 3), drawn(7), drawn(7, least=1))
case("LazyShards.from_list", lambda x, y: LazyShards.from_list([(x, y)] * 2).read(1, np.array([2, 0])), drawn(7, 3), drawn(7))
case("Shards.weighted", lambda w: shards(SHARDS.weighted(w)), np.array([1.0, 2, 3, 1]))
case("Shards.restrict", lambda rows: shards(SHARDS.restrict(rows)), np.array([2, 0]))
case("solve(start=)", lambda start: solved(start=start), drawn(4))
case("solve(start=) of each", lambda start: solved(start=start), drawn(4, 4))
case("solve(test=)", lambda x, y: solved(test=(x, y)), drawn(9, 3), drawn(9))
case("solve(honest=)", lambda honest: solved(honest=honest), np.array([0, 2, 3]))
for method in ("value", "gradient", "average_gradient", "value_and_gradient"):
    case(f"Problem.{method}", getattr(PROBLEM, method), drawn(AGENTS, 4))
for method in ("objective", "stationarity", "total_gradient"):
    case(f"Problem.{method}", getattr(PROBLEM, method), drawn(4))
case("Problem.restrict", lambda rows: PROBLEM.restrict(rows).value(np.ones((2, 4))), np.array([2, 0]))


LINEARIZED = consensus.surrogates.PartialLinearization(1.0)
for surrogate, regularizer in itertools.product((FullLinearization(1.0), LINEARIZED), (consensus.L1(0.1), consensus.L2(0.1))):

    def solved_locally(w, gradient, linear, start, surrogate=surrogate, regularizer=regularizer):
        return Exact().solve(surrogate.at(PROBLEM, w, gradient), linear, regularizer, start, 1e-12)[0]

    case(f"{surrogate!r} and {regularizer!r}", solved_locally, *(drawn(AGENTS, 4) for _ in range(4)))
case("from_functions", lambda start: solved(FUNCTIONS, start=start), drawn(3))
for name, model in MODELS.items():
    shape = (AGENTS, SAMPLES, 1, 3, 1) if name == "Convolutional" else (AGENTS, SAMPLES, 3)
    w, x, v = drawn(AGENTS, model.parameters), drawn(*shape), drawn(AGENTS, model.parameters)
    u = drawn(AGENTS, SAMPLES, model.outputs)
    for method, arrays in (("predict", (w, x)), ("vjp", (w, x, u)), ("jvp", (w, x, v)), ("jacobian", (w, x))):
        if hasattr(model, method):
            case(f"{name}.{method}", getattr(model, method), *arrays)
for name, (loss, columns, targets) in LOSSES.items():
    outputs = drawn(SAMPLES, columns)
    for method in ("value", "gradient", "curvature", "curvature_root", "error"):
        if hasattr(loss, method):
            case(f"{name}.{method}", getattr(loss, method), outputs, targets)
    case(f"{name}.check", lambda targets, loss=loss, columns=columns: loss.check(targets, columns), targets)
for name, regularizer in ALL.items():
    case(f"{name}.value", regularizer.value, drawn(AGENTS, P))
    case(f"{name}.prox", lambda v, r=regularizer: r.prox(v, 0.3), drawn(AGENTS, P))
    for method in ("smooth_value", "smooth_gradient"):
        if hasattr(regularizer, method):
            case(f"{name}.{method}", getattr(regularizer, method), drawn(AGENTS, P))
    if regularizer.prox_slope:
        case(f"{name}.prox_slope", lambda v, r=regularizer: r.prox_slope(v, 0.3), drawn(AGENTS, P))
case("L2(weight)", lambda weight: consensus.L2(weight).prox(np.ones((2, 3)), 0.3), np.array([1.0, 0, 3]))
case("Box(lower, upper)", lambda a, b: consensus.Box(a, b).prox(np.arange(6.0).reshape(2, 3), 1.0), np.zeros(3), np.arange(3.0))
case("WeightedElasticNet", lambda a, b: WeightedElasticNet(a, b).value(np.ones((2, 3))), *drawn(2, 3, least=0))
COMPRESSORS = (
    compression.TopK(2),
    compression.RandomK(2),
    compression.Quantize(4),
    compression.Half(),
    compression.NoCompression(),
)
for compressor in COMPRESSORS:
    distinct = np.arange(20.0).reshape(AGENTS, 5)[:, [3, 1, 4, 0, 2]]
    case(f"{compressor!r}.pack", lambda x, c=compressor: c.pack(x, np.arange(AGENTS), 0).unpack(), distinct)
RECEIVERS, SENDERS = np.array([0, 0, 1, 1, 2, 3]), np.array([1, 2, 0, 3, 1, 0])
for name, rule in RULES.items():

    def aggregated(own, weights, rows, rule=rule):
        return rule.aggregate(Messages(own, np.array([0.5, 0.5, 0.75, 0.75]), RECEIVERS, SENDERS, weights, rows, SENDERS))

    case(f"{name}.aggregate", aggregated, drawn(AGENTS, 3), np.full(6, 0.25), drawn(AGENTS, 3))
W = topologies.metropolis(topologies.complete(AGENTS)).toarray()
A = nx.to_numpy_array(topologies.complete(AGENTS))
case("schedule_from_matrix", lambda m: topologies.schedule_from_matrix(m).weights(0).toarray(), np.eye(4)[[1, 2, 3, 0]])
case("schedule_from_matrix of floats", lambda m: topologies.schedule_from_matrix(m).weights(0).toarray(), W)
case("Static(matrix)", lambda m: topologies.Static(m).weights(0).toarray(), A)
case("spectral_gap", lambda m: topologies.spectral_gap(m), W)


def ours(error):
    """Whether the package raised it."""
    return traceback.extract_tb(error.__traceback__)[-1].filename.startswith(OURS)


def close(one, other, tolerance):
    if isinstance(one, tuple | list):
        for a, b in zip(one, other, strict=True):
            close(a, b, tolerance)
    elif one is not None:
        assert type(other) is type(one)
        np.testing.assert_allclose(np.asarray(other, float), np.asarray(one, float), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "first"), in_turn(CASES, range(2)))
def test_equal_numbers_have_equal_results(name, first):
    function, arrays = CASES[name]
    for layout in list(LAYOUTS)[first::2]:
        if name.endswith("aggregate") and layout in FOREIGN:
            continue  # engines give floats
        try:
            compare(function, arrays, layout)
        except BaseException as error:
            error.add_note(f"layout: {layout}")
            raise


def compare(function, arrays, layout):
    tolerance = (
        5e-3 if layout == "float16" else 1e-9 if layout in ALIKE or "int64" in layout or layout == "long doubles" else 1e-4
    )
    for place, array in enumerate(arrays):
        if "int" in layout:
            array = np.abs(array).round()
        if layout == "bool":
            array = np.minimum(np.abs(array), 1)
        array = array.astype(np.float16).astype(array.dtype) if layout == "float16" else array
        given = [array if k == place else a for k, a in enumerate(arrays)]
        try:
            changed = [LAYOUTS[layout](a) if k == place else a for k, a in enumerate(given)]
        except NotATableError:
            continue
        try:
            expected = function(*given)
        except ValueError:
            with pytest.raises((ValueError, TypeError)):
                function(*changed)
            continue
        try:
            found = function(*changed)
        except (ValueError, TypeError) as error:
            if layout in ALIKE or not ours(error):
                raise
            continue
        close(expected, found, tolerance)


@pytest.mark.parametrize("name", ["L1", "L2", "ElasticNet", "L2Ball", "Huber", "Constant", "TopK", "DGD", "FullLinearization"])
def test_numbers_without_axes_are_numbers_or_refused(name):
    rooms = consensus, consensus.regularizers, solvers, compression, consensus.step_sizes, consensus.surrogates
    kind = next(getattr(room, name) for room in rooms if hasattr(room, name))
    arguments = (0.5, 0.25) if name == "ElasticNet" else (0.5,)
    expected = kind(*arguments)
    for convert in (np.float32, np.float64, np.longdouble, np.float16):
        found = kind(*map(convert, arguments))
        assert found == expected
        assert repr(found) == repr(expected)
    try:
        found = kind(*map(np.array, arguments))
    except (ValueError, TypeError) as error:
        if not ours(error):
            raise
    else:
        assert repr(found) == repr(expected)
