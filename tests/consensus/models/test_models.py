"""Models against a plain loop over agents and layers, and their Jacobians against its complex-step derivative."""

import copy
import pickle
import re

import numpy as np
import pytest
from scipy import stats

from consensus.models import MLP, Linear, ResNet, linearize
from consensus.testing import check_model
from tests.helpers.refusals import refusals

AGENTS, SAMPLES = 3, 4
ACTIVATIONS = {  # of complex arguments, too
    "tanh": np.tanh,
    "relu": lambda a: np.where(a.real > 0, a, 0),
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "softplus": lambda a: np.log(1 + np.exp(a)),
    "quadratic": lambda a: a**2,
}
SHAPES = [3, 4, 1], [3, 5, 4, 2], [2, 3, 3, 2, 3], [1, 1, 1], [4, 6, 2]
MODELS = [
    *(Linear(1), Linear(1, bias=False), Linear(4), Linear(4, outputs=3), Linear(4, outputs=3, bias=False), MLP([3, 2])),
    *(MLP(widths, activation) for activation in ACTIVATIONS for widths in SHAPES),
    *(ResNet(3, 4, 3, outputs, activation=activation) for activation in ACTIVATIONS for outputs in (1, 2)),
    *(ResNet(1, 1, 1, 1), ResNet(4, 1, 2, 3, step=0.7), ResNet(2, 3, 1, 2, step=1.5)),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=str)


def draw(model, agents=AGENTS, samples=SAMPLES, seed=0):
    """Parameters w, features x, tangents v, cotangents u."""
    rng = np.random.default_rng(seed)
    shapes = (model.parameters,), (samples, model.features), (model.parameters,), (samples, model.outputs)
    return [rng.standard_normal((agents, *shape)) for shape in shapes]


def plain(model, w, x):
    """f(w, x) for one agent, sample by sample: layer after layer, weights row by row and then biases."""
    biased = model.bias
    results = []
    for sample in x:
        h, start = sample, 0
        for layer, (inputs, outputs) in enumerate(zip(model.widths[:-1], model.widths[1:])):
            weights = w[start : start + inputs * outputs].reshape(inputs, outputs)
            start += inputs * outputs
            a = weights.T @ h
            if biased:
                a = a + w[start : start + outputs]
                start += outputs
            if layer < len(model.widths) - 2:
                a = ACTIVATIONS[model.activation](a)
                if layer > 0 and isinstance(model, ResNet):
                    a = h + model.step * a
            h = a
        assert start == len(w) == model.parameters
        results.append(h)
    return np.array(results)


def complex_step(model, w, x):
    """J by the finite difference Im f(w + ih)/h, which loses no digits; shape (agents, samples * outputs, P)."""
    h = 1e-100
    columns = [[plain(model, row + 1j * h * unit, own).imag.ravel() / h for unit in np.eye(len(row))] for row, own in zip(w, x)]
    return np.array(columns).swapaxes(1, 2)


def close(actual, expected, digits=1e-13):
    """Equal up to rounding of numbers as large as the largest of ``expected``."""
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=digits * max(1, np.abs(expected).max()))


@every_model
def test_outputs_and_derivatives_are_those_of_a_plain_loop(model):
    w, x, v, u = draw(model)
    expected, jacobian = np.array([plain(model, *own) for own in zip(w, x)]), complex_step(model, w, x)
    close(model.predict(w, x), expected, 1e-14)
    close(model.predict(w[0], x[0]), expected[0], 1e-14)  # one point, one set of samples
    close(model.jacobian(w, x), jacobian)
    close(model.jvp(w, x, v), (jacobian @ v[:, :, None]).reshape(u.shape))
    close(model.vjp(w, x, u), (u.reshape(AGENTS, 1, -1) @ jacobian)[:, 0])
    close(model.gram(w, x), jacobian @ jacobian.swapaxes(1, 2))
    diagonal = linearize(model, w, x)[1].diagonal(u**2)
    close(diagonal, (u.reshape(AGENTS, -1, 1) ** 2 * jacobian**2).sum(axis=1))


@every_model
def test_models_keep_the_contract(model):
    for dtype in (np.float64, np.float32):
        report = check_model(model, dtype=dtype)
        compared = set(report.errors)
        assert {"jvp and differences of predict", "gram and jvp of vjp", "diagonal and jvp", "linearize and vjp"} <= compared
        assert all(name in str(report) for name in compared)


