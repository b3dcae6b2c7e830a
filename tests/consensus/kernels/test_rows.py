"""The compiled sums of rows and gradients of linear models: against NumPy and SciPy, wherever an agent stands."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

import consensus
from consensus import kernels
from consensus._arrays.parallel import threads
from consensus.kernels.kernel import Kernel
from tests.helpers.every_kernel import bits, compiled, every_dtype

pytestmark = compiled


@every_dtype
@np.errstate(invalid="ignore")  # infinities of both signs
def test_multiples_are_added_from_left_to_right(dtype):
    x, y, z = np.random.default_rng(0).standard_normal((3, 4, 67)).astype(dtype)
    x[0, :4], y[0, :4], z[0, :4] = [np.nan, np.inf, -0.0, 0.0], [1, np.inf, 0.0, -0.0], [2, 1, -0.0, 0.0]
    a, b, c = (np.array(factor, dtype) for factor in (0.3, -1.7, 2.9))
    cases = (kernels.combined, (a, b), a * x + b * y), (kernels.descended, (a, b, c), x - a * (b * y + c * z))
    for kernel, factors, expected in cases:
        arrays = (x, y, z)[: len(factors)]
        for turn in (lambda rows: rows, lambda rows: rows[:, ::-1], lambda rows: rows[::2, 3::5], lambda rows: rows[1]):
            assert bits(kernel(*map(turn, arrays), *factors)) == bits(turn(expected))
        for place in range(len(factors)):
            for function in (kernel, kernel.__wrapped__):
                rows = [array.copy() for array in arrays]
                assert function(*rows, *factors, out=rows[place]) is rows[place]
                assert bits(rows[place]) == bits(expected)


@every_dtype
@pytest.mark.parametrize("width", [1, 5, 20, 2500])
def test_rows_are_mixed_as_by_scipy(width, dtype):
    rng = np.random.default_rng(1)
    dense = rng.standard_normal((6, 9)) * (rng.random((6, 9)) < 0.5) * (np.arange(6) != 2)[:, None]  # one row has no entries
    matrix = sp.csr_array(dense.astype(dtype))
    x = rng.standard_normal((9, 2 * width)).astype(dtype)
    x[3, :1] = np.nan
    places = [part.astype(np.intp) for part in (matrix.indices, matrix.indptr)]
    for block in (x, x[:, width:], x[::-1, :width]):
        out = np.full((6, 2 * block.shape[1]), 7, dtype)
        kernels.mixed(block, matrix.data, *places, out=out[:, : block.shape[1]])
        assert bits(out[:, : block.shape[1]]) == bits(matrix @ block)
        assert (out[:, block.shape[1] :] == 7).all()


@every_dtype
def test_products_have_the_bits_of_numpy_whatever_the_layout(dtype):
    rng = np.random.default_rng(2)
    x, u = (rng.standard_normal(shape).astype(dtype) for shape in ((3, 40, 67), (3, 40)))
    row, out = np.broadcast_to(x[:, :1], x.shape), np.full((3, 40, 90), 7, dtype)
    for turn in (lambda a: a, lambda a: a[:, ::-1, ::-1], lambda a: a[::2, 5:, 3::5], lambda a: a.swapaxes(1, 2)[:, :40]):
        factors = turn(u[:, :, None].repeat(67, 2))[:, :, 0]
        for given in (turn(x), turn(row)):
            assert bits(kernels.scaled_rows(factors, given)) == bits(factors[..., None] * given)
            assert bits(kernels.outer(factors, given[:, 1])) == bits(factors[..., None] * given[:, 1:2])
    kernels.scaled_rows(u, x, out=out[:, :, 3:70])
    assert bits(out[:, :, 3:70]) == bits(u[..., None] * x)
    assert (out[:, :, [*range(3), *range(70, 90)]] == 7).all()


@every_dtype
@np.errstate(all="raise")
def test_triangles_have_the_bits_of_numpy_whatever_is_below_them(dtype):
    x, y = np.random.default_rng(3).standard_normal((2, 3, 150, 150)).astype(dtype)
    huge = np.finfo(dtype).max
    for turn in (lambda a: a, lambda a: a[:, ::-1, ::-1], lambda a: a[::2, 10::2, 70:140], lambda a: a.swapaxes(1, 2)):
        below = np.broadcast_to(np.tri(turn(x).shape[1], k=-1, dtype=bool), turn(x).shape)
        outside = np.ones(x.shape, bool)
        turn(outside)[...] = False
        for kernel, function in ((kernels.upper_multiplied, np.multiply), (kernels.upper_added, np.add)):
            for chosen in (kernel, kernel.__wrapped__):
                factor, result = x.copy(), y.copy()
                turn(factor)[below] = turn(result)[below] = huge  # and huge times huge would raise
                place = turn(result)
                assert chosen(turn(factor), out=place) is place
                assert bits(place[~below]) == bits(function(turn(y), turn(x))[~below])
                assert bits(result[outside]) == bits(y[outside])
                assert chosen is kernel.__wrapped__ or (place[below] == huge).all()


# The compiled gradients of linear models: against NumPy in long doubles, and the same bits wherever an agent stands.


SHAPES = [(1, 1), (2, 3), (3, 8), (4, 9), (5, 20), (64, 7), (65, 16), (131, 21), (30, 700), (6, 9000)]  # samples, features


class Case(NamedTuple):
    """The kernels of a loss, its largest slope, and its value and slope in NumPy."""

    gradients: Kernel
    values: Kernel
    limit: float
    value: Callable
    slope: Callable

    def __call__(self, given, scale=1.0, ridge=0.0, plain=False):
        """Gradients and values."""
        settings = np.array([scale, ridge, self.limit], given[0].dtype)
        pair = self.gradients, self.values
        return [kernel.__wrapped__(*given, settings, None) if plain else kernel(*given, settings) for kernel in pair]


def huber(f, d):
    e = abs(f - d)
    return np.where(e < 0.7, e**2 / 2, 0.7 * (e - 0.35))


LOGISTIC, HUBER = (getattr(kernels, f"linear_{name}") for name in ("logistic", "huber"))
CASES = {
    "logistic": Case(
        *(LOGISTIC, kernels.linear_logistic_value, np.inf),
        value=lambda f, d: np.logaddexp(-d * f, (1 - d) * f),
        slope=lambda f, d: 1 / (1 + np.exp(-f)) - d,
    ),
    "huber": Case(HUBER, kernels.linear_huber_value, 0.7, huber, lambda f, d: np.clip(f - d, -0.7, 0.7)),
    "squared": Case(HUBER, kernels.linear_huber_value, np.inf, lambda f, d: (f - d) ** 2 / 2, lambda f, d: f - d),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def drawn(samples, features, bias, dtype, agents=5):
    """Parameters, features, targets and weights."""
    rng = np.random.default_rng([samples, features, bias])
    w, x = rng.normal(size=(agents, features + bias)) / features**0.5, rng.normal(size=(agents, samples, features))
    d, c = rng.integers(0, 2, (agents, samples)), rng.random((agents, samples))
    return [array.astype(dtype) for array in (w, x, d, c)]


def rows(arrays, chosen):
    return [array[chosen] for array in arrays]


@every_dtype
@every_case
@pytest.mark.parametrize("bias", [0, 1])
def test_gradients_and_values_are_those_of_numpy_in_long_doubles(case, dtype, bias):
    for samples, features in SHAPES:
        given, eps = drawn(samples, features, bias, dtype), np.finfo(dtype).eps
        w, x, d, c = (array.astype(np.longdouble) for array in given)
        x = np.concatenate([x, np.ones((*x.shape[:2], bias))], axis=2)
        f, largest = (x @ w[:, :, None])[:, :, 0], (abs(x) @ abs(w)[:, :, None])[:, :, 0]
        gradients, values = case(given, 3, 0.5)
        plain = case(given, 3, 0.5, plain=True)

        u = case.slope(f, d) * c
        exact, size = 3 * (u[:, None] @ x)[:, 0] + 0.5 * w, 3 * (abs(u)[:, None] @ abs(x))[:, 0] + abs(w)
        outputs_off = largest.max() * features**0.5  # errors of outputs are passed on by slopes
        assert (abs(gradients - exact) <= (samples + outputs_off + 4) * eps * (size + 3 * c.sum())).all()
        np.testing.assert_allclose(gradients, plain[0], rtol=0, atol=120 * eps * samples)

        exact, off = (case.value(f, d) * c).sum(axis=1), features**0.5 * (abs(u) * largest).sum(axis=1)
        assert (abs(values - exact) <= (samples / 4 + 8) * eps * (exact + off)).all()
        np.testing.assert_allclose(values, plain[1], rtol=120 * eps)


@every_dtype
@every_case
def test_the_bits_of_an_agent_do_not_depend_on_its_place_or_alignment(case, dtype):
    for samples, features in SHAPES:
        given = drawn(samples, features, 1, dtype)
        whole = case(given)
        for chosen in (slice(2, 4), *(slice(agent, agent + 1) for agent in range(5))):
            assert bits(*case(rows(given, chosen))) == bits(*rows(whole, chosen))
        moved = []
        for array in given:
            memory = np.empty(array.size + 3, dtype)
            memory[3:] = array.ravel()
            moved.append(memory[3:].reshape(array.shape))
        assert bits(*case(moved)) == bits(*whole)
        same = np.broadcast_to(given[0][:1], given[0].shape)
        alone = case([same[:1].copy(), *rows(given[1:], slice(4, None))])
        assert bits(*rows(case([same, *given[1:]]), slice(4, None))) == bits(*alone)


@every_dtype
@every_case
def test_samples_of_weight_zero_at_the_end_change_no_bit_and_are_not_read(case, dtype):
    for samples, features in SHAPES:
        w, x, d, c = drawn(samples, features, 1, dtype)
        for used in {samples, (samples + 1) // 2, 1}:
            c[2, used:], x[2, used:] = 0, np.nan
            c[2, :used] = c[2, :used] + 1
            alone = [w[2:3], *(array[2:3, :used].copy() for array in (x, d, c))]
            assert bits(*rows(case((w, x, d, c)), 2)) == bits(*case(alone))
            x[2] = 1.0


@every_dtype
@every_case
def test_nan_comes_out_of_the_agent_that_has_it_and_of_no_other(case, dtype):
    for which in range(4):  # parameters, features, targets, weights
        given = drawn(6, 11, 1, dtype)
        clean = case(given)
        given[which][1].flat[-1] = np.nan
        with np.errstate(all="raise", under="ignore"):
            found = case(given)
        assert np.isnan([*found[0][1], found[1][1]]).all()
        others = [0, 2, 3, 4]
        assert bits(*rows(found, others)) == bits(*rows(clean, others))


@pytest.mark.parametrize("loss", [consensus.LogisticLoss(), consensus.SquaredLoss(), consensus.Huber(0.3)], ids=repr)
@every_dtype
def test_problems_have_the_same_gradients_with_and_without(loss, dtype, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(70, 12)).astype(dtype), rng.integers(0, 2, 70).astype(dtype)
    shards = consensus.partition(X, y, agents=4, scheme="dirichlet")
    w = rng.normal(size=(4, 26)).astype(dtype)[:, ::2]  # not contiguous

    def computed():
        problem = consensus.Problem(consensus.Linear(12), loss, shards, consensus.L2(0.4))
        batch = consensus.Minibatches(5).at(problem, 0)
        functions = problem.gradient, problem.average_gradient
        return [f(w, of) for f in functions for of in (None, batch)] + [problem.value(w)], dict(vars(problem.work))

    fused, counts = computed()
    monkeypatch.setattr(consensus.Linear, "gradient_of", lambda self, loss: None)
    plain, plain_counts = computed()
    for one, other in zip(fused, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=60 * np.finfo(dtype).eps)
    assert counts == plain_counts


def test_a_subclass_with_its_own_value_or_gradient_is_not_fused():
    linear = consensus.Linear(3)
    assert linear.gradient_of(type("Renamed", (consensus.SquaredLoss,), {})()) is not None
    for method in ("value", "gradient"):
        assert linear.gradient_of(type("Mine", (consensus.SquaredLoss,), {method: lambda *_: 0})()) is None
    assert consensus.Linear(3, outputs=2).gradient_of(consensus.SquaredLoss()) is None
    assert linear.gradient_of(consensus.CrossEntropy()) is None
    assert type("Mine", (consensus.Linear,), {})(3).gradient_of(consensus.SquaredLoss()) is None


def test_many_agents_share_a_call(monkeypatch):
    """Between calls cores wait for Python: of large shards, too, a call takes many agents, and bits are those of one by one."""
    rng, calls = np.random.default_rng(0), []
    X, y = rng.normal(size=(40 * 700, 100)), rng.normal(size=40 * 700)
    problem = consensus.Problem(consensus.Linear(100), consensus.SquaredLoss(), consensus.partition(X, y, agents=40))
    w = rng.normal(size=(40, 101))
    alone = [problem.restrict([agent]).gradient(w[agent : agent + 1])[0] for agent in range(40)]
    kernel = kernels.FusedSums.__call__
    monkeypatch.setattr(kernels.FusedSums, "__call__", lambda self, w, *rest: (calls.append(len(w)), kernel(self, w, *rest)))
    assert bits(problem.gradient(w)) == bits(*alone)
    assert sum(calls) == 40
    assert len(calls) <= 4 * threads()
