"""The compiled gradients of linear models: against NumPy in long doubles, and the same bits wherever an agent stands."""

import numpy as np
import pytest

import consensus
from consensus import kernels
from consensus._parallel import threads

pytestmark = pytest.mark.skipif(kernels.level() is None, reason="installed without a compiler, or CONSENSUS_FAST=0")
DTYPES = [np.float64, np.float32]
SHAPES = [(1, 1), (2, 3), (3, 8), (4, 9), (5, 20), (64, 7), (65, 16), (131, 21), (30, 700), (6, 9000)]  # samples, features
KERNELS = {"logistic": (kernels.linear_logistic, np.inf), "huber": (kernels.linear_huber, 0.7)}
KERNELS["squared"] = (kernels.linear_huber, np.inf)


VALUES = {"logistic": kernels.linear_logistic_value, "huber": kernels.linear_huber_value, "squared": kernels.linear_huber_value}


def losses(name, f, d):
    if name == "logistic":
        return np.logaddexp(-d * f, (1 - d) * f)
    e = abs(f - d)
    return np.where(e < 0.7, e**2 / 2, 0.7 * (e - 0.35)) if name == "huber" else e**2 / 2


def slopes(name, f, d):
    if name == "logistic":
        return 1 / (1 + np.exp(-f)) - d
    return np.clip(f - d, -0.7, 0.7) if name == "huber" else f - d


def drawn(samples, features, bias, dtype, agents=5):
    rng = np.random.default_rng([samples, features, bias])
    w, x = rng.normal(size=(agents, features + bias)) / features**0.5, rng.normal(size=(agents, samples, features))
    d, c = rng.integers(0, 2, (agents, samples)), rng.random((agents, samples))
    return [array.astype(dtype) for array in (w, x, d, c)]


def called(name, given, scale=1.0, ridge=0.0, kernel=None):
    gradients, most = KERNELS[name]
    kernel = kernel or gradients
    return kernel(*given, np.array([scale, ridge, most], given[0].dtype))


def bits(x):
    return np.ascontiguousarray(x).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_those_of_numpy_in_long_doubles(name, dtype):
    for samples, features in SHAPES:
        for bias in (0, 1):
            given = drawn(samples, features, bias, dtype)
            w, x, d, c = (array.astype(np.longdouble) for array in given)
            x = np.concatenate([x, np.ones((*x.shape[:2], bias))], axis=2)
            u = slopes(name, (x @ w[:, :, None])[:, :, 0], d) * c
            exact, size = 3 * (u[:, None] @ x)[:, 0] + 0.5 * w, 3 * (abs(u)[:, None] @ abs(x))[:, 0] + abs(w)
            found = called(name, given, 3, 0.5)
            outputs_off = (abs(x) @ abs(w)[:, :, None]).max() * features**0.5  # they pass on to slopes
            assert (abs(found - exact) <= (samples + outputs_off + 4) * np.finfo(dtype).eps * (size + 3 * c.sum())).all()
            kernel, most = KERNELS[name]
            plain = kernel.__wrapped__(*given, np.array([3, 0.5, most], dtype), None)
            np.testing.assert_allclose(found, plain, rtol=0, atol=120 * np.finfo(dtype).eps * samples)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNELS)
def test_values_are_those_of_numpy_in_long_doubles(name, dtype):
    for samples, features in SHAPES:
        for bias in (0, 1):
            given = drawn(samples, features, bias, dtype)
            w, x, d, c = (array.astype(np.longdouble) for array in given)
            x = np.concatenate([x, np.ones((*x.shape[:2], bias))], axis=2)
            f = (x @ w[:, :, None])[:, :, 0]
            found = called(name, given, kernel=VALUES[name])
            # Errors of outputs are passed on by slopes.
            off = features**0.5 * (abs(slopes(name, f, d)) * (abs(x) @ abs(w)[:, :, None])[:, :, 0] * c).sum(axis=1)
            exact = (losses(name, f, d) * c).sum(axis=1)
            assert (abs(found - exact) <= (samples / 4 + 8) * np.finfo(dtype).eps * (exact + off)).all()
            plain = VALUES[name].__wrapped__(*given, np.array([1, 0, KERNELS[name][1]], dtype), None)
            np.testing.assert_allclose(found, plain, rtol=120 * np.finfo(dtype).eps)
            for agent in range(len(w)):
                assert bits(called(name, [array[agent:][:1] for array in given], kernel=VALUES[name])) == bits(found[agent])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNELS)
