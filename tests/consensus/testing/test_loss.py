"""Every loss passes the contract; of wrong ones the broken law is named."""

from dataclasses import dataclass
from inspect import isabstract

import numpy as np
import pytest

import consensus
from consensus import CrossEntropy, Huber, LogisticLoss, SquaredLoss, regularizers
from consensus.losses import GammaLoss, NegativeBinomialLoss, PoissonLoss
from consensus.regularizers import L1, L2, Regularizer
from consensus.testing import check_loss, check_regularizer
from tests.extensions.poisson import Poisson
from tests.helpers.every_regularizer import ALL

TARGETS = {
    "squared": (SquaredLoss(), [[1.0, 2.0], [3.0, 4.0], [-1.0, 0.0]]),
    "logistic": (LogisticLoss(), [0, 1, 1, 0]),
    "Huber": (Huber(), [0.3, 2.0, 1.0, -1.0]),
    "Huber, narrow": (Huber(0.1), [0.3, 2.0, 1.0, -1.0]),
    "Poisson": (Poisson(), [0, 2, 1, 5]),
    "PoissonLoss": (PoissonLoss(), [0, 2, 1, 5]),
    "PoissonLoss, offset": (PoissonLoss(offset=True), [[0, 0.5], [2, 0.1], [1, -0.3], [5, 0.0]], 1),
    "GammaLoss": (GammaLoss(), [[0.3, 2.0], [1.0, 4.0], [0.2, 0.1]]),
    "NegativeBinomialLoss": (NegativeBinomialLoss(0.7), [0, 2, 1, 5]),
}


@pytest.mark.parametrize("name", TARGETS)
def test_it_keeps_the_contract(name):
    assert "curvature is the slope of gradient" in check_loss(*TARGETS[name]).errors


def test_cross_entropy_keeps_the_contract():
    laws = check_loss(CrossEntropy(), [0, 2, 1, 1], outputs=3).errors
    assert "expression is the weighted sum of values" in laws


def test_every_loss_is_tried():
    exported = {name for name in consensus.losses.__all__ if isinstance(getattr(consensus.losses, name), type)}
    elsewhere = {"CrossEntropy", "TorchLoss", "TangentPropagation", "CoxLoss"}  # tests/consensus/losses, models and owners
    assert exported - {"Loss"} - elsewhere == {type(loss).__name__ for loss, *_ in TARGETS.values()} - {"Poisson"}


class LogCosh(consensus.losses.Loss):
    """Right; those below each break a law."""

    def value(self, outputs, targets):
        size = np.abs(outputs - targets)
        return (size + np.log1p(np.exp(-2 * size)) - size.dtype.type(np.log(2))).sum(axis=-1)

    def gradient(self, outputs, targets):
        return np.tanh(outputs - targets)

    def curvature(self, outputs, targets):
        return 1 - np.square(np.tanh(outputs - targets))

    def __repr__(self):
        return "LogCosh()"


def _written(self, outputs, targets):
    outputs -= targets
    return np.tanh(outputs)


def _overflows(self, outputs, targets):
    difference = outputs - targets
    return (np.sinh(difference) / np.cosh(difference)).astype(outputs.dtype)


def _centred(self, outputs, targets):
    return LogCosh.value(self, outputs, targets - targets.mean(axis=0, keepdims=True))


