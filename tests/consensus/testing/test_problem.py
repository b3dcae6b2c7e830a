"""Problems keep the contract; of wrong ones the broken law is named."""

import numpy as np
import pytest

import consensus
from consensus.testing import check_problem

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((40, 6)), RNG.integers(2, size=40)
CENTRES = RNG.standard_normal((3, 4))
SLOPE = "gradient is the slope of value"


def functions(value=None, gradient=None, parameters=4, **more):
    value = value or (lambda w: 0.5 * ((w - CENTRES) ** 2).sum(axis=1))
    gradient = gradient or (lambda w: w - CENTRES)
    return consensus.Problem.from_functions(value, gradient, 3, parameters, **more)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", [consensus.Linear(6), consensus.MLP([6, 5, 1])], ids=repr)
@pytest.mark.parametrize("regularizer", [None, consensus.L1(0.1), consensus.regularizers.SCAD(0.1)], ids=repr)
def test_models_keep_the_contract(model, regularizer, dtype):
    shards = consensus.partition(X.astype(dtype), Y.astype(dtype), 4)
    report = check_problem(consensus.Problem(model, consensus.LogisticLoss(), shards, regularizer))
    assert report.errors[SLOPE] < (1e-8 if dtype == np.float64 else 1e-3)


def test_functions_keep_it_and_their_constants():
    law = "gradients change by at most lipschitz times the distance"
    assert law in check_problem(functions(lipschitz=1.0)).errors
    assert law in check_problem(functions(lipschitz=[1.0, 2.0, 3.0], regularizer=consensus.L2(0.3))).errors
    assert law not in check_problem(functions()).errors
    with pytest.raises(AssertionError, match=rf"{law}: found 1, more than 0.9 at \(1,\)"):
        check_problem(functions(lipschitz=[1.0, 0.9, 1.0]))


def test_functions_of_single_precision_are_compared_more_coarsely():
    def value(w):
        return np.exp(w.astype(np.float32)).sum(axis=1)

    assert 1e-7 < check_problem(functions(value, lambda w: np.exp(w.astype(np.float32)))).errors[SLOPE] < 1e-3
    with pytest.raises(AssertionError, match=SLOPE):
        check_problem(functions(value, lambda w: 1.05 * np.exp(w.astype(np.float32))))


def test_the_points_are_not_data_that_the_same_seed_drew():
    centres = np.random.default_rng(0).standard_normal((3, 4))
    wrong = functions(lambda w: 0.5 * ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres))
    with pytest.raises(AssertionError, match=SLOPE):  # which is zero at the centres, as it should be
        check_problem(wrong)


def test_the_points_may_be_given():
    logarithm = functions(lambda w: np.log(w).sum(axis=1), lambda w: 1 / w)
    with np.errstate(invalid="ignore"), pytest.raises(AssertionError, match="value is finite"):
        check_problem(logarithm)
    assert check_problem(logarithm, np.ones(4)).errors[SLOPE] < 1e-8  # where costs are zero, and gradients one
    assert check_problem(logarithm, np.arange(1.0, 13.0).reshape(3, 4)).errors[SLOPE] < 1e-8
    with pytest.raises(ValueError, match=r"w must hold finite numbers, \(P,\) = \(4,\) or .*"):
        check_problem(logarithm, np.ones(5))
    with pytest.raises(TypeError, match=r"problem must be a consensus\.Problem, .*; got .*function"):
        check_problem(test_the_points_may_be_given)


def _one_entry(w):
    gradient = w - 1
    gradient[1, 77] += 0.01
    return gradient


def _written(w):
    w -= CENTRES
    return w


FAULTS = {
    rf"{SLOPE}: found .* at \(\d, \d\), a relative error of 1 ": functions(gradient=lambda w: 2 * (w - CENTRES)),
    rf"{SLOPE} in random directions: .* at \(1, \d\)": functions(
        lambda w: 0.5 * ((w - 1) ** 2).sum(axis=1), _one_entry, parameters=200
    ),
    "value of an agent does not depend on the others": functions(
        lambda w: 0.5 * ((w - w.mean(axis=0)) ** 2).sum(axis=1), lambda w: w - w.mean(axis=0)
    ),
    "gradient of an agent does not depend on the others": functions(gradient=lambda w: w - CENTRES + w.mean()),
    "value of an agent is the same without the others": functions(
        lambda w, rows: 0.5 * ((w - CENTRES[: len(rows)]) ** 2).sum(axis=1)
    ),
    "the functions leave w as it is": functions(gradient=_written),
}


@pytest.mark.parametrize("law", FAULTS)
def test_what_is_broken_is_named(law):
    with pytest.raises(AssertionError, match=rf"^Problem\.from_functions\(3 agents, .*\): {law}"):
        check_problem(FAULTS[law])