def test_an_agents_bits_do_not_depend_on_its_place_or_alignment(name, dtype):
    for samples, features in SHAPES:
        given = drawn(samples, features, 1, dtype)
        whole = called(name, given)
        assert bits(called(name, [array[2:4] for array in given])) == bits(whole[2:4])
        moved = []
        for array in given:
            memory = np.empty(array.size + 3, dtype)
            memory[3:] = array.ravel()
            moved.append(memory[3:].reshape(array.shape))
        assert bits(called(name, moved)) == bits(whole)
        same = np.broadcast_to(given[0][:1], given[0].shape)
        alone = called(name, [same[:1].copy(), *(array[4:] for array in given[1:])])
        assert bits(called(name, [same, *given[1:]])[4:]) == bits(alone)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNELS)
def test_samples_of_weight_zero_at_the_end_change_no_bit_and_are_not_looked_at(name, dtype):
    for samples, features in SHAPES:
        w, x, d, c = drawn(samples, features, 1, dtype)
        for used in {samples, (samples + 1) // 2, 1}:
            c[2, used:], x[2, used:] = 0, np.nan
            c[2, :used] = c[2, :used] + 1
            alone = [w[2:3], x[2:3, :used].copy(), d[2:3, :used].copy(), c[2:3, :used].copy()]
            for kernel in (None, VALUES[name]):
                assert bits(called(name, (w, x, d, c), kernel=kernel)[2]) == bits(called(name, alone, kernel=kernel)[0])
            x[2] = 1.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNELS)
def test_nan_comes_out_of_the_agent_that_has_it_and_of_no_other(name, dtype):
    for which in range(4):  # parameters, features, targets, weights
        given = drawn(6, 11, 1, dtype)
        clean, value = called(name, given), called(name, given, kernel=VALUES[name])
        given[which][1].flat[-1] = np.nan
        with np.errstate(all="raise", under="ignore"):
            found, valued = called(name, given), called(name, given, kernel=VALUES[name])
        assert np.isnan([*found[1], valued[1]]).all()
        assert bits(np.delete(found, 1, 0)) == bits(np.delete(clean, 1, 0))
        assert bits(np.delete(valued, 1, 0)) == bits(np.delete(value, 1, 0))


@pytest.mark.parametrize("loss", [consensus.LogisticLoss(), consensus.SquaredLoss(), consensus.Huber(0.3)], ids=repr)
@pytest.mark.parametrize("dtype", DTYPES)
def test_problems_have_the_same_gradients_with_and_without(loss, dtype, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(70, 12)).astype(dtype), rng.integers(0, 2, 70).astype(dtype)
    shards = consensus.partition(X, y, agents=4, scheme="dirichlet")
    problem = consensus.Problem(consensus.Linear(12), loss, shards, consensus.L2(0.4))
    w = rng.normal(size=(4, 26)).astype(dtype)[:, ::2]  # not contiguous
    batch = consensus.Minibatches(5).at(problem, 0)

    def gradients():
        both = (
            problem.gradient(w),
            problem.gradient(w, batch),
            problem.average_gradient(w),
            problem.average_gradient(w, batch),
        )
        return *both, problem.value(w)

    fused, counts = gradients(), dict(vars(problem.work))
    monkeypatch.setattr(consensus.Linear, "gradient_of", lambda self, loss: None)
    problem = consensus.Problem(consensus.Linear(12), loss, shards, consensus.L2(0.4))
    for one, other in zip(fused, gradients(), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=60 * np.finfo(dtype).eps)
    assert vars(problem.work) == counts


def test_many_agents_are_handed_out_in_few_calls(monkeypatch):
    """Between calls cores wait for Python: of large shards, too, a call takes many agents, and bits are those of one by one."""
    rng, calls = np.random.default_rng(0), []
    X, y = rng.normal(size=(40 * 700, 100)), rng.normal(size=40 * 700)
    problem = consensus.Problem(consensus.Linear(100), consensus.SquaredLoss(), consensus.partition(X, y, agents=40))
    w = rng.normal(size=(40, 101))
    alone = [problem.restrict([agent]).gradient(w[agent : agent + 1])[0] for agent in range(40)]
    kernel = kernels.FusedSums.__call__
    monkeypatch.setattr(kernels.FusedSums, "__call__", lambda self, w, *rest: (calls.append(len(w)), kernel(self, w, *rest)))
    assert bits(problem.gradient(w)) == bits(alone)
    assert sum(calls) == 40
    assert len(calls) <= 4 * threads()
