"""Arrays have the shapes that the annotations of protocols and base classes state: those of the package's own parts."""

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from jaxtyping import TypeCheckError

import consensus
import topologies
from consensus.asynchronous import ASYSONATA, RASGP, AsynchronousSolver, OverlapSGP, Simulated
from consensus.asynchronous.arcs import received
from consensus.asynchronous.events import Events
from consensus.asynchronous.timetable import Timetable
from consensus.communication import Codec, Flooding, Messages, Network, Packed, Tree
from consensus.compression import Compressor, Half, IntegerRows, LowRank, NoCompression, Quantize, RandomK, TopK
from consensus.engines import Begin, Engine, Stacked, StackedNetwork, protocols, reports, run_rounds
from consensus.local import CVXPYSolver, Exact, LocalSolution, LocalSolver
from consensus.losses import Loss
from consensus.models import MLP, Linear, Linearization, Model, linearize
from consensus.problems import BaseProblem
from consensus.regularizers import Regularizer
from consensus.robust import NNA, NNM, Bucketing, ClippedGossip, CSPlus, PreAggregation, Robust
from consensus.surrogates import FullLinearization, PartialLinearization, Surrogate, SurrogateModel
from tests.extensions.convolution import Convolution
from tests.helpers import every_regularizer
from tests.helpers.every_solver import SOLVERS
from tests.helpers.local_problems import LOSSES, REGULARIZERS, centre, local_problem
from tests.helpers.problems import GRAPH, PUSH, problem
from tests.helpers.shapes import checked, checked_fields
from tests.helpers.turns import with_slow

AGENTS = len(GRAPH)
METHODS = {Network: ("mix", "average", "mix_and_average", "aggregate", "send_each"), Tree: ("reduce", "broadcast")}
METHODS |= {Flooding: ("minimum", "all")}
STATIC, COMPLETE = topologies.Static(GRAPH), topologies.Static(topologies.complete(AGENTS))
OTHER_NETWORKS = {"Push-DIGing": PUSH, "SGP": PUSH, "attacked": COMPLETE}
MATRICES = ("PowerGossip", "PowerGossip, tracking", "BEER, low rank")
RNG = np.random.default_rng(0)


def rows(*shape, dtype=float):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", [Linear(3, 2), MLP([3, 4, 2]), Convolution(2, 3, 2)], ids=lambda model: type(model).__name__)
def test_models(model, dtype):
    w, x, u, v = rows(4, model.parameters), rows(4, 5, 3), rows(4, 5, 2), rows(4, model.parameters)
    w, x, u, v = (array.astype(dtype) for array in (w, x, u, v))
    checked(Model.init, model.init)(RNG)
    checked(Model.predict, model.predict)(w, x)
    checked(Model.vjp, model.vjp)(w, x, u)
    checked(Model.jvp, model.jvp)(w, x, v)
    _, linearization = linearize(model, w, x)
    checked(Linearization.vjp, linearization.vjp)(u)
    checked(Linearization.vjp, linearization.vjp)(u, np.empty_like(w))
    checked(Linearization.jvp, linearization.jvp)(v)


@pytest.mark.parametrize("agents", [(), (4,)])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, agents):
    loss, outputs, targets, _ = LOSSES[name]
    f, z = rows(*agents, 5, outputs), rows(5, outputs)
    d = np.broadcast_to(1 * np.reshape(targets(z), (5, 1)), (*agents, 5, 1))
    for method in ("value", "gradient", "curvature", "curvature_root", "error"):
        checked(getattr(Loss, method), getattr(loss, method))(f, d)


@pytest.mark.parametrize("step", [0.3, np.full((4, 1), 0.3)], ids=["a step", "steps"])
@pytest.mark.parametrize("name", every_regularizer.CONVEX)
def test_regularizers(name, step):
    r, w = every_regularizer.CONVEX[name], rows(4, every_regularizer.P)
    checked(Regularizer.value, r.value)(w)
    checked(Regularizer.value, r.value)(w[0])
    checked(Regularizer.prox, r.prox)(w, step)
    checked(Regularizer.prox_jvp, r.prox_jvp)(w, step, rows(4, every_regularizer.P))
    checked(Regularizer.prox_jvp, r.prox_jvp)(w, step, rows(4, 3, every_regularizer.P))
    checked(Regularizer.active, r.active)(w, step)
    if r.smooth:
        checked(Regularizer.gradient, r.gradient)(w)


@pytest.mark.parametrize("p", [problem(), consensus.Problem.from_functions(lambda w: 0 * w[:, 0], lambda w: 0 * w, 3, 2)])
def test_problems(p):
    w = rows(p.agents, p.parameters)
    checked(BaseProblem.value, p.value)(w)
    checked(BaseProblem.gradient, p.gradient)(w)
    checked(BaseProblem.total_gradient, p.total_gradient)(w[0])
    for name in ("rows", "load"):
        checked(getattr(protocols.Problem, name).fget, lambda name=name: getattr(p, name))()


@pytest.mark.parametrize("local", [Exact(), CVXPYSolver()], ids=["exact", "CVXPY"])
@pytest.mark.parametrize("surrogate", [FullLinearization(1.0), PartialLinearization(1.0)], ids=["full", "partial"])
def test_surrogates_and_local_solvers(surrogate, local):
    p = local_problem("squared", REGULARIZERS["L1"].make(1))
    w, gradient, linear = centre(p)
    model = checked(Surrogate.at, surrogate.at)(p, w, gradient)
    checked(SurrogateModel.w.fget, lambda: model.w)()

    def solve(*arguments):
        return tuple(checked_fields(LocalSolution(*local.solve(*arguments))))

    checked(LocalSolver.solve, solve)(model, linear, p.regularizer, w, 1e-8)


