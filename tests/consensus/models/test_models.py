"""Models against a plain loop over agents and layers, and their Jacobians against its complex-step derivative."""

import copy
import pickle

import numpy as np
import pytest
from problems import data
from scipy import stats

import consensus
import topologies
from consensus.engines import Processes
from consensus.models import MLP, Linear, linearize
from consensus.solvers import NEXT, GradientTracking
from consensus.step_sizes import Constant
from consensus.surrogates import PartialLinearization

AGENTS, SAMPLES = 3, 4
ACTIVATIONS = {  # written for complex arguments too
    "tanh": np.tanh,
    "relu": lambda a: np.where(a.real > 0, a, 0),
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "softplus": lambda a: np.log(1 + np.exp(a)),
    "quadratic": lambda a: a**2,
}
LINEAR = [
    Linear(1),
    Linear(1, bias=False),
    Linear(4),
    Linear(4, outputs=3),
    Linear(4, outputs=3, bias=False),
]
PERCEPTRONS = [
    MLP(widths, activation)
    for activation in ACTIVATIONS
    for widths in ([3, 4, 1], [3, 5, 4, 2], [2, 3, 3, 2, 3], [1, 1, 1], [4, 6, 2])
]
MODELS = [*LINEAR, MLP([3, 2]), *PERCEPTRONS]


@pytest.fixture(params=MODELS, ids=str)
def model(request):
    return request.param


