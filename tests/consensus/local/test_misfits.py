"""What does not fit together is refused before any work; models and regularizers of a user's own do fit."""

import dataclasses

import cvxpy as cp
import numpy as np
import pytest

import consensus
import topologies
from consensus.local import CVXPYSolver, Exact
from consensus.regularizers import L1, L2, SCAD, Box, ElasticNet, GroupL1, L2Ball, LogSum, NonNegative
from consensus.solvers import NEXT
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization
from tests.helpers.local_problems import TAU, TIGHT, centre, local_problem, minimisers
from tests.helpers.refusals import refusals

PARTIAL, FULL = PartialLinearization(TAU), FullLinearization(TAU)


class OwnModel:
    """No more than a model must have: products with the Jacobian, not the Jacobian itself."""

    def __init__(self, outputs=1):
        self.network = consensus.MLP([3, 4, outputs])
        self.parameters, self.outputs, self.features = self.network.parameters, outputs, 3

    def init(self, rng):
        return self.network.init(rng)

    def predict(self, w, x):
        return self.network.predict(w, x)

    def vjp(self, w, x, u):
        return self.network.vjp(w, x, u)

    def jvp(self, w, x, v):
        return self.network.jvp(w, x, v)


class ModelWithJacobian(OwnModel):
    def jacobian(self, w, x):
        return self.network.jacobian(w, x)


class OwnL1:
    """No more than a regularizer must have for full linearization."""

    def __init__(self, weight):
        self.weight = weight

    def value(self, w):
        return self.weight * np.abs(w).sum(axis=-1)

    def prox(self, v, step):
        return np.sign(v) * np.maximum(np.abs(v) - self.weight * step, 0)


class OwnL1ForNewton(OwnL1):
    quadratic = False


def functions():
    return consensus.Problem.from_functions(lambda w: w.sum(axis=1), np.ones_like, agents=3, parameters=4)


def squared(regularizer=None, model="MLP"):
    return lambda: local_problem("squared", regularizer, model)


MISFITS = {
    "functions": (functions, PARTIAL, Exact(), TypeError, ["PartialLinearization", "from_functions", "FullLinearization(tau)"]),
    "functions in blocks": (functions, Blocks(PARTIAL, 2), Exact(), TypeError, ["needs a model", "from_functions"]),
    "no gram": (squared(None, ModelWithJacobian()), PARTIAL, Exact("dual"), TypeError, ["'dual'", "ModelWithJacobian.gram"]),
    "no Jacobian": (squared(None, OwnModel()), PARTIAL, Exact("primal"), TypeError, ["'primal'", "OwnModel.jacobian"]),
    "no columns": (squared(None, OwnModel()), Blocks(PARTIAL, 2), Exact(), TypeError, ["Blocks(", "OwnModel.jacobian"]),
    "CVXPY, no Jacobian": (squared(None, OwnModel()), PARTIAL, CVXPYSolver(), TypeError, ["CVXPYSolver", "OwnModel.jacobian"]),
    "CVXPY, no expression": (squared(OwnL1(0.1)), FULL, CVXPYSolver(), TypeError, ["CVXPYSolver", "OwnL1.expression"]),
    "unknown kind": (squared(OwnL1(0.1)), PARTIAL, Exact(), TypeError, ["PartialLinearization", "OwnL1.quadratic"]),
    "no split": (squared(OwnL1(0.1)), Blocks(FULL, 2), Exact(), TypeError, ["Blocks(", "OwnL1.split"]),
    "too many blocks": (squared(), Blocks(FULL, 22), Exact(), ValueError, ["count", "21", "got 22"]),
    "coupled blocks": (squared(), Blocks(PARTIAL, 2), CVXPYSolver(lambda w: [cp.sum(w) == 1]), ValueError,
     ["constraints of CVXPYSolver", str(Blocks(PARTIAL, 2)), "unsplit"]),
    "nonconvex constraint": (squared(), PARTIAL, CVXPYSolver(lambda w: [w >= 0, cp.norm2(w) >= 1]), ValueError,
     ["constraint 1 is not convex"]),
}  # fmt: skip
MISFITS |= {
    f"no tau with {r}": (squared(r), PartialLinearization(0.0), Exact(), ValueError, ["tau must be > 0", str(r)])
    for r in [L2(0.0), L1(0.1), ElasticNet(0.1, 0.1), Box(-1, 1), NonNegative(), L2Ball(1.0), GroupL1(0.1, [[0, 1]])]
}


@pytest.mark.parametrize("case", MISFITS)
def test_misfits_are_refused_before_any_work(case):
    make, surrogate, local, error, words = MISFITS[case]
    p = make()
    p.gradient = None  # no work is done: it could not
    with pytest.raises(error) as raised:
        consensus.solve(p, topologies.ring(p.agents), NEXT(surrogate, 0.5, local), rounds=1)
    for word in words:
        assert word in str(raised.value)


def test_what_a_surrogate_does_not_use_may_be_missing():
    p = local_problem("squared", OwnL1(0.1), OwnModel())
    expected = minimisers(local_problem("squared", L1(0.1)), FULL).w
    np.testing.assert_array_equal(minimisers(p, FULL, Exact("dual")).w, expected)
    p = local_problem("squared", L1(0.1), OwnModel())
    np.testing.assert_array_equal(minimisers(p, Blocks(FULL, 3)).w, expected)


