"""Models of PyTorch and JAX give what ours give, and what each other give; deep networks are loops by hand there."""

import functools

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes
from consensus.models import JAX, Torch
from consensus.solvers import DGD, NEXT, AdaptiveNEXT, GradientTracking
from consensus.surrogates import PartialLinearization
from experiments.benchmarks import deep
from experiments.benchmarks.networks import NETWORKS
from tests.helpers import frameworks

AGENTS, SAMPLES = 3, 5
OURS, ORDER = consensus.MLP(frameworks.WIDTHS), frameworks.torch_order()
SOLVERS = {
    "NEXT": NEXT(PartialLinearization(0.1), 0.3, tolerance=1e-12),
    "gradient tracking": GradientTracking(0.2),
    "AdaptiveNEXT": AdaptiveNEXT(),
    "D-PSGD": DGD(0.2, batch=4),
}
ROUNDS = {"AdaptiveNEXT": 10}  # after which a difference in the last bit has made of a message another multiple of its unit
FRAMEWORKS = {
    "torch": (frameworks.torch_mlp, frameworks.torch_cnn, ORDER),
    "jax": (frameworks.jax_mlp, frameworks.jax_cnn, np.arange(len(ORDER))),
}


@pytest.fixture(scope="module", params=FRAMEWORKS)
def framework(request):
    """The framework's MLP and convolutional network, and where our MLP's parameters are among its own."""
    pytest.importorskip(request.param)
    mlp, cnn, order = FRAMEWORKS[request.param]
    return mlp(), cnn(), order


def products(model, w, x, u, v):
    outputs, linearization = model.linearize(w, x)
    found = {"predict": model.predict(w, x), "outputs": outputs, "gram": linearization.gram()}
    return found | {"vjp": linearization.vjp(u), "jvp": linearization.jvp(v)}


def point(model, shape):
    rng = np.random.default_rng(1)
    w, v = (rng.standard_normal((AGENTS, model.parameters)) / 2 for _ in range(2))
    return w, rng.standard_normal((AGENTS, SAMPLES, *shape)), rng.standard_normal((AGENTS, SAMPLES, 3)), v


def assert_agree(found, wanted):
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.slow
def test_an_mlp_is_ours(framework):
    mlp, _, order = framework
    w, x, u, v = point(OURS, frameworks.WIDTHS[:1])
    wanted = products(OURS, w, x, u, v)
    wanted["vjp"] = wanted["vjp"][:, order]
    assert_agree(products(mlp, w[:, order], x, u, v[:, order]), wanted)


@pytest.mark.slow
def test_a_convolutional_network_is_the_same_in_both():
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    model = frameworks.torch_cnn()
    where = point(model, frameworks.IMAGE)
    assert_agree(products(frameworks.jax_cnn(), *where), products(model, *where))


@pytest.mark.parametrize("name", ["torch", pytest.param("jax", marks=pytest.mark.slow)])
def test_in_single_precision_adaptive_next_makes_the_rounds_of_our_mlp(name, start):
    pytest.importorskip(name)
    mlp = frameworks.torch_mlp_in_our_order() if name == "torch" else frameworks.jax_mlp()
    found, wanted = (
        train(frameworks.problem(model, dtype=np.float32), AdaptiveNEXT(), start.astype(np.float32), rounds=5, record_every=1)
        for model in (mlp, OURS)
    )
    assert found.w.dtype == wanted.w.dtype == np.float32
    np.testing.assert_allclose(found.history["objective"], wanted.history["objective"], rtol=1e-5)
    assert found.history["objective"][-1] < 0.7 * found.history["objective"][0]
    np.testing.assert_array_equal(found.history["tries"], wanted.history["tries"])  # as many local problems are doubted


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tangents_and_cotangents_of_the_other_precision_are_cast(dtype, framework):
    w, x, u, v = (array.astype(dtype) for array in point(framework[0], frameworks.WIDTHS[:1]))
    other = np.float64 if dtype == np.float32 else np.float32
    _, linearization = framework[0].linearize(w, x)
    for product, array in ((linearization.vjp, u), (linearization.jvp, v)):
        found, wanted = product(array.astype(other)), product(array.astype(other).astype(dtype))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, wanted)


VOCABULARY = 11
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, (60, 4))


def torch_embedding():
    from torch import nn

    return Torch(nn.Sequential(nn.Embedding(VOCABULARY, 6), nn.Flatten(), nn.Tanh(), nn.Linear(24, 3)))


def torch_linear():
    from torch import nn

    return Torch(nn.Linear(4, 3))


