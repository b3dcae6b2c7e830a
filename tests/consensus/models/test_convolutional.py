"""The convolutional network against SciPy's correlations, complex steps and PyTorch, and its maps against their adjoints."""

import numpy as np
import pytest
from scipy.signal import correlate2d

import consensus
import topologies
from consensus.deep.image_maps import Patches, Squares
from consensus.models import Convolutional, Torch, linearize
from consensus.solvers import NEXT, AdaptiveNEXT, GradientTracking
from consensus.surrogates import PartialLinearization
from consensus.testing import check_model

AGENTS, SAMPLES = 3, 4
MODELS = [
    Convolutional((1, 8, 8), [4, 6], 3),
    Convolutional((2, 6, 4), [3], 2, kernel=5, pool=1, activation="softplus"),
    Convolutional((3, 4, 8), [2, 1, 3], 1, kernel=1, pool=1, activation="quadratic"),
    Convolutional((1, 9, 3), [5], 2, pool=3, activation="sigmoid"),
]
every = pytest.mark.parametrize("model", MODELS, ids=str)
FUNCTIONS = {
    "tanh": np.tanh,
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "softplus": lambda a: np.log(1 + np.exp(a)),
    "quadratic": lambda a: a**2,
}


def drawn(model, seed=0):
    """Parameters w, features x, tangents v, cotangents u."""
    rng = np.random.default_rng(seed)
    shapes = (model.parameters,), (SAMPLES, *model.features), (model.parameters,), (SAMPLES, model.outputs)
    return [rng.standard_normal((AGENTS, *shape)) for shape in shapes]