def draw(model, agents=AGENTS, samples=SAMPLES, seed=0, dtype=np.float64):
    """Parameters w, features x, tangents v, cotangents u."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((agents, model.parameters))
    x = rng.standard_normal((agents, samples, model.features))
    v = rng.standard_normal((agents, model.parameters))
    u = rng.standard_normal((agents, samples, model.outputs))
    return [array.astype(dtype) for array in (w, x, v, u)]


def plain(model, w, x):
    """f(w, x) for one agent, sample by sample: layer after layer, weights row by row and then biases."""
    activation = ACTIVATIONS[model.activation] if isinstance(model, MLP) else None
    biased = isinstance(model, MLP) or model.bias
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
            h = a if layer == len(model.widths) - 2 else activation(a)
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


def test_predict_is_that_of_a_plain_loop(model):
    w, x, _, _ = draw(model)
    expected = np.array([plain(model, *own) for own in zip(w, x)])
    close(model.predict(w, x), expected, 1e-14)
    for agent in range(AGENTS):
        close(model.predict(w[agent], x[agent]), expected[agent], 1e-14)  # one point, one set of samples


def test_jacobian_is_the_finite_difference(model):
    w, x, _, _ = draw(model)
    close(model.jacobian(w, x), complex_step(model, w, x))


def test_products_are_those_with_the_finite_difference(model):
    w, x, v, u = draw(model)
    jacobian = complex_step(model, w, x)
    close(model.jvp(w, x, v), (jacobian @ v[:, :, None]).reshape(u.shape))
    close(model.vjp(w, x, u), (u.reshape(AGENTS, 1, -1) @ jacobian)[:, 0])
    close(model.gram(w, x), jacobian @ jacobian.swapaxes(1, 2))


def test_products_agree_with_the_jacobian_and_each_other(model):
    w, x, v, u = draw(model, agents=2, samples=30, seed=1)
    jacobian = model.jacobian(w, x)
    moved, pulled = model.jvp(w, x, v), model.vjp(w, x, u)
    close(moved, (jacobian @ v[:, :, None]).reshape(u.shape))
    close(pulled, (u.reshape(2, 1, -1) @ jacobian)[:, 0])
    close(np.vecdot(u.reshape(2, -1), moved.reshape(2, -1)), np.vecdot(pulled, v))  # u.(J v) = (J' u).v
    gram = model.gram(w, x)
    close(gram, jacobian @ jacobian.swapaxes(1, 2))
    close(gram, gram.swapaxes(1, 2), 1e-15)


def test_some_columns_of_the_jacobian_are_those_of_the_whole(model):
    w, x, _, _ = draw(model)
    linearization = linearize(model, w, x)[1]
    whole, p = model.jacobian(w, x), model.parameters
    chosen = [np.arange(p), np.arange(0, p, 2), np.arange(p // 2, p), np.array([p - 1]), np.array([], int)]
    for columns in [*chosen, np.flatnonzero(np.random.default_rng(0).random(p) < 0.4)]:
        np.testing.assert_array_equal(linearization.jacobian(columns), whole[..., columns])


def test_diagonal_is_that_of_the_weighted_normal_matrix(model):
    w, x, _, u = draw(model)
    weights = u**2
    jacobian = complex_step(model, w, x)
    close(linearize(model, w, x)[1].diagonal(weights), (weights.reshape(AGENTS, -1, 1) * jacobian**2).sum(axis=1))


def test_one_linearization_serves_all_products_in_any_order(model):
    w, x, v, u = draw(model)
    outputs, linearization = linearize(model, w, x)
    np.testing.assert_array_equal(outputs, model.predict(w, x))
    kept = u.copy(), v.copy()
    out = np.full_like(w, np.nan)
    for _ in range(2):
        np.testing.assert_array_equal(linearization.gram(), model.gram(w, x))
        np.testing.assert_array_equal(linearization.jvp(v), model.jvp(w, x, v))
        assert linearization.vjp(u, out=out) is out
        np.testing.assert_array_equal(out, model.vjp(w, x, u))
        np.testing.assert_array_equal(linearization.jacobian(), model.jacobian(w, x))
    np.testing.assert_array_equal(u, kept[0])
    np.testing.assert_array_equal(v, kept[1])


@pytest.mark.parametrize(
    "large", [Linear(40), Linear(40, outputs=7, bias=False), MLP([13, 20, 1]), MLP([30, 50, 40, 10], "relu")], ids=str
)
def test_an_agent_alone_gives_the_same_bits_as_in_a_batch(large):
    agents = 7
    w, x, v, u = draw(large, agents, samples=33)
    results = {
        "predict": large.predict(w, x),
        "vjp": large.vjp(w, x, u),
        "jvp": large.jvp(w, x, v),
        "jacobian": large.jacobian(w, x),
        "gram": large.gram(w, x),
    }
    for rows in [slice(agent, agent + 1) for agent in range(agents)] + [slice(2, 5)]:
        own = {"vjp": (u[rows],), "jvp": (v[rows],)}
        for name, batch in results.items():
            for some_w, some_x in [(w[rows], x[rows]), (w[rows].copy(), x[rows].copy())]:
                alone = getattr(large, name)(some_w, some_x, *own.get(name, ()))
                np.testing.assert_array_equal(alone, batch[rows])


def test_one_set_of_features_may_serve_all_agents(model):
    w, x, v, u = draw(model)
    shared = x[:1]
    repeated = np.repeat(shared, AGENTS, axis=0)
    close(model.predict(w, shared), model.predict(w, repeated), 1e-15)
    close(model.vjp(w, shared, u), model.vjp(w, repeated, u), 1e-15)
    close(model.jvp(w, shared, v), model.jvp(w, repeated, v), 1e-15)
    close(model.jacobian(w, shared), model.jacobian(w, repeated), 1e-15)
    close(model.gram(w, shared), model.gram(w, repeated), 1e-15)


class Scaled(MLP):
    """A perceptron whose outputs have a factor, with a constructor of its own."""

    def __init__(self, factor, inputs=4):
        super().__init__([inputs, 3, 1], "relu")
        self.factor = factor

    def linearize(self, w, x):
        outputs, linearization = super().linearize(w, x)
        self_vjp, factor = linearization.vjp, self.factor
        linearization.vjp = lambda u, out=None: self_vjp(factor * u, out)
        return factor * outputs, linearization

    def _predicted(self, w, x):
        return self.factor * super()._predicted(w, x)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_of_a_subclass_keeps_its_attributes(copied):
    model = Scaled(0.5)
    w, x, *_ = draw(model)
    other = copied(model)
    assert type(other) is Scaled
    assert vars(other) == vars(model)
    np.testing.assert_array_equal(other.predict(w, x), MLP([4, 3, 1], "relu").predict(w, x) / 2)


def test_workers_compute_with_a_subclass_what_one_process_does(forked):
    X, y = data()
    problem = consensus.Problem(Scaled(0.5), consensus.SquaredLoss(), consensus.partition(X, y, 4))
    runs = [
        consensus.solve(problem, topologies.ring(4), GradientTracking(0.05), rounds=5, engine=engine)
        for engine in ("stacked", Processes(2))
    ]
    np.testing.assert_array_equal(runs[0].w, runs[1].w)


def test_float32_stays_float32(model):
    w, x, v, u = draw(model, dtype=np.float32)
    wide = [array.astype(np.float64) for array in (w, x, v, u)]
    for name, extra in [("predict", ()), ("vjp", (3,)), ("jvp", (2,)), ("jacobian", ()), ("gram", ())]:
        narrow = getattr(model, name)(w, x, *((w, x, v, u)[i] for i in extra))
        assert narrow.dtype == np.float32
        close(narrow, getattr(model, name)(*wide[:2], *(wide[i] for i in extra)), 4e-6)


def test_counts_and_shapes(model):
    layers = list(zip(model.widths[:-1], model.widths[1:]))
    assert model.parameters == sum(m * k + (k if model.bias else 0) for m, k in layers)
    start = model.init(np.random.default_rng(5))
    assert start.shape == (model.parameters,)
    np.testing.assert_array_equal(start, model.init(np.random.default_rng(5)))


def test_a_linear_model_starts_at_zero_and_is_its_own_linearization():
    model = Linear(4, outputs=2)
    np.testing.assert_array_equal(model.init(np.random.default_rng(0)), np.zeros(10))
    w, x, v, _ = draw(model)
    close(model.predict(w + v, x), model.predict(w, x) + model.jvp(w, x, v), 1e-14)


@pytest.mark.parametrize(("activation", "gain"), [*((name, 1) for name in ACTIVATIONS if name != "relu"), ("relu", 2)])
def test_random_starts_are_normal_with_the_variance_of_glorot_and_he(activation, gain):
    model = MLP([200, 150, 50, 3], activation)
    start = model.init(np.random.default_rng(7))
    assert not np.array_equal(start, model.init(np.random.default_rng(8)))
    for inputs, outputs in [(200, 150), (150, 50), (50, 3)]:
        weights, bias, start = np.split(start, [inputs * outputs, inputs * outputs + outputs])
        np.testing.assert_array_equal(bias, 0)
        scale = np.sqrt(2 * gain / (inputs + outputs))
        assert abs(weights.mean()) < 4 * scale / np.sqrt(weights.size)
        assert weights.var() == pytest.approx(scale**2, rel=4 * np.sqrt(2 / weights.size))
        assert stats.kstest(weights / scale, "norm").pvalue > 0.01
    assert start.size == 0


class Sine:
    """A user's model ``f = a sin(x b)`` with the least that a model needs; w holds b (features,) and then a."""

    outputs = 1

    def __init__(self, features):
        self.parameters = features + 1

    def init(self, rng):
        return rng.standard_normal(self.parameters)

    def _parts(self, w, x):
        return x @ w[:, :-1, None], w[:, None, -1:]

    def predict(self, w, x):
        phase, a = self._parts(w, x)
        return a * np.sin(phase)

    def vjp(self, w, x, u):
        phase, a = self._parts(w, x)
        return np.concatenate([(x * (u * a * np.cos(phase))).sum(axis=1), (u * np.sin(phase)).sum(axis=1)], axis=1)

    def jvp(self, w, x, v):
        phase, a = self._parts(w, x)
        moved, grown = self._parts(v, x)
        return a * np.cos(phase) * moved + grown * np.sin(phase)