def jax_embedding():
    import jax.numpy as jnp

    def apply(parameters, x):
        return jnp.tanh(parameters["in"][x]).reshape(len(x), -1) @ parameters["out"]

    return JAX(apply, {"in": np.ones((VOCABULARY, 6), np.float32), "out": np.ones((24, 3), np.float32)})


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("make", [torch_embedding, pytest.param(jax_embedding, marks=pytest.mark.slow)])
def test_whole_numbers_stay_so_for_modules_and_runs_have_their_precision(make, dtype, forked):
    pytest.importorskip(make.__name__.partition("_")[0])
    shards = consensus.partition(TOKENS.astype(dtype), TOKENS[:, 0] % 3, 3, "sizes", sizes=[40, 1, 19])
    p = consensus.Problem(make(), consensus.CrossEntropy(), shards)
    assert (p.dtype, p.shards.features.dtype, p.weights.dtype, p.shards.targets.dtype) == (np.float32, dtype, *[np.float32] * 2)
    w = np.random.default_rng(1).standard_normal((3, p.parameters)).astype(np.float32) / 3
    one_hot = np.eye(VOCABULARY)[p.shards.features]  # an embedding is a product with these
    table, out = (w[:, : VOCABULARY * 6].reshape(3, VOCABULARY, 6).astype(float), w[:, VOCABULARY * 6 : VOCABULARY * 6 + 72])
    hidden = np.tanh(np.einsum("amtv,avk->amtk", one_hot, table)).reshape(3, -1, 24)
    bias = w[:, None, -3:] if make is torch_embedding else 0
    rule = "amk,aok->amo" if make is torch_embedding else "amk,ako->amo"
    outputs = np.einsum(rule, hidden, out.reshape(3, *((3, 24) if make is torch_embedding else (24, 3)))) + bias
    np.testing.assert_allclose(p.model.predict(w, p.shards.features), outputs, rtol=1e-4, atol=1e-5)
    for solver in (SOLVERS["NEXT"], SOLVERS["AdaptiveNEXT"], SOLVERS["D-PSGD"]):
        result = consensus.solve(p, topologies.path(3), solver, rounds=2, test=(TOKENS, TOKENS[:, 0] % 3))
        assert result.w.dtype == np.float32
    if make is torch_embedding:  # copies of a process cannot use JAX
        there = consensus.solve(p, topologies.path(3), SOLVERS["D-PSGD"], rounds=2, engine=Processes(2))
        np.testing.assert_array_equal(there.w, result.w)


@pytest.mark.parametrize("make", [lambda: consensus.Linear(4, 3), torch_linear])
def test_whole_numbers_become_float64_for_models_that_do_not_take_them(make, caplog):
    pytest.importorskip("torch")
    shards = consensus.partition(TOKENS, TOKENS[:, 0] % 3, 3)
    with caplog.at_level("INFO", "consensus"):
        p = consensus.Problem(make(), consensus.CrossEntropy(), shards)
    assert "features in int64 become float64, as" in caplog.text
    assert p.dtype == p.shards.features.dtype == p.gradient(np.ones((3, 15))).dtype == np.float64


@pytest.fixture(scope="module")
def start():
    return OURS.init(np.random.default_rng(2))


@pytest.fixture(scope="module")
def references(start):
    ours = frameworks.problem(OURS)
    return {name: train(ours, solver, start, rounds=ROUNDS.get(name, 50)) for name, solver in SOLVERS.items()}


def train(problem, solver, start, **options):
    options = {"rounds": 50, "record_every": 10} | options
    return consensus.solve(problem, topologies.path(3), solver, start=start, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_histories_are_those_of_our_mlp(name, framework, references, start):
    mlp, _, order = framework
    if name == "AdaptiveNEXT" and order is ORDER:  # it rounds and turns the coordinates that it is given: they must be ours
        mlp, order = frameworks.torch_mlp_in_our_order(), np.arange(len(ORDER))
    found, wanted = train(frameworks.problem(mlp), SOLVERS[name], start[order], rounds=ROUNDS.get(name, 50)), references[name]
    for column in ("objective", "stationarity", "disagreement"):
        np.testing.assert_allclose(found.history[column], wanted.history[column], rtol=1e-8, atol=1e-12, err_msg=column)
    np.testing.assert_allclose(found.w, wanted.w[:, order], rtol=1e-8, atol=1e-8)
    assert wanted.history["objective"][-1] < 0.9 * wanted.history["objective"][0]


@pytest.mark.slow
def test_gradients_do_not_depend_on_who_is_worked_together(framework):
    """An agent alone, two and all three, but for rounding."""
    for model, dtype, tolerance in zip(framework[:2], (np.float64, np.float32), (1e-12, 1e-5), strict=True):
        problem = frameworks.problem(model, dtype=dtype)
        w = np.random.default_rng(3).standard_normal((AGENTS, model.parameters)).astype(dtype) / 3
        whole = problem.gradient(w)
        parts = [problem.restrict(rows).gradient(w[rows]) for rows in (slice(0, 1), slice(1, 3))]
        np.testing.assert_allclose(np.concatenate(parts), whole, rtol=tolerance, atol=tolerance * np.abs(whole).max())
        assert not np.array_equal(whole[0], whole[1])


@pytest.mark.slow
def test_workers_rebuild_the_model_and_get_the_same(framework, start):
    problem, solver, begin = frameworks.problem(framework[0]), GradientTracking(0.1, batch=4), start[framework[2]]
    found, wanted = (train(problem, solver, begin, rounds=5, engine=engine) for engine in (Processes(2), "stacked"))
    np.testing.assert_allclose(found.w, wanted.w, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.history["objective"], wanted.history["objective"], rtol=1e-12)


# Five kinds of deep networks against loops by hand in their frameworks, on graphs that stand still and that change.


SMALL, FEW = True, 6


@functools.cache  # compiled once
def network_and_problem(name):
    network = NETWORKS[name](8, SMALL)
    return network, deep.problem_of(network)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", deep.SCHEDULES)
@pytest.mark.parametrize("name", NETWORKS)
def test_single_precision_rounds_are_those_by_hand(name, schedule):
    pytest.importorskip("jax" if name == "GPT" else "torch")
    (network, problem), graphs = network_and_problem(name), deep.SCHEDULES[schedule](8)
    run = deep.run_of(network, graphs, FEW)
    found, by_hand = deep.ours(network, problem, graphs, run)[0], network.rounds(run)
    assert found.dtype == by_hand.dtype == np.float32
    assert np.abs(by_hand - run.start).max() > 1e-3 * np.abs(by_hand).max()  # they moved
    assert np.ptp(by_hand, axis=0).max() > 0
    np.testing.assert_allclose(found, by_hand, rtol=0, atol=1e-6 * np.abs(by_hand).max())
