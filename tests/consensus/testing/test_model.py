"""A model of one's own is tried on random numbers: right ones pass, and of wrong ones the fault is named.

The package's models are tried in tests/consensus/models.
"""

import numpy as np
import pytest

import consensus
from consensus.testing import check_model


class Exponential:
    """f = exp(x w) in two outputs, the least a model can be."""

    parameters, outputs = 6, 2

    def init(self, rng):
        return 0.1 * rng.standard_normal(6)

    def predict(self, w, x):
        return np.exp(x @ w.reshape(-1, 3, 2))

    def jvp(self, w, x, v):
        return self.predict(w, x) * (x @ v.reshape(-1, 3, 2))

    def vjp(self, w, x, u):
        return (x.swapaxes(1, 2) @ (u * self.predict(w, x))).reshape(len(w), 6)


def test_the_least_model_passes_and_trains():
    report = check_model(Exponential(), features=3)
    assert max(report.errors.values()) < 1e-7
    shards = consensus.partition(np.eye(6, 3), np.ones((6, 2)), 3)
    problem = consensus.Problem(Exponential(), consensus.SquaredLoss(), shards)
    assert problem.gradient(np.zeros((3, 6))).shape == (3, 6)


class Same(Exponential):
    """With all that a model need not have."""

    def jacobian(self, w, x):
        units = [self.jvp(w, x, np.tile(unit, (len(w), 1)).astype(w.dtype)) for unit in np.eye(6)]
        return np.stack(units, axis=-1).reshape(len(w), -1, 6)

    def gram(self, w, x):
        jacobian = self.jacobian(w, x)
        return jacobian @ jacobian.swapaxes(1, 2)


def test_what_a_model_need_not_have_is_tried_too():
    assert {"jacobian and jvp", "gram and jvp of vjp"} <= set(check_model(Same(), features=3).errors)


def changed(base=Same, **methods):
    return type("Mine", (base,), methods)()


