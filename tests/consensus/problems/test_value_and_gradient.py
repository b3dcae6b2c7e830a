"""Costs and their gradients by one pass over the samples."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.data import LazyShards
from consensus.problems import LazyProblem
from consensus.solvers import DGD

RNG = np.random.default_rng(0)
SIZES = (5, 9, 12, 7)
PARTS = [(RNG.standard_normal((size, 4)), RNG.standard_normal(size)) for size in SIZES]
SHARDS = consensus.Shards.from_list(PARTS)
RING = topologies.ring(4)


class Bare:
    """A network without more than a model needs, which counts its calls."""

    def __init__(self):
        model = consensus.MLP([4, 3, 1])
        self.parameters, self.outputs, self.calls = model.parameters, 1, []
        self.init, self.of = model.init, {name: getattr(model, name) for name in ("predict", "vjp", "jvp")}

    def predict(self, w, x):
        self.calls.append(("predict", len(w) * x.shape[1]))
        return self.of["predict"](w, x)

    def vjp(self, w, x, u):
        self.calls.append(("vjp", len(w) * x.shape[1]))
        return self.of["vjp"](w, x, u)

    def jvp(self, w, x, v):
        return self.of["jvp"](w, x, v)


class Single(consensus.MLP):
    """A network that counts its passes."""

    passes = ()

    def predict(self, w, x):
        self.passes += ("predict",)
        return super().predict(w, x)

    def linearize(self, w, x):
        self.passes += ("linearize",)
        return super().linearize(w, x)


def problem(model=None, regularizer=None, loss=None, lazy=None):
    if lazy is not None:
        return LazyProblem(model, loss or consensus.SquaredLoss(), LazyShards.from_list(PARTS, chunk=lazy), regularizer)
    return consensus.Problem(model, loss or consensus.SquaredLoss(), SHARDS, regularizer)


def functions():
    return consensus.Problem.from_functions(lambda w: (w**4).sum(axis=1), lambda w: 4 * w**3, agents=4, parameters=3)


PROBLEMS = {
    "a network": lambda: problem(consensus.MLP([4, 3, 1])),
    "a bare model": lambda: problem(Bare()),
    "compiled kernels": lambda: problem(consensus.Linear(4), consensus.L2(0.1)),
    "a regularizer that is not convex": lambda: problem(consensus.MLP([4, 3, 1]), consensus.regularizers.SCAD(0.1)),
    "samples in parts": lambda: problem(consensus.MLP([4, 3, 1]), lazy=4),
    "samples at once": lambda: problem(consensus.MLP([4, 3, 1]), lazy=100),
    "functions": functions,
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_both_are_what_each_is_alone_and_count_as_one_gradient(name):
    p, alone = PROBLEMS[name](), PROBLEMS[name]()
    w = np.random.default_rng(1).standard_normal((4, p.parameters))
    value, gradient = p.value_and_gradient(w)
    assert value.shape == (4,)
    assert gradient.shape == w.shape
    np.testing.assert_allclose(value, alone.value(w), rtol=1e-13)
    np.testing.assert_allclose(gradient, alone.gradient(w), rtol=1e-12, atol=1e-15)
    assert p.work == alone.work
    block, whole = p.restrict([1, 3]).value_and_gradient(w[[1, 3]]), (value[[1, 3]], gradient[[1, 3]])
    for mine, theirs in zip(block, whole, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_one_pass_serves_both():
    model = Bare()
    problem(model).value_and_gradient(np.zeros((4, model.parameters)))
    assert model.calls == [("predict", 4 * 12), ("vjp", 4 * 12)]
    model = Single([4, 3, 1])
    problem(model).value_and_gradient(np.zeros((4, model.parameters)))
    assert model.passes == ("linearize",)


def test_a_row_is_one_pass():
    model = Single([4, 3, 1])
    result = consensus.solve(problem(model), RING, DGD(0.1), rounds=0)
    assert model.passes == ("linearize",)
    again = problem(consensus.MLP([4, 3, 1]))
    assert result.history["objective"][0] == pytest.approx(again.objective(result.mean), rel=1e-13)
    assert result.history["stationarity"][0] == pytest.approx(again.stationarity(result.mean), rel=1e-12)


def test_a_row_of_a_torch_module_is_one_pass():
    torch = pytest.importorskip("torch")
    calls = []

    class Watched(torch.nn.Linear):
        def forward(self, x):
            calls.append(len(x))
            return super().forward(x)

    torch.manual_seed(0)
    p = problem(consensus.models.Torch(torch.nn.Sequential(Watched(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))))
    p.gradient(np.zeros((4, p.parameters)))  # the module is tried before its first call
    calls.clear()
    p.gradient(np.zeros((4, p.parameters)))
    gradient = list(calls)
    calls.clear()
    consensus.solve(p, RING, DGD(0.1), rounds=0, start=np.zeros(p.parameters))
    assert calls == gradient


@pytest.mark.slow
def test_a_row_of_a_jax_function_is_one_pass():
    jax = pytest.importorskip("jax")
    calls = []

    def apply(parameters, x):
        jax.debug.callback(lambda: calls.append(1))
        return jax.numpy.tanh(x @ parameters["in"]) @ parameters["out"]

    model = consensus.models.JAX(apply, {"in": np.ones((4, 3)), "out": np.ones((3, 1))})
    p = problem(model)
    w = np.zeros((4, p.parameters))
    found, passes = [], []
    for once in (p.value, p.value_and_gradient):
        once(w)  # compiles
        jax.effects_barrier()
        calls.clear()
        found.append(once(w))
        jax.effects_barrier()
        passes.append(len(calls))
    assert passes[1] == passes[0] > 0
    np.testing.assert_allclose(found[1][0], found[0], rtol=1e-13)