@every_model
def test_a_linearization_serves_products_in_any_order(model):
    w, x, v, u = draw(model)
    linearization = linearize(model, w, x)[1]
    columns = np.flatnonzero(np.random.default_rng(0).random(model.parameters) < 0.4)
    for _ in range(2):
        np.testing.assert_array_equal(linearization.gram(), model.gram(w, x))
        np.testing.assert_array_equal(linearization.jvp(v), model.jvp(w, x, v))
        np.testing.assert_array_equal(linearization.vjp(u), model.vjp(w, x, u))
        for some in (slice(None), columns, np.array([], int)):
            found = linearization.jacobian(None if isinstance(some, slice) else some)
            np.testing.assert_array_equal(found, model.jacobian(w, x)[..., some])


@pytest.mark.slow
@pytest.mark.parametrize(
    "large",
    [Linear(40), Linear(40, outputs=7, bias=False), MLP([13, 20, 1]), MLP([30, 50, 40, 10], "relu"), ResNet(13, 20, 6, 3)],
    ids=str,
)
def test_an_agent_alone_gives_the_same_bits_as_in_a_batch(large):
    w, x, v, u = draw(large, agents=7, samples=33)
    for name, extra in {"predict": (), "vjp": (u,), "jvp": (v,), "jacobian": (), "gram": ()}.items():
        batch = getattr(large, name)(w, x, *extra)
        for rows in [slice(agent, agent + 1) for agent in range(7)] + [slice(2, 5)]:
            own = [array[rows] for array in extra]
            for some_w, some_x in [(w[rows], x[rows]), (w[rows].copy(), x[rows].copy())]:
                np.testing.assert_array_equal(getattr(large, name)(some_w, some_x, *own), batch[rows])


@every_model
def test_one_set_of_features_may_serve_all_agents(model):
    w, x, v, u = draw(model)
    shared, repeated = x[:1], np.repeat(x[:1], AGENTS, axis=0)
    for name, extra in {"predict": (), "vjp": (u,), "jvp": (v,), "jacobian": (), "gram": ()}.items():
        close(getattr(model, name)(w, shared, *extra), getattr(model, name)(w, repeated, *extra), 1e-15)


class Scaled(MLP):
    """A perceptron with a constructor of its own."""

    def __init__(self, factor):
        super().__init__([4, 3, 1], "relu")
        self.factor = factor


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_of_a_subclass_keeps_its_attributes(copied):
    other = copied(Scaled(0.5))
    assert type(other) is Scaled
    assert vars(other) == vars(Scaled(0.5))


def test_a_linear_model_starts_at_zero_and_is_its_own_linearization():
    model = Linear(4, outputs=2)
    np.testing.assert_array_equal(model.init(np.random.default_rng(0)), np.zeros(10))
    w, x, v, _ = draw(model)
    close(model.predict(w + v, x), model.predict(w, x) + model.jvp(w, x, v), 1e-14)
    for model in (Linear(4, bias=False), Linear(4)):
        w, x, *_ = draw(model)
        close(model.design(x) @ w[:, :, None], model.predict(w, x), 1e-14)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_random_starts_are_normal_with_the_variance_of_glorot_and_he(activation):
    model = MLP([200, 150, 50, 3], activation)
    start = model.init(np.random.default_rng(7))
    assert not np.array_equal(start, model.init(np.random.default_rng(8)))
    for inputs, outputs in [(200, 150), (150, 50), (50, 3)]:
        weights, bias, start = np.split(start, [inputs * outputs, inputs * outputs + outputs])
        np.testing.assert_array_equal(bias, 0)
        scale = np.sqrt(2 * (2 if activation == "relu" else 1) / (inputs + outputs))
        assert abs(weights.mean()) < 4 * scale / np.sqrt(weights.size)
        assert weights.var() == pytest.approx(scale**2, rel=4 * np.sqrt(2 / weights.size))
        assert stats.kstest(weights / scale, "norm").pvalue > 0.01
    assert start.size == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [MLP([3, 8, 5, 2]), MLP([3, 9, 1]), ResNet(3, 5, 3, 2), ResNet(3, 6, 2, 1), Linear(3, 2, bias=False)], ids=str
)
def test_the_upper_triangle_of_a_scaled_gram_matrix(model):
    """Over more than one block of rows; entries below the diagonal are undefined."""
    rng = np.random.default_rng(0)
    w, scale = rng.standard_normal((2, model.parameters)), rng.random((2, 290, model.outputs))
    for x in rng.standard_normal((2, 290, 3)), rng.standard_normal((1, 290, 3)):
        linearization = model.linearize(w, x)[1]
        rooted = scale.reshape(2, -1, 1) * linearization.jacobian()
        close(np.triu(linearization.upper_gram(scale)), np.triu(rooted @ rooted.swapaxes(1, 2)))
        close(linearization.gram(), linearization.jacobian() @ linearization.jacobian().swapaxes(1, 2))