def plain(model, w, x):
    """f(w, x) of one agent, image by image, by SciPy's correlations, filter by filter and channel by channel."""
    size, results = model.kernel, []
    for sample in x:
        image, start = sample, 0
        for filters in model.filters:
            channels, height, width = image.shape
            weights = w[start : start + size * size * channels * filters].reshape(size, size, channels, filters)
            start += weights.size
            planes = []
            for k in range(filters):
                plane = w[start + k] + np.zeros((height, width))
                for c in range(channels):
                    plane = plane + correlate2d(image[c], np.conj(weights[:, :, c, k]), mode="same")
                planes.append(FUNCTIONS[model.activation](plane))
            start += filters
            p = model.pool
            image = np.array(planes).reshape(filters, height // p, p, width // p, p).mean(axis=(2, 4))
        row = image.transpose(1, 2, 0).ravel()
        head = w[start : start + row.size * model.outputs].reshape(row.size, model.outputs)
        results.append(row @ head + w[start + head.size :])
        assert start + head.size + model.outputs == len(w) == model.parameters
    return np.array(results)


@every
def test_outputs_and_derivatives_are_those_of_a_plain_loop(model):
    """Derivatives by complex steps, of some parameters of each layer."""
    w, x, v, u = drawn(model)
    w, h = 0.5 * w, 1e-100
    expected = np.array([plain(model, *own) for own in zip(w, x)])
    scale = np.abs(expected).max()
    np.testing.assert_allclose(model.predict(w, x), expected, rtol=0, atol=1e-14 * max(1, scale))
    moved = np.array([plain(model, row + 1j * h * by, own).imag / h for row, by, own in zip(w, v, x)])
    np.testing.assert_allclose(model.jvp(w, x, v), moved, rtol=0, atol=1e-13 * np.abs(moved).max())
    jacobian = model.jacobian(w, x)
    for k in np.linspace(0, model.parameters - 1, 12).astype(int):
        column = [plain(model, row + 1j * h * (np.arange(len(row)) == k), own).imag.ravel() / h for row, own in zip(w, x)]
        np.testing.assert_allclose(jacobian[:, :, k], column, rtol=0, atol=1e-13 * np.abs(jacobian).max())
    wanted = (u.reshape(AGENTS, 1, -1) @ jacobian)[:, 0]
    np.testing.assert_allclose(model.vjp(w, x, u), wanted, rtol=0, atol=1e-13 * np.abs(wanted).max())


@every
def test_it_keeps_the_contract_of_models(model):
    for dtype in (np.float64, np.float32):
        report = check_model(model, dtype=dtype)
        assert {"vjp and jvp, u . J v = J' u . v", "gram and jvp of vjp", "vjp of several and of one"} <= set(report.errors)


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_adjoints_of_patches(size, lead):
    """<P h, u> = <h, P* u>; patches times a kernel are a correlation."""
    rng, maps = np.random.default_rng(size), Patches(4, 6, 2, size)
    h = rng.standard_normal((*lead, 5, 4, 6, 2))
    found = maps.of(h)
    u = rng.standard_normal(found.shape)
    assert found.shape == (*lead, 5 * 4 * 6, maps.length)
    assert (found * u).sum() == pytest.approx((h * maps.adjoint(u)).sum(), rel=1e-12)
    kernel = rng.standard_normal((size, size, 2))
    image = h.reshape(-1, 4, 6, 2)[0]
    wanted = sum(correlate2d(image[..., c], kernel[..., c], mode="same") for c in range(2))
    np.testing.assert_allclose((found @ kernel.ravel()).reshape(-1, 4, 6)[0], wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_adjoints_of_squares(size):
    rng, maps = np.random.default_rng(size), Squares(6, 12, size)
    h = rng.standard_normal((2, 5 * 6 * 12, 3))
    found = maps.of(h)
    u = rng.standard_normal(found.shape)
    assert (found * u).sum() == pytest.approx((h * maps.adjoint(u)).sum(), rel=1e-12)
    wanted = h.reshape(2, 5, 6 // size, size, 12 // size, size, 3).mean(axis=(3, 5))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-15)


def test_it_is_pytorchs():
    nn = pytest.importorskip("torch").nn
    ours = Convolutional((2, 8, 4), [3, 5], 4)
    first, second = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(3, 5, 3, padding=1)
    net = nn.Sequential(first, nn.Tanh(), nn.AvgPool2d(2), second, nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(10, 4))
    theirs = Torch(net)
    places, start = np.arange(ours.parameters), 0
    order = []
    for shape in ((3, 3, 2, 3), (3, 3, 3, 5)):  # (row, column, channel, filter), which PyTorch has the other way round
        count = int(np.prod(shape))
        order += [places[start : start + count].reshape(shape).transpose(3, 2, 0, 1).ravel()]
        order += [places[start + count : start + count + shape[3]]]
        start += count + shape[3]
    order += [places[start : start + 40].reshape(2, 1, 5, 4).transpose(3, 2, 0, 1).ravel(), places[start + 40 :]]
    order = np.concatenate(order)
    w, x, v, u = drawn(ours)
    np.testing.assert_allclose(ours.predict(w, x), theirs.predict(w[:, order], x), rtol=0, atol=1e-13)
    for found, wanted in (
        (ours.vjp(w, x, u)[:, order], theirs.vjp(w[:, order], x, u)),
        (ours.jvp(w, x, v), theirs.jvp(w[:, order], x, v[:, order])),
        (ours.jacobian(w, x)[:, :, order], theirs.jacobian(w[:, order], x)),
    ):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


@every
def test_an_agent_alone_gives_the_same_bits_as_in_a_batch(model):
    w, x, v, u = drawn(model)
    for name, extra in {"predict": (), "vjp": (u,), "jvp": (v,), "jacobian": (), "gram": ()}.items():
        whole = getattr(model, name)(w, x, *extra)
        for rows in (slice(0, 1), slice(1, 3)):
            own = [array[rows].copy() for array in (w, x, *extra)]
            np.testing.assert_array_equal(getattr(model, name)(*own), whole[rows])
        np.testing.assert_allclose(
            getattr(model, name)(w, x[:1], *extra), getattr(model, name)(w, np.repeat(x[:1], AGENTS, axis=0), *extra)
        )


def test_columns_of_the_jacobian_are_those_of_the_whole():
    model = MODELS[0]
    w, x, *_ = drawn(model)
    some = np.array([0, 5, 41, 100, model.parameters - 1])
    np.testing.assert_array_equal(linearize(model, w, x)[1].jacobian(some), model.jacobian(w, x)[..., some])


@pytest.mark.slow
@pytest.mark.parametrize("solver", [NEXT(PartialLinearization(0.5), 0.5), AdaptiveNEXT(), GradientTracking(1.0)], ids=str)
def test_it_learns_digits_over_a_network(solver):
    X, y = consensus.datasets.load("digits")
    X, y = X.reshape(-1, 1, 8, 8)[:60] / 16, y[:60] % 3
    shards = consensus.partition(X, y, agents=4)
    p = consensus.Problem(Convolutional((1, 8, 8), [3, 4], 3), consensus.CrossEntropy(), shards, consensus.L2(1e-2))
    found = consensus.solve(p, topologies.complete(4), solver, rounds=40, exchanges=40).history
    assert found["objective"][-1] < 0.9 * found["objective"][0]


@pytest.mark.parametrize(("settings", "words"), [
    ({"shape": (8, 8)}, r"shape must be \(channels, height, width\) of a sample; got \(8, 8\)"),
    ({"filters": []}, "filters must be one number or more"),
    ({"filters": [4, 0]}, r"filters\[1\] must be"),
    ({"kernel": 4}, "kernel must be odd"),
    ({"pool": 3}, "pool must divide height and width of every layer's image; got 3 for 8 x 8, layer 0 of 2"),
    ({"filters": [2, 2, 2, 2]}, "got 2 for 1 x 1, layer 3 of 4"),
    ({"activation": "gelu"}, "activation must be one of"),
    ({"outputs": 0}, "outputs must be"),
])  # fmt: skip
def test_bad_settings_are_rejected(settings, words):
    with pytest.raises(ValueError, match=words):
        Convolutional(**({"shape": (1, 8, 8), "filters": [4, 6], "outputs": 3} | settings))


def test_arrays_of_other_shapes_are_rejected():
    w, x, v, u = drawn(MODELS[0])
    with pytest.raises(ValueError, match=r"x must have shape \(3, samples, 1, 8, 8\) for Convolutional"):
        MODELS[0].predict(w, x[..., :7])
    with pytest.raises(ValueError, match=r"u must have shape \(3, 4, 3\)"):
        MODELS[0].vjp(w, x, u[:, :3])
    with pytest.raises(ValueError, match="v must have the shape of w"):
        MODELS[0].jvp(w, x, v[:2])