FAULTS = {
    "gradient is the slope of value: found": {"gradient": lambda self, f, d: 1.001 * np.tanh(f - d)},
    "curvature is the slope of gradient": {"curvature": lambda self, f, d: np.ones_like(f)},
    "value has its shape and the dtype of the outputs: found shape": {"value": lambda self, f, d: np.abs(f - d)},
    "gradient has its shape and the dtype of the outputs: found dtype float64 instead of float32": {
        "gradient": lambda self, f, d: np.tanh(f - d) * np.ones(1)
    },
    "gradient leaves its arguments as they are": {"gradient": _written},
    "value of an agent does not depend on the others": {"value": _centred},
    "value of a sample does not depend on the others": {
        "value": lambda self, f, d: LogCosh.value(self, f, d) + 0.1 * f[..., 0].mean(axis=-1, keepdims=True)
    },
    "value is finite at zeros, which pad shards": {
        "value": lambda self, f, d: LogCosh.value(self, f, d) - np.log(np.abs(d)).sum(axis=-1)
    },
    "gradient is never NaN, however far the outputs are": {"gradient": _overflows},
    "the loss is convex: its curvature is positive semidefinite": {
        "value": lambda self, f, d: np.cos(f - d).sum(axis=-1),
        "gradient": lambda self, f, d: -np.sin(f - d),
        "curvature": lambda self, f, d: -np.cos(f - d),
    },
    "eigenvalues of curvature are at most curvature_bound": {"curvature_bound": 0.25},
    "quadratic means the same curvature": {"quadratic": True},
    "curvature_root times its transpose": {"curvature_root": lambda self, f, d: self.curvature(f, d)},
    "expression is the weighted sum of values": {"expression": lambda self, f, d, weights: weights @ (f - d)[:, 0]},
    "expression is one of CVXPY: TypeError: You're calling the built-in abs": {"expression": lambda self, f, *_: abs(f)},
}


def test_what_is_broken_below_was_whole():
    check_loss(LogCosh(), [0.5, 2.0, 1.0])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("law", FAULTS)
def test_what_is_broken_is_named(law):
    with pytest.raises(AssertionError, match=rf"^LogCosh\(\): {law}"):
        check_loss(type("Broken", (LogCosh,), FAULTS[law])(), [0.5, 2.0, 1.0])


def test_outputs_that_depend_on_each_other_are_not_separable():
    class Norm(LogCosh):
        def value(self, outputs, targets):
            return np.sqrt(1 + np.square(outputs - targets).sum(axis=-1)) - 1

        def gradient(self, outputs, targets):
            return (outputs - targets) / np.sqrt(1 + np.square(outputs - targets).sum(axis=-1, keepdims=True))

    with pytest.raises(AssertionError, match="separable means that an output's gradient depends on that output alone"):
        check_loss(Norm(), np.ones((4, 2)))


def test_jax_computes_the_same_gradient():
    pytest.importorskip("jax")

    class Doubled(LogCosh):
        def jax_gradient(self, outputs, targets):
            import jax.numpy as jnp

            return 2 * jnp.tanh(outputs - targets)

    with pytest.raises(AssertionError, match="jax_gradient is gradient"):
        check_loss(Doubled(), [0.5, 2.0, 1.0])


def test_large_targets_are_no_fault():
    check_loss(SquaredLoss(), [2.5e6, -1e6, 3.0])
    check_loss(Poisson(), [10**6, 0, 3])


def test_targets_must_suit_the_loss():
    with pytest.raises(ValueError, match="LogisticLoss"):
        check_loss(LogisticLoss(), [0.5, 2.0])
    with pytest.raises(ValueError, match=r"two samples at least; got \(1, 1\)"):
        check_loss(SquaredLoss(), [0.5])
    with pytest.raises(TypeError, match=r"^loss must be a consensus.losses.Loss; got 3"):
        check_loss(3, [0.5, 1.0])


# Every regularizer keeps the contract; of wrong ones the broken law is named.


@pytest.mark.parametrize("r", ALL.values(), ids=ALL)
def test_a_regularizer_keeps_the_contract(r):
    report = check_regularizer(r)
    assert "prox_jvp is the slope of prox" in report.errors
    assert ("prox is the minimiser that CVXPY finds" in report.errors) == r.is_convex


def test_every_regularizer_is_tried():
    exported = [getattr(regularizers, name) for name in regularizers.__all__]
    made = {kind for kind in exported if isinstance(kind, type) and issubclass(kind, Regularizer) and not isabstract(kind)}
    assert made - {regularizers.OwnRegularizers} == {type(r) for r in ALL.values()}  # it takes stacks of all agents alone


def wrong(base, **members):
    return type("Wrong", (base,), members)(0.7)


def _written_regularizer(self, v, step):
    v[0] = 0
    return L1.prox(self, v, step)


@dataclass(frozen=True)
class Sum(Regularizer):
    """Not separable, whatever its split says."""

    weight: float

    def value(self, w):
        return self.weight / 2 * np.square(w.sum(axis=-1))

    def prox(self, v, step):
        total = v.sum(axis=-1, keepdims=True)
        return (v - step * self.weight * total / (1 + step * self.weight * v.shape[-1])).astype(v.dtype)


