"""Every regularizer keeps the contract; of wrong ones the broken law is named."""

from dataclasses import dataclass
from inspect import isabstract

import numpy as np
import pytest

from consensus import regularizers
from consensus.regularizers import L1, L2, Regularizer
from consensus.testing import check_regularizer
from tests.helpers.every_regularizer import ALL


@pytest.mark.parametrize("r", ALL.values(), ids=ALL)
def test_it_keeps_the_contract(r):
    report = check_regularizer(r)
    assert "prox_jvp is the slope of prox" in report.errors
    assert ("prox is the minimiser that CVXPY finds" in report.errors) == r.is_convex


def test_every_regularizer_is_tried():
    exported = [getattr(regularizers, name) for name in regularizers.__all__]
    made = {kind for kind in exported if isinstance(kind, type) and issubclass(kind, Regularizer) and not isabstract(kind)}
    assert made - {regularizers.OwnRegularizers} == {type(r) for r in ALL.values()}  # it takes stacks of all agents alone


def wrong(base, **members):
    return type("Wrong", (base,), members)(0.7)


def _written(self, v, step):
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
FAULTS = {
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


@pytest.mark.parametrize("law", FAULTS)
def test_what_is_broken_is_named(law):
    base, members = FAULTS[law]
    with pytest.raises(AssertionError, match=rf"^Wrong\(weight=0\.7\): {law}"):
        check_regularizer(wrong(base, **members))


def test_arguments_cannot_be_written_to():
    with pytest.raises(AssertionError, match=r"methods leave their arguments as they are: .*read-only"):
        check_regularizer(wrong(L1, prox=_written))
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