@pytest.mark.parametrize("method", ["predict", "linearize", "vjp", "jvp", "jacobian", "gram"])
@pytest.mark.parametrize("model", [Linear(2, outputs=2), MLP([2, 3, 2]), ResNet(2, 3, 4, 2)], ids=str)
def test_wrong_shapes_are_named(method, model):
    p = model.parameters
    good = {"w": (3, p), "x": (3, 4, 2), "v": (3, p), "u": (3, 4, 2)}
    wrong = {
        rf"w must have shape \(agents, {p}\) for ": [("w", shape) for shape in [(3, p - 1), (3, 1, p)]],
        r"x must have shape \(3, samples, 2\) for ": [("x", shape) for shape in [(3, 4, 3), (2, 4, 2), (4, 2)]],
    }
    of = {"vjp": "u", "jvp": "v"}.get(method, "")
    if method == "jvp":
        words = rf"v must have the shape of w, \(3, {p}\), for "
        wrong[words] = [("v", shape) for shape in [(3, p + 1), (3, p - 1), (1, p), (p,)]]
    if method == "vjp":
        wrong[r"u must have shape \(3, 4, 2\) for "] = [
            ("u", shape) for shape in [(3, 4, 1), (1, 4, 2), (3, 5, 2), (4, 4, 2), (3, 4)]
        ]
    for words, cases in wrong.items():
        for name, shape in cases:
            shapes = good | {name: shape}
            with pytest.raises(ValueError, match=rf"{words}(Linear|MLP|ResNet).*; got \({', '.join(map(str, shape))},?\)"):
                getattr(model, method)(*(np.zeros(shapes[name]) for name in ("w", "x", *of)))


@pytest.mark.parametrize("model", [MLP([2, 10**13, 1]), MLP([2, 10**18, 1]), ResNet(3, width=10**7, layers=2, outputs=1)])
def test_a_model_that_no_memory_holds_says_how_large_it_is(model):
    gigabytes = re.escape(f"{8 * model.parameters / 1e9:.3g} GB for each agent")
    with pytest.raises(
        MemoryError, match=rf"^{re.escape(str(model))} has {model.parameters} parameters, {gigabytes}.*: take narrower"
    ):
        model.init(np.random.default_rng(0))


test_refusals = refusals(
    (lambda: Linear(0), ValueError, r"features must be a whole number >= 1; got 0"),
    (lambda: Linear(2.0), ValueError, r"features must be a whole number >= 1; got 2\.0"),
    (lambda: Linear(2, outputs=-1), ValueError, r"outputs must be a whole number >= 1; got -1"),
    (lambda: Linear(2, outputs=None), ValueError, r"outputs must be a whole number >= 1; got None"),
    (lambda: MLP([3]), ValueError, r"widths must be \[inputs, hidden, \.\.\., outputs\]; got \[3\]"),
    (lambda: MLP([]), ValueError, r"widths must be \[inputs, hidden, \.\.\., outputs\]; got \[\]"),
    (lambda: MLP(5), ValueError, r"widths must be \[inputs, hidden, \.\.\., outputs\]; got 5"),
    (lambda: MLP([3, 0, 1]), ValueError, r"widths\[1\] must be a whole number >= 1; got 0"),
    (lambda: MLP([3, 4, 1.5]), ValueError, r"widths\[2\] must be a whole number >= 1; got 1\.5"),
    (lambda: MLP([3, 1], "gelu"), ValueError, r"activation must be one of 'tanh', 'relu', 'sigmoid', .*; got 'gelu'"),
    (lambda: ResNet(0, 4, 3, 1), ValueError, r"features must be a whole number >= 1; got 0"),
    (lambda: ResNet(2, 4.0, 3, 1), ValueError, r"width must be a whole number >= 1; got 4\.0"),
    (lambda: ResNet(2, 4, 0, 1), ValueError, r"layers must be a whole number >= 1; got 0"),
    (lambda: ResNet(2, 4, 3, None), ValueError, r"outputs must be a whole number >= 1; got None"),
    (lambda: ResNet(2, 4, 3, 1, step=0), ValueError, r"step must be a finite number > 0; got 0"),
    (lambda: ResNet(2, 4, 3, 1, step=np.inf), ValueError, r"step must be a finite number > 0; got inf"),
    (lambda: ResNet(2, 4, 3, 1, activation="swish"), ValueError, r"activation must be one of 'tanh', .*; got 'swish'"),
    (lambda: MLP([3, 1], None), ValueError, r"activation must be one of 'tanh', .*; got None"),
)