def test_a_users_model_is_linearized_from_its_products():
    model, rng = Sine(2), np.random.default_rng(1)
    w, v = rng.standard_normal((2, 4, 3))
    x, u = rng.standard_normal((4, 6, 2)), rng.standard_normal((4, 6, 1))
    outputs, linearization = linearize(model, w, x)
    np.testing.assert_array_equal(outputs, model.predict(w, x))
    h = 1e-100
    steps = [1j * h * unit for unit in np.eye(3)]
    jacobian = np.stack([model.predict(w + step, x).imag[..., 0] / h for step in steps], axis=-1)
    close(linearization.jvp(v), jacobian @ v[:, :, None], 1e-14)
    close(linearization.vjp(u), (u.swapaxes(1, 2) @ jacobian)[:, 0], 1e-14)
    out = np.empty((4, 3))
    assert linearization.vjp(u, out=out) is out
    np.testing.assert_array_equal(out, linearization.vjp(u))


def test_a_users_model_makes_a_problem():
    rng = np.random.default_rng(2)
    X, y, point = rng.standard_normal((23, 2)), rng.standard_normal(23), rng.standard_normal(3)
    shards = consensus.partition(X, y, agents=4, seed=0)
    problem = consensus.Problem(Sine(2), consensus.SquaredLoss(), shards, consensus.L2(0.1))

    def pooled(point):
        return ((point[2] * np.sin(X @ point[:2]) - y) ** 2).mean() / 2 + 0.05 * point @ point

    assert problem.objective(point) == pytest.approx(pooled(point), rel=1e-14)
    total = problem.total_gradient(point) + problem.regularizer.gradient(point)
    numeric = [pooled(point + 1e-100j * unit).imag / 1e-100 for unit in np.eye(3)]
    np.testing.assert_allclose(total, numeric, rtol=1e-13)


