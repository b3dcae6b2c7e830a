"""Costs and their gradients by one pass over the samples, and as JAX compiles them together."""

import numpy as np
import pytest

import consensus
import topologies
from consensus._arrays.parallel import one_blas_thread
from consensus.data import LazyShards
from consensus.losses import CrossEntropy, Huber, LogisticLoss, SquaredLoss
from consensus.problems import LazyProblem
from consensus.solvers import DGD
from tests.helpers.turns import with_slow

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


def test_a_block_without_agents_asks_the_model_for_nothing():
    model = Bare()
    none = problem(model).restrict([])
    w = np.empty((0, model.parameters))
    with one_blas_thread:  # as in rounds
        assert none.gradient(w).shape == none.average_gradient(w).shape == none.descended(w, 0.1, w).shape == w.shape
        assert none.value(w).shape == (0,)
    assert model.calls == []


# Gradients that a model computes together with the loss, as JAX compiles them.


@pytest.mark.parametrize(
    "loss", with_slow([CrossEntropy(), Huber(0.3), LogisticLoss(), SquaredLoss()], LogisticLoss(), SquaredLoss()), ids=str
)
def test_a_compiled_gradient_is_that_of_the_loss(loss):
    """Logits up to a thousand; shards of unequal sizes; an agent alone gets the same bits."""
    pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 4)) * np.logspace(-2, 3, 12)[:, None]
    outputs = 3 if isinstance(loss, CrossEntropy) else 1
    y = rng.integers(0, max(2, outputs), 12)
    shards = consensus.partition(X, y, 3, "sizes", sizes=[6, 4, 2])
    model = consensus.models.JAX(lambda weights, x: x @ weights, np.zeros((4, outputs)))
    problem = consensus.Problem(model, loss, shards, consensus.L2(0.1))
    w = rng.standard_normal((3, problem.parameters))

    found, linearization = problem.linearize(w, slice(None))
    wanted = linearization.vjp(loss.gradient(found, shards.targets) * problem.weights[:, :, None])
    gradient = problem.gradient(w)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-11, atol=1e-14 * np.abs(wanted).max())
    np.testing.assert_array_equal(problem.restrict(slice(1, 2)).gradient(w[1:2]), gradient[1:2])
    assert problem.work.samples == 12


def test_a_derived_loss_is_not_compiled_as_its_base():
    pytest.importorskip("jax")

    class Doubled(SquaredLoss):
        def gradient(self, outputs, targets):
            return 2 * super().gradient(outputs, targets)

    model = consensus.models.JAX(lambda weights, x: x @ weights, np.zeros((4, 1)))
    assert model.gradient_of(SquaredLoss()) is not None
    assert model.gradient_of(Doubled()) is None


def test_a_model_with_a_faster_gradient_is_asked_for_it():
    class Scale:
        """f(w, x) = w x, with the gradient of squared errors in one line."""

        parameters = outputs = 1

        def init(self, rng):
            return np.zeros(1)

        def predict(self, w, x):
            return x * w[:, :, None]

        def vjp(self, w, x, u):
            raise AssertionError("not the faster way")

        jvp = vjp

        def gradient_of(self, loss):
            def gradient(w, x, targets, weights, out):
                out[...] = (weights * (x * (x * w[:, :, None] - targets))[:, :, 0]).sum(axis=1, keepdims=True)

            return gradient if isinstance(loss, SquaredLoss) else None

    x, w = np.arange(1.0, 7.0), np.array([[1.0], [3.0]])
    problem = consensus.Problem(Scale(), SquaredLoss(), consensus.partition(x[:, None], 2 * x, 2))
    curvature = (problem.weights * problem.shards.features[:, :, 0] ** 2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(problem.gradient(w), curvature * (w - 2), rtol=1e-14)
    with pytest.raises(AssertionError, match="not the faster way"):
        consensus.Problem(Scale(), Huber(0.3), problem.shards).gradient(w)
