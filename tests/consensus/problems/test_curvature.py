"""Lipschitz constants and moduli of convexity: against dense Hessians, and the same whatever block holds the agents."""

import numpy as np
import pytest

import consensus
from tests.helpers.problems import AGENTS, problem


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
def test_an_agents_constant_does_not_depend_on_other_agents(p):
    whole = p.lipschitz()
    parts = [p.restrict(rows).lipschitz() for rows in (slice(0, 1), slice(1, 4), [4, 5])]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_strong_convexity_is_the_least_eigenvalue_where_all_of_the_curvature_is_known():
    p, scad = problem("squared", consensus.L2(0.3)), consensus.SCAD(0.5)
    least = np.linalg.eigvalsh(hessians(p, 1))[:, 0]
    np.testing.assert_allclose(p.strong_convexity(), least + 0.3, rtol=1e-10)
    np.testing.assert_allclose(problem("squared", scad).strong_convexity(), least + scad.strong_convexity, rtol=1e-9)
    np.testing.assert_array_equal(problem("logistic", consensus.L2(0.3)).strong_convexity(), 0.3)
    np.testing.assert_array_equal(problem("logistic", consensus.L1(0.3)).strong_convexity(), 0)


def test_slopes_are_differences_of_costs_at_zero_along_directions():
    directions = np.random.default_rng(0).standard_normal((5, 3))
    for loss in ("squared", "logistic"):
        p = problem(loss, consensus.L2(0.3))
        steps = (np.stack([p.value(np.tile(e * d, (p.agents, 1))) for d in directions.T], axis=1) for e in (1e-4, -1e-4))
        ahead, behind = steps
        np.testing.assert_allclose(p._slopes(directions), (ahead - behind) / 2e-4, rtol=1e-6, atol=1e-9)


def functions(regularizer=consensus.L2(0.5), **more):  # noqa: B008 (it is frozen)
    return consensus.Problem.from_functions(np.zeros_like, np.zeros_like, 3, 2, regularizer, **more)


def test_costs_given_by_functions_have_the_constants_given_with_them():
    np.testing.assert_array_equal(functions(lipschitz=2).lipschitz(), 6.5)
    np.testing.assert_array_equal(functions(lipschitz=[1, 2, 3]).restrict([2, 0]).lipschitz(), [9.5, 3.5])
    scad = consensus.SCAD(0.5)
    np.testing.assert_array_equal(functions(scad, lipschitz=1e-9).lipschitz(), -scad.strong_convexity)
    with pytest.raises(TypeError, match=r"has no known Lipschitz constants.*give the solver a step_size=.* lipschitz="):
        functions().lipschitz()
    for p, match in (
        (functions(), "has no known modulus.*"),
        (problem(model=consensus.MLP([4, 3, 1])), "MLP.* need not be convex"),
    ):
        with pytest.raises(TypeError, match=rf"{match}: give the solver a convexity="):
            p.strong_convexity()


@pytest.mark.parametrize("odd", [0, -1.0, [1, 2], [1, 2, np.inf], np.nan])
def test_bad_constants(odd):
    with pytest.raises(ValueError, match=r"lipschitz must be a finite number > 0, or 3 of them; got"):
        functions(lipschitz=odd)


def test_a_smooth_regularizer_without_a_curvature_bound_is_rejected():
    class Cosh(consensus.regularizers.Regularizer):
        smooth = True

        def value(self, w):
            return np.sqrt(1 + w**2).sum(axis=-1)

        def prox(self, v, step):
            raise NotImplementedError

    p = problem("squared", Cosh())
    with pytest.raises(TypeError, match="has no curvature_bound"):
        p.lipschitz()
    Cosh.curvature_bound = 1.0
    np.testing.assert_allclose(p.lipschitz() - 1, problem("squared").lipschitz(), rtol=1e-12)
