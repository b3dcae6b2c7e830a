"""What is particular to functions of JAX."""

import pickle

import cloudpickle
import numpy as np
import pytest

from consensus import SquaredLoss
from consensus.frameworks.base import Framework
from consensus.models import JAX
from consensus.testing import check_model
from tests.helpers import frameworks
from tests.helpers.refusals import refusals

jax = pytest.importorskip("jax")
jnp = jax.numpy
ZEROS = {"in": np.zeros((4, 3), np.float32), "out": [np.zeros((3, 2)), np.zeros(2)]}


def apply(parameters, x):
    weights, bias = parameters["out"]
    return jnp.tanh(x @ parameters["in"]) @ weights + bias


@pytest.mark.slow
def test_it_passes_the_check():
    """In float32: in float64 the comparison with ours does the same."""
    model = cloudpickle.loads(cloudpickle.dumps(JAX(apply, ZEROS)))  # as a worker gets it
    assert {"jacobian and jvp", "gram and jvp of vjp"} <= set(check_model(model, 4, dtype=np.float32).errors)
    assert model.for_samples((4,)) is model.for_samples([4])
    assert pickle.loads(pickle.dumps(frameworks.jax_mlp())).parameters == frameworks.jax_mlp().parameters


def test_parameters_are_flattened_in_the_order_of_the_leaves_and_restored():
    model, w = JAX(apply, ZEROS), np.arange(20.0)
    tree = model.unflatten(w)
    assert jax.tree.structure(tree) == jax.tree.structure(ZEROS)
    np.testing.assert_array_equal(np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(tree)]), w)
    np.testing.assert_array_equal(tree["out"][0], w[12:18].reshape(3, 2))
    assert model.init(np.random.default_rng(0)).tolist() == [0] * 20


def test_of_a_function_every_seed_has_a_start():
    model = JAX(lambda tree, x: x @ tree["w"], lambda key: {"w": jax.random.normal(key, (4, 2))})
    starts = [model.init(np.random.default_rng(seed)) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0], starts[2])
    assert model.parameters == 8


@pytest.mark.parametrize(("change", "message"), [
    (lambda y: y * jax.random.bernoulli(jax.random.key(0), 0.5, y.shape), "draws random numbers, as dropout does: "),
    (lambda y: y - y.mean(0), "a sample's outputs depend on the other samples or on their order, as batch statistics, "),
    (lambda y: jnp.cumsum(y, axis=0), r"a sample's outputs depend on the other samples or on their order, as .*cumsum\(0\)"),
    (lambda y: jnp.sort(y, axis=0), r"a sample's outputs depend on the other samples or on their order, as .*sort\(0\)"),
    (lambda y: y + float(np.random.rand()), "draws random numbers from NumPy's global generator"),  # noqa: NPY002
    (lambda y: y.sum(), r"must return \(samples, outputs\) in the dtype of w, float32; of x .* it made float32 \(\)$"),
    (lambda y: (y, y), r"must return \(samples, outputs\).* it made .*a tuple"),
])  # fmt: skip
def test_what_is_no_function_of_a_sample_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        JAX(lambda parameters, x: change(x @ parameters), np.zeros((4, 2))).for_samples((4,))


@pytest.mark.parametrize("end", [lambda y: y[:, 0], lambda y: y.squeeze()])
def test_one_output_may_have_no_axis_of_its_own(end):
    rng, w = np.random.default_rng(0), np.ones(4)
    for samples in (1, 5):
        x = rng.standard_normal((3, samples, 4))
        one, other = (JAX(lambda w, x, end=end: end(x @ w), w[:, None]).for_samples((4,)) for end in (end, lambda y: y))
        rows, u = rng.standard_normal((3, 4)), rng.standard_normal((3, samples, 1))
        np.testing.assert_array_equal(one.predict(rows, x), other.predict(rows, x))
        np.testing.assert_array_equal(one.vjp(rows, x, u), other.vjp(rows, x, u))


