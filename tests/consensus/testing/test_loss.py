"""Every loss passes the contract; of wrong ones the broken law is named."""

import numpy as np
import pytest

import consensus
from consensus import CrossEntropy, Huber, LogisticLoss, SquaredLoss
from consensus.losses import GammaLoss, NegativeBinomialLoss, PoissonLoss
from consensus.testing import check_loss
from tests.extensions.poisson import Poisson

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