class Bare:
    """A model stripped of everything that is optional but what is named."""

    def __init__(self, model, *optional):
        for name in ("parameters", "outputs", "init", "predict", "vjp", "jvp", *optional):
            setattr(self, name, getattr(model, name))


def test_a_users_model_has_a_jacobian_and_a_gram_matrix_where_it_offers_one():
    whole = MLP([2, 3, 2])
    w, x, _, _ = draw(whole)
    J, columns = whole.jacobian(w, x), np.array([0, 3, 16])
    for optional in [(), ("jacobian",), ("gram",), ("jacobian", "gram")]:
        linearization = linearize(Bare(whole, *optional), w, x)[1]
        assert hasattr(linearization, "gram") == ("gram" in optional)
        assert not hasattr(linearization, "diagonal")
        tolerance = 0 if "jacobian" in optional else 1e-13  # else it is made by vjp
        np.testing.assert_allclose(linearization.jacobian(), J, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(linearization.jacobian(columns), J[..., columns], rtol=tolerance, atol=tolerance)
        if "gram" in optional:
            np.testing.assert_array_equal(linearization.gram(), whole.gram(w, x))


@pytest.mark.parametrize("optional", [(), ("jacobian",), ("gram",)], ids=["products alone", "jacobian", "gram"])
@pytest.mark.parametrize("model", [Linear(2), MLP([2, 4, 1])], ids=["more samples", "more parameters"])
def test_a_bare_model_runs_partial_linearization_as_a_whole_one(model, optional):
    rng = np.random.default_rng(0)
    shards = consensus.partition(rng.standard_normal((22, 2)), rng.standard_normal(22), agents=4, seed=0)
    start = rng.standard_normal(model.parameters)

    def iterates(model):
        problem = consensus.Problem(model, consensus.SquaredLoss(), shards, consensus.L2(0.1))
        solver = NEXT(PartialLinearization(0.5), Constant(0.3), tolerance=1e-13)
        return consensus.solve(problem, topologies.Static(topologies.ring(4)), solver, rounds=10, start=start).w

    close(iterates(Bare(model, *optional)), iterates(model), 1e-12)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"w": (3, 12)}, r"w must have shape \(agents, 13\) for MLP\(\[2, 3, 1\], activation='tanh'\); got \(3, 12\)"),
        ({"w": (3, 1, 13)}, r"w must have shape \(agents, 13\).*got \(3, 1, 13\)"),
        ({"x": (3, 4, 3)}, r"x must have shape \(3, samples, 2\) for MLP.*got \(3, 4, 3\)"),
        ({"x": (2, 4, 2)}, r"x must have shape \(3, samples, 2\) for MLP.*got \(2, 4, 2\)"),
        ({"x": (4, 2)}, r"x must have shape \(3, samples, 2\) for MLP.*got \(4, 2\)"),
    ],
)
@pytest.mark.parametrize("method", ["predict", "linearize", "vjp", "jvp", "jacobian", "gram"])
def test_wrong_shapes_are_named(method, bad, words):
    model = MLP([2, 3, 1])
    shapes = {"w": (3, 13), "x": (3, 4, 2), **bad}
    extra = {"vjp": [np.zeros((3, 4, 1))], "jvp": [np.zeros((3, 13))]}.get(method, [])
    with pytest.raises(ValueError, match=words):
        getattr(model, method)(np.zeros(shapes["w"]), np.zeros(shapes["x"]), *extra)