ONE = np.ones(1)
FAULTS_OF_REGULARIZERS = {
    "expression and constraints are those of CVXPY: TypeError: You're calling": (L1, {"expression": lambda self, w: abs(w)}),
    "prox_jvp takes many directions: TypeError": (L1, {"prox_jvp": lambda self, v, step, d, more: d}),
    "is_convex = False comes with a DifferenceOfConvex": (L1, {"is_convex": False}),
    "prox meets its optimality condition": (L1, {"prox": lambda self, v, step: L1.prox(self, v, np.multiply(step, 1.001))}),
    "prox is firmly nonexpansive": (L2, {"prox": lambda self, v, step: L2.prox(self, v, np.multiply(step, 0.999))}),
    "value of a stack is that of each part": (L1,
     {"value": lambda self, w: L1.value(self, w) * (1 + 1e-15 * (w.dtype == float and len(w) == 2))}),
    "value of a point is that of its row": (L1, {"value": lambda self, w: L1.value(self, w) * (1 if w.ndim == 2 else 1.01)}),
    "value of a stack has a number a row": (L1, {"value": lambda self, w: np.abs(w)}),
    "prox has the shape and dtype of v: found dtype float64": (L1,
     {"prox": lambda self, v, s: L1.prox(self, v, s) * np.ones(1)}),
    "prox returns a new array": (L1, {"prox": lambda self, v, step: v}),
    "NaN stays, in its row": (L1, {"prox": lambda self, v, step: np.nan_to_num(L1.prox(self, v, step))}),
    "r - strong_convexity": (L2, {"strong_convexity": 0.75}),
    "a quadratic is its weights": (L2, {"strong_convexity": 0.65}),
    "gradient is the slope of value": (L2, {"gradient": lambda self, w: 1.001 * L2.gradient(self, w)}),
    "curvature_bound is a Lipschitz constant": (L2, {"curvature_bound": 0.6}),
    "gradient is refused": (L1, {"gradient": lambda self, w: np.sign(w)}),
    "prox_jvp is the slope of prox": (L1, {"prox_slope": lambda self, v, step: 0.99 * L1.prox_slope(self, v, step)}),
    "coordinates that are not active": (L1, {"active": lambda self, v, step: np.zeros(v.shape, bool)}),
    "value is that of the expression": (L1, {"expression": lambda self, w: L1(0.6).expression(w)}),
    "slices that do not cover": (L1, {"split": lambda self, slices: [self] * max(len(slices), 1)}),
    "values of a split sum to the whole": (Sum, {"split": lambda self, slices: L1.split(self, slices)}),
    "copies by cloudpickle are equal": (L1, {"__reduce__": lambda self: (L1, (self.weight,))}),
}  # fmt: skip


@pytest.mark.parametrize("law", FAULTS_OF_REGULARIZERS)
def test_what_is_broken_in_a_regularizer_is_named(law):
    base, members = FAULTS_OF_REGULARIZERS[law]
    with pytest.raises(AssertionError, match=rf"^Wrong\(weight=0\.7\): {law}"):
        check_regularizer(wrong(base, **members))


def test_arguments_cannot_be_written_to():
    with pytest.raises(AssertionError, match=r"methods leave their arguments as they are: .*read-only"):
        check_regularizer(wrong(L1, prox=_written_regularizer))
    with pytest.raises(TypeError, match=r"^regularizer must be a consensus.regularizers.Regularizer; got 3"):
        check_regularizer(3)


def test_classes_of_a_script_stay_as_they_are():
    namespace = {"__name__": "__main__", "Regularizer": Regularizer, "np": np, "dataclass": dataclass}
    exec(SCRIPT, namespace)
    kind = namespace["Squares"]
    check_regularizer(kind(), 4)
    assert dataclass(frozen=True)(type("Derived", (kind,), {}))().weight == 0.5


SCRIPT = """
@dataclass(frozen=True)
class Squares(Regularizer):
    weight: float = 0.5

    def value(self, w):
        return np.square(w).sum(axis=-1) * w.dtype.type(self.weight)

    def prox(self, v, step):
        return (v / (1 + 2 * self.weight * np.asarray(step))).astype(v.dtype)
"""
