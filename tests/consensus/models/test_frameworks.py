"""Models of PyTorch and JAX give what ours give, and what each other give."""

import frameworks
import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes
from consensus.solvers import DGD, NEXT, AdaptiveNEXT, GradientTracking
from consensus.surrogates import PartialLinearization

AGENTS, SAMPLES = 3, 5
OURS, ORDER = consensus.MLP(frameworks.WIDTHS), frameworks.torch_order()
SOLVERS = {
    "NEXT": NEXT(PartialLinearization(0.1), 0.3, tolerance=1e-12),
    "gradient tracking": GradientTracking(0.2),
    "AdaptiveNEXT": AdaptiveNEXT(),
    "D-PSGD": DGD(0.2, batch=4),
}


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


@pytest.fixture(scope="module")
def start():
    return OURS.init(np.random.default_rng(2))


@pytest.fixture(scope="module")
def references(start):
    ours = frameworks.problem(OURS)
    return {name: train(ours, solver, start) for name, solver in SOLVERS.items()}


def train(problem, solver, start, **options):
    options = {"rounds": 50, "record_every": 10} | options
    return consensus.solve(problem, topologies.path(3), solver, start=start, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_histories_are_those_of_our_mlp(name, framework, references, start):
    mlp, _, order = framework
    if name == "AdaptiveNEXT" and order is ORDER:  # it rounds and turns the coordinates that it is given: they must be ours
        mlp, order = frameworks.torch_mlp_in_our_order(), np.arange(len(ORDER))
    found, wanted = train(frameworks.problem(mlp), SOLVERS[name], start[order]), references[name]
    for column in ("objective", "stationarity", "disagreement"):
        np.testing.assert_allclose(found.history[column], wanted.history[column], rtol=1e-8, atol=1e-12, err_msg=column)
    np.testing.assert_allclose(found.w, wanted.w[:, order], rtol=1e-8, atol=1e-8)
    assert wanted.history["objective"][-1] < 0.9 * wanted.history["objective"][0]


@pytest.mark.slow
def test_bits_do_not_depend_on_who_is_worked_together(framework):
    """An agent alone, two and all three."""
    for model, dtype in zip(framework[:2], (np.float64, np.float32), strict=True):
        problem = frameworks.problem(model, dtype=dtype)
        w = np.random.default_rng(3).standard_normal((AGENTS, model.parameters)).astype(dtype) / 3
        whole = problem.gradient(w)
        parts = [problem.restrict(rows).gradient(w[rows]) for rows in (slice(0, 1), slice(1, 3))]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
        assert not np.array_equal(whole[0], whole[1])


@pytest.mark.slow
def test_workers_rebuild_the_model_and_get_the_same_bits(framework, start):
    problem, solver, begin = frameworks.problem(framework[0]), GradientTracking(0.1, batch=4), start[framework[2]]
    found, wanted = (train(problem, solver, begin, rounds=5, engine=engine) for engine in (Processes(2), "stacked"))
    np.testing.assert_array_equal(found.w, wanted.w)
    np.testing.assert_array_equal(found.history["objective"], wanted.history["objective"])