@pytest.mark.parametrize("model", [Linear(2, outputs=2), MLP([2, 3, 2])], ids=str)
def test_wrong_shapes_of_tangents_and_cotangents_are_named(model):
    w, x, _, _ = draw(model)
    p = model.parameters
    for shape in [(3, p + 1), (3, p - 1), (1, p), (p,)]:
        with pytest.raises(ValueError, match=rf"v must have the shape of w, \(3, {p}\), for .*; got \({shape[0]},"):
            model.jvp(w, x, np.zeros(shape))
    for shape in [(3, 4, 1), (1, 4, 2), (3, 5, 2), (4, 4, 2), (3, 4)]:
        with pytest.raises(ValueError, match=rf"u must have shape \(3, 4, 2\) for .*; got \({shape[0]}, "):
            model.vjp(w, x, np.zeros(shape))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Linear(0), r"features must be a whole number >= 1; got 0"),
        (lambda: Linear(2.0), r"features must be a whole number >= 1; got 2\.0"),
        (lambda: Linear(2, outputs=-1), r"outputs must be a whole number >= 1; got -1"),
        (lambda: Linear(2, outputs=None), r"outputs must be a whole number >= 1; got None"),
        (lambda: MLP([3]), r"widths must be \[inputs, hidden, \.\.\., outputs\]; got \[3\]"),
        (lambda: MLP([]), r"widths must be \[inputs, hidden, \.\.\., outputs\]; got \[\]"),
        (lambda: MLP(5), r"widths must be \[inputs, hidden, \.\.\., outputs\]; got 5"),
        (lambda: MLP([3, 0, 1]), r"widths\[1\] must be a whole number >= 1; got 0"),
        (lambda: MLP([3, 4, 1.5]), r"widths\[2\] must be a whole number >= 1; got 1\.5"),
        (lambda: MLP([3, 1], "gelu"), r"activation must be one of 'tanh', 'relu', 'sigmoid', .*; got 'gelu'"),
        (lambda: MLP([3, 1], None), r"activation must be one of 'tanh', .*; got None"),
    ],
)
def test_bad_settings_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    "model", [consensus.MLP([3, 8, 5, 2]), consensus.MLP([3, 9, 1]), consensus.Linear(3, 2, bias=False)], ids=str
)
def test_the_upper_triangle_of_a_scaled_gram_matrix(model):
    """Over more than one block of rows; what lies below the diagonal does not count."""
    rng = np.random.default_rng(0)
    w, scale = rng.standard_normal((2, model.parameters)), rng.random((2, 290, model.outputs))
    for x in rng.standard_normal((2, 290, 3)), rng.standard_normal((1, 290, 3)):
        linearization = model.linearize(w, x)[1]
        rooted = scale.reshape(2, -1, 1) * linearization.jacobian()
        close(np.triu(linearization.upper_gram(scale)), np.triu(rooted @ rooted.swapaxes(1, 2)))
        close(linearization.gram(), linearization.jacobian() @ linearization.jacobian().swapaxes(1, 2))
