"""Lipschitz constants and moduli of convexity: against dense Hessians, and the same whatever block holds the agents."""

import numpy as np
import pytest
from problems import AGENTS, problem

import consensus


def hessians(p, bound):
    """Those of the average form for a linear model whose loss has the curvature ``bound`` everywhere, by hand."""
    x = np.concatenate([p.shards.features, np.ones((*p.shards.features.shape[:2], 1))], axis=2)
    return AGENTS * bound * np.einsum("amp,am,amq->apq", x, p.weights, x)


@pytest.mark.parametrize(("loss", "bound"), [("squared", 1), ("huber", 1), ("logistic", 1 / 4), ("classes", 1 / 2)])
@pytest.mark.parametrize("scheme", ["sorted", "sizes"])
def test_linear_models_have_the_largest_eigenvalue_of_their_weighted_features(loss, bound, scheme):
    p = problem(loss, consensus.L2(0.3), scheme=scheme)
    expected = np.linalg.eigvalsh(hessians(p, bound))[:, -1] + 0.3
    np.testing.assert_allclose(p.lipschitz(), expected, rtol=1e-12)


def test_more_features_than_samples():
    X, y = np.random.default_rng(0).standard_normal((12, 40)), np.zeros(12)
    p = consensus.Problem(consensus.Linear(40), consensus.SquaredLoss(), consensus.partition(X, y, AGENTS), consensus.L2(0.3))
    values = np.linalg.eigvalsh(hessians(p, 1))
    np.testing.assert_allclose(p.lipschitz(), values[:, -1] + 0.3, rtol=1e-12)
    np.testing.assert_array_equal(p.strong_convexity(), 0.3)


def test_no_curvature_of_a_loss_is_above_its_bound():
    rng = np.random.default_rng(1)
    outputs = np.concatenate([rng.standard_normal((400, 3)) * 3, np.zeros((1, 3)), [[30, 30, -30]]])
    separate = rng.integers(0, 2, outputs.shape).astype(float)
    for loss, targets in ((consensus.LogisticLoss(), separate), (consensus.Huber(0.5), separate)):
        assert loss.curvature(outputs, targets).max() == pytest.approx(loss.curvature_bound, rel=1e-12)
    classes = rng.integers(0, 3, (len(outputs), 1))
    largest = np.linalg.eigvalsh(consensus.CrossEntropy().curvature(outputs, classes))[:, -1]
    assert largest.max() == pytest.approx(consensus.CrossEntropy().curvature_bound, rel=1e-12)  # two classes at one half


def test_other_models_have_that_of_their_gauss_newton_matrix():
    p = problem("classes", consensus.L2(0.3), model=consensus.MLP([4, 3, 3]))
    w = np.random.default_rng(2).standard_normal((AGENTS, p.parameters))
    jacobian = p.model.jacobian(w, p.shards.features).reshape(AGENTS, -1, 3, p.parameters)
    curvature = p.loss.curvature(p.model.predict(w, p.shards.features), p.shards.targets) * p.weights[:, :, None, None]
    expected = AGENTS * np.linalg.eigvalsh(np.einsum("amkp,amkl,amlq->apq", jacobian, curvature, jacobian))[:, -1] + 0.3
    np.testing.assert_allclose(p.lipschitz(w), expected, rtol=2e-3)
    assert (p.lipschitz(w) <= expected * (1 + 1e-12)).all()
    same = p.model.init(np.random.default_rng(0))
    np.testing.assert_array_equal(p.lipschitz(), p.lipschitz(same))


@pytest.mark.parametrize("p", [problem(scheme="sizes"), problem("logistic", model=consensus.MLP([4, 5, 1]), scheme="sizes")])
def test_an_agents_constant_depends_on_nobody_else(p):
    whole = p.lipschitz()
    parts = [p.restrict(rows).lipschitz() for rows in (slice(0, 1), slice(1, 4), [4, 5])]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_strong_convexity_is_the_least_eigenvalue_where_all_of_the_curvature_is_known():
    p = problem("squared", consensus.L2(0.3))
    np.testing.assert_allclose(p.strong_convexity(), np.linalg.eigvalsh(hessians(p, 1))[:, 0] + 0.3, rtol=1e-10)
    np.testing.assert_array_equal(problem("logistic", consensus.L2(0.3)).strong_convexity(), 0.3)
    np.testing.assert_array_equal(problem("logistic", consensus.L1(0.3)).strong_convexity(), 0)


def test_a_nonconvex_regularizer_bends_the_costs_the_other_way():
    r = consensus.SCAD(0.5)
    p = problem("squared", r)
    np.testing.assert_allclose(p.strong_convexity(), np.linalg.eigvalsh(hessians(p, 1))[:, 0] + r.strong_convexity, rtol=1e-9)
    flat = consensus.Problem.from_functions(np.zeros_like, np.zeros_like, agents=3, parameters=2, regularizer=r, lipschitz=1e-9)
    np.testing.assert_array_equal(flat.lipschitz(), -r.strong_convexity)


def functions(**more):
    return consensus.Problem.from_functions(
        lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=3, parameters=2, regularizer=consensus.L2(0.5), **more
    )


def test_functions_say_theirs():
    np.testing.assert_array_equal(functions(lipschitz=2).lipschitz(), 6.5)
    np.testing.assert_array_equal(functions(lipschitz=[1, 2, 3]).restrict([2, 0]).lipschitz(), [9.5, 3.5])
    with pytest.raises(TypeError, match=r"knows no Lipschitz constants.*give the solver a step_size=.* lipschitz="):
        functions().lipschitz()
    with pytest.raises(TypeError, match=r"knows no modulus.*give the solver a convexity="):
        functions().strong_convexity()
    with pytest.raises(TypeError, match=r"MLP.* need not be convex: give the solver a convexity="):
        problem(model=consensus.MLP([4, 3, 1])).strong_convexity()


@pytest.mark.parametrize("odd", [0, -1.0, [1, 2], [1, 2, np.inf], np.nan])
def test_bad_constants_are_refused(odd):
    with pytest.raises(ValueError, match=r"lipschitz must be a finite number > 0, or 3 of them; got"):
        functions(lipschitz=odd)


def test_a_smooth_regularizer_of_ones_own_has_to_say_its_curvature():
    class Cosh(consensus.regularizers.Regularizer):
        smooth = True

        def value(self, w):
            return np.sqrt(1 + w**2).sum(axis=-1)

        def prox(self, v, step):
            raise NotImplementedError

    p = problem("squared", Cosh())
    with pytest.raises(TypeError, match="says no curvature_bound"):
        p.lipschitz()
    Cosh.curvature_bound = 1.0
    np.testing.assert_allclose(p.lipschitz() - 1, problem("squared").lipschitz(), rtol=1e-12)