WRONG = {
    "start of another shape": ({"init": lambda self, rng: np.zeros(5)}, r"Mine\.init must return shape \(6,\)"),
    "start of another seed": ({"init": lambda self, rng: np.random.default_rng().standard_normal(6)},
     r"Mine\.init must draw from the generator"),
    "a list": ({"init": lambda self, rng: [0.0] * 6}, r"Mine\.init must return a NumPy array of floats \(6,\)"),
    "outputs of another shape": ({"predict": lambda self, w, x: Same.predict(self, w, x)[..., :1]},
     r"Mine\.predict must return shape \(3, 5, 2\); got \(3, 5, 1\)"),
    "outputs of another dtype": ({"predict": lambda self, w, x: Same.predict(self, w, x).astype(np.float32)},
     r"Mine\.predict must return dtype float64, that of its arguments; got float32"),
    "not a number": ({"predict": lambda self, w, x: Same.predict(self, w, x) * np.nan},
     r"Mine\.predict must return finite numbers"),
    "failure": ({"vjp": lambda self, w, x, u: u[99]},
     r"Mine\.vjp failed with arrays of shapes \(3, 6\), \(3, 5, 3\), \(3, 5, 2\): IndexError"),
    "slope": ({"jvp": lambda self, w, x, v: 1.001 * Same.jvp(self, w, x, v)},
     r"Mine: jvp and differences of predict disagree: J v must be the slope of f"),
    "adjoint": ({"vjp": lambda self, w, x, u: 1.001 * Same.vjp(self, w, x, u)},
     r"Mine: vjp and jvp disagree: u \. J v must equal J' u \. v"),
    "agents mixed": ({
         "predict": lambda self, w, x: Same.predict(self, w, x) + w.mean(),
         "jvp": lambda self, w, x, v: Same.jvp(self, w, x, v) + v.mean(),
         "vjp": lambda self, w, x, u: Same.vjp(self, w, x, u) + u.sum() / w.size,
     }, r"Mine: predict of an agent alone and among others disagree: an agent's numbers must not depend on the others'"),
    "argument changed": ({"jvp": lambda self, w, x, v: Same.jvp(self, w, x, np.multiply(v, 2, out=v)) / 2},
     r"Mine\.jvp must leave its arguments as they are; it changed one of shape \(3, 6\)"),
    "jacobian": ({"jacobian": lambda self, w, x: Same.jacobian(self, w, x)[:, ::-1]}, r"Mine: jacobian and jvp disagree"),
    "gram": ({"gram": lambda self, w, x: 2 * Same.gram(self, w, x)}, r"Mine: gram and jvp of vjp disagree"),
    "linearize": ({"linearize": lambda self, w, x: None}, r"Mine\.linearize must return \(outputs, linearization\)"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_named(wrong):
    methods, words = WRONG[wrong]
    with pytest.raises(AssertionError, match=words):
        check_model(changed(**methods), features=3)


class Lines:
    """A linearization of Same with a fault of choice."""

    def __init__(self, model, w, x, fault):
        self.model, self.w, self.x, self.fault = model, w, x, fault

    def jvp(self, v):
        return self.model.jvp(self.w, self.x, v)

    def vjp(self, u, out=None):
        back = self.model.vjp(self.w, self.x, u)
        if out is None:
            return back
        if self.fault != "out":
            out[...] = back
        return out

    def jacobian(self, columns=None):
        jacobian = self.model.jacobian(self.w, self.x)
        return jacobian if columns is None or self.fault == "columns" else jacobian[:, :, columns]

    def diagonal(self, weights):
        jacobian = self.model.jacobian(self.w, self.x)
        power = 1 if self.fault == "diagonal" else 2
        return (weights.reshape(len(weights), -1, 1) * jacobian**power).sum(axis=1)


@pytest.mark.parametrize(("fault", "words"), [
    ("out", r"Mine: linearize and vjp with out disagree"),
    ("columns", r"jacobian\(columns\) must return shape \(3, 10, 3\); got \(3, 10, 6\)"),
    ("diagonal", r"Mine: diagonal and jvp disagree"),
    (None, None),
])  # fmt: skip
def test_faults_of_linearizations_are_named(fault, words):
    model = changed(linearize=lambda self, w, x: (self.predict(w, x), Lines(self, w, x, fault)))
    if words is None:
        assert "diagonal and jvp" in check_model(model, features=3).errors
        return
    with pytest.raises(AssertionError, match=words):
        check_model(model, features=3)


@pytest.mark.parametrize(("arguments", "error", "words"), [
    ({"model": None}, TypeError, r"model must be a model, such as"),
    ({"model": consensus.Linear}, TypeError, r"got the class Linear itself: call it"),
    ({"model": Exponential()}, ValueError, r"features must be given, as Exponential has no attribute features"),
    ({"agents": 1}, ValueError, r"agents must be a whole number >= 2; got 1"),
    ({"samples": 0}, ValueError, r"samples must be a whole number >= 1; got 0"),
    ({"features": 0.5}, ValueError, r"features must be a whole number >= 1; got 0\.5"),
    ({"dtype": int}, ValueError, r"dtype must be one of .*numpy\.float64.*; got"),
    ({"seed": -1}, ValueError, r"seed must be a whole number >= 0; got -1"),
    ({"features": 7}, AssertionError, r"Linear\.predict failed .*x must have shape \(3, samples, 3\)"),
])  # fmt: skip
def test_bad_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        check_model(**{"model": consensus.Linear(3)} | arguments)


class Mean(Exponential):
    """Takes the mean of a shard off it first, as layers that normalise a batch do."""

    def predict(self, w, x):
        return super().predict(w, x - x.mean(axis=1, keepdims=True))

    def jvp(self, w, x, v):
        return super().jvp(w, x - x.mean(axis=1, keepdims=True), v)

    def vjp(self, w, x, u):
        return super().vjp(w, x - x.mean(axis=1, keepdims=True), u)


def test_samples_that_depend_on_each_other_are_named():
    with pytest.raises(AssertionError, match="a sample's outputs must not depend on the others"):
        check_model(Mean(), features=3)


class Reciprocal(Exponential):
    """f = 1 / (x w)."""

    def predict(self, w, x):
        return 1 / (x @ w.reshape(-1, 3, 2))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_outputs_that_are_not_finite_on_padding_are_named():
    with pytest.raises(AssertionError, match=r"Reciprocal\.predict of zeros must return finite numbers"):
        check_model(Reciprocal(), features=3)


def test_a_wrong_axis_of_several_tangents_is_named():
    class Turned(consensus.MLP):
        def linearize(self, w, x):
            outputs, there = super().linearize(w, x)
            jvp = there.jvp
            there.jvp = lambda v: jvp(v[:, ::-1]) if v.ndim == 3 else jvp(v)
            return outputs, there

    with pytest.raises(AssertionError, match="jvp of several and of one disagree: their axis is the second"):
        check_model(Turned([3, 4, 2]))