@pytest.mark.parametrize("compressor", [Half(), NoCompression(), Quantize(4), RandomK(0.3), TopK(0.3), LowRank(1, [(0, 4, 3)])])
def test_compressors(compressor):
    packed = checked(Compressor.pack, compressor.pack)(rows(4, 12), np.arange(4), 0)
    for name in ("bytes", "numbers"):
        checked(getattr(Packed, name).fget, lambda name=name: getattr(packed, name))()
    checked(Packed.unpack, packed.unpack)()


def test_codecs():
    codec, sent = IntegerRows(6), np.round(rows(4, 6))
    sizes = checked(Codec.sizes, codec.sizes)(sent)
    message = np.frombuffer(checked(Codec.encode, codec.encode)(sent[0]), np.uint8)
    assert checked(Codec.decode, codec.decode)(message, 6)[1] == sizes[0]


@pytest.mark.parametrize("before", [None, NNM(), Bucketing(2)])
@pytest.mark.parametrize("kind", [CSPlus, NNA, ClippedGossip])
def test_robust_rules(kind, before):
    rule = kind(SOLVERS["DGD"], 0.2, before)

    def aggregate(messages):
        checked_fields(messages)
        if before is not None:
            messages = checked_fields(checked(PreAggregation.__call__, before)(messages, 0.2, np.arange(AGENTS), 0))
        return checked(Robust.aggregate, rule.aggregate)(messages)

    (aggregated,) = StackedNetwork(COMPLETE, np.dtype(float)).aggregate(0, aggregate, rows(AGENTS, 5))
    assert aggregated.shape == (AGENTS, 5)


class Checked:
    """A network, a tree or a flooding whose methods are checked."""

    def __init__(self, kind, inner):
        self._kind, self._inner = kind, inner

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if self._kind is Network and name in ("tree", "flooding"):
            return Checked(type(found), found)
        return checked(getattr(self._kind, name), found) if name in METHODS[self._kind] else found

    def edges(self, round):
        return checked_fields(self._inner.edges(round))


@dataclass(frozen=True)
class CheckedEngine(Engine):
    """The stacked engine with checks of what solver and network give each other."""

    def run(self, problem, schedule, solver, begin: Begin, rounds, observer):
        checked(protocols.Solver.init, solver.init)(problem, begin.numbers["w"])
        report = reports(observer, solver)

        def checked_report(state, *others):
            checked(protocols.State.w.fget, lambda: state.w)()
            checked(protocols.Solver.report, solver.report)(state)
            return report(state, *others)

        network = Checked(Network, StackedNetwork(schedule, problem.dtype))
        return run_rounds(problem, network, solver, begin, rounds, checked_report, observer.due)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", with_slow(SOLVERS, *list(SOLVERS)[1::2]))
def test_solvers_and_networks(name):
    model = MLP([4, 5, 1]) if name in MATRICES else None
    p, network = problem(regularizer=consensus.L2(0.1), model=model), OTHER_NETWORKS.get(name, STATIC)
    seen = consensus.solve(p, network, SOLVERS[name], rounds=3, engine=CheckedEngine())
    np.testing.assert_array_equal(seen.w, consensus.solve(p, network, SOLVERS[name], rounds=3, engine=Stacked()).w)


W, X, NONE = rows(4, 3), rows(4, 5, 3), np.zeros(2, int)
WRONG = {
    "of another block": lambda: checked(Model.predict, lambda w, x: x[:3])(W, X),
    "without an axis": lambda: checked(Model.predict, lambda w, x: w)(W, X),
    "arguments that differ": lambda: checked(Model.predict, lambda w, x: x)(W[:3], X),
    "integers": lambda: checked(Model.vjp, lambda w, x, u: w.astype(int))(W, X, X),
    "one block of two": lambda: checked(Network.mix, lambda round, *blocks: (blocks[0], blocks[1][1:]))(0, W, X),
    "no tuple": lambda: checked(Network.mix, lambda round, block: block)(0, W),
    "rows of messages": lambda: checked_fields(Messages(W, W[:, 0], NONE, NONE, W[:2, 0], X, NONE)),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_shapes_are_found(name):
    with pytest.raises(TypeCheckError):
        WRONG[name]()


@pytest.mark.slow
def test_runs_need_neither_jaxtyping_nor_beartype():
    use = """
import sys; sys.modules.update(jaxtyping=None, beartype=None)
import numpy as np, consensus, topologies
shards = consensus.partition(np.eye(4), np.arange(4.0), agents=4)
problem = consensus.Problem(consensus.MLP([4, 2, 1]), consensus.SquaredLoss(), shards, consensus.L1(0.1))
consensus.solve(problem, topologies.ring(4), consensus.solvers.AdaptiveNEXT(), rounds=2)
"""
    subprocess.run([sys.executable, "-c", use], check=True)


def test_solvers_without_rounds():
    for solver in (ASYSONATA(FullLinearization(9.0), 0.1), RASGP(0.01), OverlapSGP(0.01)):
        events = Events(problem(), PUSH, solver, Timetable.of(Simulated(), PUSH), rows(AGENTS, 5))
        checked_fields(events.arcs)
        checked(AsynchronousSolver.init, solver.init)(problem(), events.arcs, rows(AGENTS, 5))
        events.advance(AGENTS)
    checked(received, received)(events.arcs.r, rows(*events.arcs.sources.shape, 5))
    with pytest.raises(TypeCheckError):
        checked(received, lambda weights, messages: messages)(events.arcs.r, rows(*events.arcs.sources.shape, 5))