@pytest.mark.parametrize("regularizer", [SCAD(0.3), LogSum(0.1, 0.5)], ids=str)
def test_a_nonconvex_regularizer_is_stated_by_its_convex_part(regularizer):
    p = local_problem("squared", regularizer)
    with pytest.raises(TypeError, match="not convex"):
        regularizer.expression(cp.Variable(21))
    for surrogate in (PARTIAL, FULL):
        stated = minimisers(p, surrogate, CVXPYSolver(options=TIGHT)).w
        np.testing.assert_allclose(stated, minimisers(p, surrogate, tolerance=1e-12).w, rtol=0, atol=1e-6)


# A user's own -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [OwnModel, ModelWithJacobian])
@pytest.mark.parametrize("regularizer", [None, L2(0.2), L1(0.05), Box(-0.3, 0.4), L2Ball(0.7)], ids=str)
@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "classes"])
def test_a_model_of_ones_own_gives_the_built_in_answers(loss, regularizer, model):
    own = local_problem(loss, regularizer, model(3 if loss == "classes" else 1))
    points, expected = (minimisers(p, PARTIAL, tolerance=1e-12).w for p in (own, local_problem(loss, regularizer)))
    np.testing.assert_allclose(points, expected, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(points == 0, expected == 0)


@pytest.mark.parametrize("curvature", ["local", "network"])
@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "classes"])
def test_a_regularizer_of_ones_own_gives_the_built_in_answers(loss, curvature):
    surrogate = PartialLinearization(TAU, curvature)
    own, built_in = (local_problem(loss, r) for r in (OwnL1ForNewton(0.05), L1(0.05)))
    points, iterations = minimisers(own, surrogate, tolerance=1e-10)
    expected = minimisers(built_in, surrogate, tolerance=1e-10).w
    np.testing.assert_allclose(points, expected, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(points == 0, expected == 0)
    assert iterations.min() > 5  # it went the way of accelerated proximal gradient


def test_a_regularizer_of_ones_own_may_be_an_ordinary_dataclass():
    @dataclasses.dataclass  # not frozen, hence not hashable
    class Ridge:
        weight: float
        quadratic = False

        def value(self, w):
            return self.weight / 2 * np.square(w).sum(axis=-1)

        def prox(self, v, step):
            return v / (1 + self.weight * step)

    points = minimisers(local_problem("logistic", Ridge(0.2)), PARTIAL, tolerance=1e-11).w
    expected = minimisers(local_problem("logistic", L2(0.2)), PARTIAL, tolerance=1e-11).w
    np.testing.assert_allclose(points, expected, rtol=0, atol=1e-9)


def test_a_second_regularizer_gets_an_answer_of_its_own():
    """One CVXPYSolver on one problem, by hand: the problem that it keeps is stated anew."""
    p = local_problem("squared", "L1")
    w, gradient = centre(p)[:2]
    model, local = PARTIAL.at(p, w, gradient), CVXPYSolver(options=TIGHT)
    for r in (L1(0.1), L1(5.0), Box(-0.2, 0.2), L1(0.1)):
        np.testing.assert_allclose(
            local.solve(model, 0 * w, r).w, Exact().solve(model, 0 * w, r, tolerance=1e-12).w, rtol=0, atol=1e-6
        )


def test_stationarity_knows_the_constraints():
    """A problem whose optimum on the simplex is not stationary without it."""
    centres = np.array([[0.2, 0.5, 1.4], [0.0, 0.3, 2.0]])
    p = consensus.Problem.from_functions(lambda w: ((w - centres) ** 2).sum(axis=1) / 2, lambda w: w - centres, 2, 3)
    local = CVXPYSolver(constraints=lambda w: [cp.sum(w) == 1, w >= 0], options=TIGHT)
    result = consensus.solve(
        p, topologies.complete(2), NEXT(FullLinearization(4.0), 0.5, local), rounds=60, start=np.full(3, 1 / 3)
    )
    v = cp.Variable(3)
    cp.Problem(cp.Minimize(cp.sum_squares(v - centres.mean(axis=0))), [cp.sum(v) == 1, v >= 0]).solve()
    np.testing.assert_allclose(result.mean, v.value, atol=1e-4)
    assert result.history["stationarity"][-1] < 1e-6 < 0.1 < result.history["stationarity"][0]
    assert p.stationarity(result.mean) > 0.5


test_refusals = refusals(
    (lambda: Exact("lu"), ValueError, "linear must be one of 'auto', 'primal', 'dual', 'iterative'; got 'lu'"),
    (lambda: Exact(iterations=0), ValueError, "iterations must be a whole number >= 1; got 0"),
    (lambda: CVXPYSolver(solver="NEWTON"), ValueError, "one that CVXPY has, .*CLARABEL.*; got 'NEWTON'"),
    (lambda: CVXPYSolver([1]), TypeError, r"constraints must be a function.*got \[1\]"),
    (lambda: Blocks(FULL, 0), ValueError, "count must be a whole number >= 1; got 0"),
    (lambda: Blocks(Blocks(FULL, 2), 2), TypeError, "not yet split.*got Blocks"),
    (lambda: Blocks(1.0, 2), TypeError, "surrogate must be one.*got 1.0"),
    (lambda: NEXT(PARTIAL, 0.5, "exact"), TypeError, "local must be a local solver.*'exact'"),
    (lambda: NEXT(PARTIAL, 0.5, tolerance=1.0), ValueError, "tolerance must be a finite number > 0 and < 1"),
)