@pytest.mark.parametrize("kind", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
def test_parameters_of_few_digits_compute_in_their_own_precision(kind):
    rng = np.random.default_rng(0)
    given, x = {"w": jnp.asarray(rng.standard_normal((4, 2)), kind)}, rng.standard_normal((5, 4)).astype(np.float32)
    model = JAX(lambda parameters, x: x.astype(kind) @ parameters["w"], given)
    w = model.init(rng)
    assert w.dtype == np.float32
    assert model.unflatten(w)["w"].dtype == kind
    np.testing.assert_allclose(model.predict(w, x), x.astype(kind) @ given["w"], rtol=1e-2, atol=1e-2)
    slopes = jax.grad(lambda parameters: (x.astype(kind) @ parameters["w"]).astype("float32").sum())(given)
    np.testing.assert_allclose(model.vjp(w[None], x[None], np.ones((1, 5, 2), np.float32))[0], slopes["w"].ravel(), rtol=1e-2)


def test_constants_in_another_precision_are_refused_where_the_run_has_it():
    model = JAX(lambda parameters, x: x.astype("float32") @ parameters.astype("float32"), np.zeros((4, 2)))
    with pytest.raises(
        ValueError, match=r"in float32 it works: give features X.astype\('float32'\), or give its constants the dtype"
    ):
        model.for_samples((4,), np.float64)
    assert model.for_samples((4,)).outputs == 2


def _gpus():
    try:
        return jax.devices("cuda")
    except RuntimeError:
        return []


@pytest.mark.skipif(not _gpus(), reason="there is no GPU")
def test_a_gpu_gives_what_the_cpu_gives():
    rng = np.random.default_rng(0)
    w, x, u = rng.standard_normal((3, 20)), rng.standard_normal((3, 5, 4)), rng.standard_normal((3, 5, 2))
    here, there = (JAX(apply, ZEROS, device=device).vjp(w, x, u) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-11)


def test_on_another_device_agents_share_a_call(monkeypatch):
    """By ``vmap``: here agents with so many samples are computed one by one."""
    data = np.random.default_rng(0).standard_normal((3, 12_000, 4)), np.zeros((3, 12_000, 2))
    w, weights = np.random.default_rng(1).standard_normal((3, 20)), np.ones((3, 12_000))
    found, calls = [], []
    for away in (False, True):
        monkeypatch.setattr(Framework, "away", away)
        model, out = JAX(apply, ZEROS).for_samples((4,), np.float64), np.empty((3, 20))
        pull_back = model._here.pull_back
        monkeypatch.setattr(model._here, "pull_back", lambda *given, of=pull_back: calls.append(1) or of(*given))
        model.gradient_of(SquaredLoss())(w, *data, weights, out=out)
        found.append((out, len(calls)))
    assert [count for _, count in found] == [3, 4]  # three calls, then one more
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-10)


test_refusals = refusals(
    (lambda: JAX(apply, {"w": np.array([1, 2])}), TypeError,
     r"^parameters must be a pytree of arrays of floats.*; got array\(\[1"),
    (lambda: JAX(apply, []), TypeError, r"^parameters must be a pytree of arrays of floats"),
    (lambda: JAX(3, ZEROS), TypeError, r"^apply must be a function apply\(parameters, x\)"),
    (lambda: JAX(apply, ZEROS, device="abacus"), ValueError,
     r"^device must be one that JAX has here, such as 'cpu'; got 'abacus'"),
    (lambda: JAX(apply, ZEROS, device=3), TypeError, "device must be a name such as 'cpu' or 'cuda:1'; got 3"),
    (lambda: JAX(apply, ZEROS).for_samples((5,)), ValueError, r"fails on samples of shape \(5,\): TypeError: dot_general"),
    (lambda: JAX(apply, {"w": np.ones(3) * 1j}), TypeError, "give its real and imaginary parts as two arrays"),
)  # fmt: skip
