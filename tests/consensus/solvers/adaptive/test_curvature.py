"""The columns that an agent takes for the network's curvature: against plain formulas, dense solves and CVXPY."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from problems import AGENTS, problem
from scipy.optimize import approx_fprime

import consensus
from consensus.solvers.adaptive import curvature
from consensus.solvers.adaptive.curvature import Curvature, directions

P = 9
MLP = consensus.MLP([4, 3, 1])


def definite(seed=0, agents=3, rank=P):
    """Matrices of a rank, with eigenvalues over three orders of magnitude."""
    root = np.random.default_rng(seed).standard_normal((agents, P, rank)) * np.logspace(0, -1.5, rank)
    return root @ root.swapaxes(1, 2)


def curved(M, dtype=float):
    """M by as many columns as parameters."""
    values, vectors = np.linalg.eigh(M)
    return Curvature(
        (vectors * np.sqrt(np.maximum(values, 0))[:, None]).astype(dtype), np.trace(M, axis1=1, axis2=2), np.zeros(len(M))
    )


def dense(found):
    """M itself."""
    return found.V @ found.V.swapaxes(1, 2)


def everyone(found):
    return np.ones(len(found), bool)


# Corrections


@pytest.mark.parametrize("own", [False, True], ids=["one O", "own O"])
@pytest.mark.parametrize("count", [1, 4, P])
def test_a_correction_is_the_formula_where_there_are_as_many_columns_as_parameters(count, own):
    M, H, rng = definite(0), definite(1), np.random.default_rng(2)
    basis = np.linalg.qr(rng.standard_normal((3, P, count) if own else (P, count)))[0]
    found = curved(M).corrected(basis, H @ basis, everyone(M))
    for agent in range(3):
        O = basis[agent] if own else basis  # noqa: E741
        MO, Z = M[agent] @ O, H[agent] @ O
        expected = M[agent] - MO @ np.linalg.pinv(O.T @ MO) @ MO.T + Z @ np.linalg.pinv(O.T @ Z) @ Z.T
        np.testing.assert_allclose(dense(found)[agent], expected, rtol=0, atol=1e-10 * np.trace(M[agent]))
        np.testing.assert_allclose(dense(found)[agent] @ O, Z, rtol=0, atol=1e-10 * np.abs(Z).max())  # it takes O to Z
    np.testing.assert_allclose(found.scale, np.trace(dense(found), axis1=1, axis2=2), rtol=1e-12)


def test_many_corrections_are_the_formula_again_and_again():
    M, rng = definite(0), np.random.default_rng(4)
    found = curved(M)
    for turn in range(40):
        basis, H = np.linalg.qr(rng.standard_normal((P, 3)))[0], definite(turn + 20)
        found = found.corrected(basis, H @ basis, everyone(M))
        for agent in range(3):
            MO, Z = M[agent] @ basis, H[agent] @ basis
            M[agent] += Z @ np.linalg.inv(basis.T @ Z) @ Z.T - MO @ np.linalg.inv(basis.T @ MO) @ MO.T
    np.testing.assert_allclose(dense(found), M, rtol=0, atol=1e-7 * found.scale.max())
    d = rng.standard_normal((3, P))
    np.testing.assert_allclose(found.times(d), np.einsum("apq,aq->ap", M, d), rtol=0, atol=1e-6 * found.scale.max())


@pytest.mark.parametrize("count", [2, 4])
def test_fewer_columns_are_of_rank_as_many_and_know_the_last_directions(count):
    H, rng = definite(1), np.random.default_rng(6)
    found = Curvature(rng.standard_normal((3, P, 4)), np.ones(3), np.ones(3))
    for _ in range(5):
        basis = np.linalg.qr(rng.standard_normal((P, count)))[0]
        found = found.corrected(basis, H @ basis, everyone(H))
        assert found.V.shape == (3, P, 4)
        np.testing.assert_allclose(dense(found) @ basis, H @ basis, rtol=0, atol=1e-10 * np.abs(H).max())


def test_who_is_not_told_keeps_its_own():
    before, basis = curved(definite(0)), np.random.default_rng(2).standard_normal((P, 2))
    found = before.corrected(basis, definite(1) @ basis, np.array([True, False, True]))
    np.testing.assert_array_equal(found.V[1], before.V[1])
    assert found.scale[1] == pytest.approx(before.scale[1], rel=1e-12)
    assert np.abs(dense(found) - dense(before))[[0, 2]].max(axis=(1, 2)).min() > 0.1


def test_directions_without_curvature_lose_what_m_had_of_them():
    """Z = 0: the pseudoinverse of O'Z is zero, and M takes O to zero."""
    M, basis = definite(0), np.random.default_rng(2).standard_normal((P, 2))
    found = dense(curved(M).corrected(basis, np.zeros((3, P, 2)), everyone(M)))
    np.testing.assert_allclose(found @ basis, 0, rtol=0, atol=1e-12 * np.trace(M[0]))
    assert (np.linalg.eigvalsh(found)[:, 2:] > 1e-6).all()


def test_what_has_negative_curvature_is_left_out():
    """Filters have negative weights, and products are rounded: O'Z may be indefinite."""
    M, basis = definite(0), np.eye(P)[:, :2]
    Z = basis * np.array([1.0, -1.0])
    found = dense(curved(M).corrected(basis, np.tile(Z, (3, 1, 1)), everyone(M)))
    np.testing.assert_allclose(found @ basis, np.tile(basis * np.array([1.0, 0.0]), (3, 1, 1)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [float, np.float32])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_many_corrections_leave_it_finite_and_of_the_size_of_what_it_was_told(noise, dtype):
    """300 of them, each by products with another matrix of any rank and size, of a block and of a single direction in turn.

    M = V V' is symmetric and positive semidefinite by its form; its trace must not grow with the corrections either.
    """
    rng, found, sizes = np.random.default_rng(3), curved(definite(0, rank=3), dtype), []
    for turn in range(300):
        H = definite(turn + 10, rank=1 + turn % P) * 10.0 ** (3 * rng.uniform(-1, 1) * (turn < 280))
        basis = np.linalg.qr(rng.standard_normal((P, 4)) if turn % 2 else rng.standard_normal((3, P, 1)))[0].astype(dtype)
        Z = (H @ basis).astype(dtype)
        Z += (noise * np.abs(Z).max() * rng.standard_normal(Z.shape)).astype(dtype)
        found = found.corrected(basis, Z, everyone(H))
        sizes.append(found.scale / np.trace(H, axis1=1, axis2=2))
        assert found.V.dtype == dtype
    assert np.isfinite(found.V).all()
    assert noise or np.max(sizes[-8:]) < 4  # noise is kept where O'Z is nearly singular
    values = np.linalg.eigvalsh(dense(found).astype(float))
    assert (values[:, 0] > -10 * np.finfo(dtype).eps * values[:, -1]).all()


# The local problem's minimiser


def objective(M, tau, w, slope, r, d):
    return slope @ d + d @ (M + tau * np.eye(P)) @ d / 2 + r.value(w + d)


@pytest.mark.parametrize("columns", [3, P])
def test_without_a_regularizer_it_is_a_linear_system(columns):
    rng = np.random.default_rng(7)
    M = Curvature(rng.standard_normal((3, P, columns)), np.ones(3), np.ones(3))
    w, slope, tau = rng.standard_normal((3, P)), rng.standard_normal((3, P)), np.array([1e-3, 0.1, 2.0])
    expected = [-np.linalg.solve(h + t * np.eye(P), g) for h, t, g in zip(dense(M), tau, slope, strict=True)]
    np.testing.assert_allclose(M.minimiser(tau, w, slope, None), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("columns", [3, P])
@pytest.mark.parametrize("r", [consensus.L1(0.4), consensus.ElasticNet(0.3, 0.2), consensus.Box(-0.5, 0.4)], ids=str)
def test_with_one_it_is_what_cvxpy_finds(r, columns):
    rng = np.random.default_rng(8)
    M = Curvature(rng.standard_normal((3, P, columns)), np.ones(3), np.ones(3))
    w, slope, tau = 0.3 * rng.standard_normal((3, P)), rng.standard_normal((3, P)), np.array([0.01, 0.1, 1.0])
    found = M.minimiser(tau, w, slope, r)
    for agent in range(3):
        d = cp.Variable(P)
        penalty, constraints = 0, []
        if isinstance(r, consensus.Box):
            constraints = [w[agent] + d >= -0.5, w[agent] + d <= 0.4]
        else:
            penalty = getattr(r, "l1", 0.4) * cp.norm1(w[agent] + d) + getattr(r, "l2", 0) / 2 * cp.sum_squares(w[agent] + d)
        H = cp.psd_wrap(dense(M)[agent] + tau[agent] * np.eye(P))
        tight = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
        cost = slope[agent] @ d + cp.quad_form(d, H) / 2 + penalty
        cp.Problem(cp.Minimize(cost), constraints).solve(solver="CLARABEL", **tight)
        np.testing.assert_allclose(found[agent], d.value, rtol=0, atol=1e-6)
        if not constraints:
            mine, its = (objective(dense(M)[agent], tau[agent], w[agent], slope[agent], r, x) for x in (found[agent], d.value))
            assert mine <= its + 1e-10
    exact = np.isin(w + found, [-0.5, 0.4] if isinstance(r, consensus.Box) else [0])
    assert exact.any()  # zeros and bounds are exact, as the prox gives them
    assert not exact.all()


def test_single_precision_stays_single():
    rng = np.random.default_rng(9)
    M = Curvature(rng.standard_normal((3, P, 4)).astype(np.float32), np.ones(3), np.ones(3))
    w, slope = (rng.standard_normal((3, P)).astype(np.float32) for _ in range(2))
    for r in (None, consensus.L1(0.4)):
        found = M.minimiser(np.full(3, 0.1), w, slope, r)
        assert found.dtype == np.float32
        expected = M._replace(V=M.V.astype(float)).minimiser(np.full(3, 0.1), w.astype(float), slope.astype(float), r)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


# At the start


def explicit(p, w):
    """A J_i' S_i J_i of every agent, J_i by differences of the model's outputs."""
    found = np.zeros((p.agents, p.parameters, p.parameters))
    for agent in range(p.agents):
        X, y, c = p.shards.features[agent], p.shards.targets[agent], p.weights[agent]
        outputs = p.model.predict(w[agent], X)
        J = approx_fprime(w[agent], lambda v, X=X: p.model.predict(v, X).ravel(), 1e-7).reshape(*outputs.shape, -1)
        S = p.loss.curvature(outputs, y)
        S = S[..., None] * np.eye(outputs.shape[1]) if p.loss.separable else S
        found[agent] = p.agents * np.einsum("n,nop,nol,nlq->pq", c, J, S, J)
    return found


@pytest.mark.parametrize("model", ["linear", "mlp"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber", "classes"])
def test_it_is_the_own_gauss_newton_curvature_at_the_start(loss, model):
    """All of it where there are as many columns as parameters."""
    outputs = 3 if loss == "classes" else 1
    p = problem(loss, consensus.L2(0.1), {"linear": consensus.Linear(4, outputs), "mlp": consensus.MLP([4, 3, outputs])}[model])
    w = 0.5 * np.random.default_rng(0).standard_normal((AGENTS, p.parameters))
    start, expected = Curvature.at_start(p, w, p.gradient(w)), explicit(p, w)
    assert np.abs(expected).max() > 0.05
    # But for eigenvalues below 1e-6 of the largest.
    np.testing.assert_allclose(dense(start), expected, rtol=0, atol=2e-5 * np.abs(expected).max())
    least = 4 * np.linalg.norm(p.gradient(w), axis=1) / (1 + np.linalg.norm(w, axis=1))  # where no sample has curvature
    np.testing.assert_allclose(start.scale, np.maximum(np.trace(expected, axis1=1, axis2=2), least), rtol=1e-5)


def test_of_many_parameters_it_is_known_in_some_directions(monkeypatch):
    monkeypatch.setattr(curvature, "COLUMNS", 6)
    p = problem("logistic", None, MLP)
    w = 0.5 * np.random.default_rng(0).standard_normal((AGENTS, 19))
    few, whole, O = Curvature.at_start(p, w, p.gradient(w)), explicit(p, w), directions(19, 6, -1)  # noqa: E741
    assert few.V.shape == (AGENTS, 19, 6)
    np.testing.assert_allclose(dense(few) @ O, whole @ O, rtol=0, atol=1e-5 * np.abs(whole).max())
    trace = 19 / 6 * np.einsum("pk,apq,qk->a", O, whole, O)
    np.testing.assert_allclose(few.scale, trace, rtol=1e-5)
    assert (np.abs(np.log(trace / np.trace(whole, axis1=1, axis2=2))) < 1.5).all()


def test_without_a_model_nothing_is_known_but_a_scale():
    p = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=3, parameters=P)
    w, slope = np.full((3, P), 2.0), np.full((3, P), 4.0)
    start = Curvature.at_start(p, w, slope)
    assert not start.V.any()
    assert start.V.shape == (3, P, P)
    np.testing.assert_allclose(start.scale, np.full(3, 100 * np.linalg.norm(slope[0]) / (1 + np.linalg.norm(w[0]))), rtol=1e-14)
    assert curvature.products(p, w, 0)[1].shape == (3, P, 0)


def test_a_scale_is_positive_where_samples_have_no_curvature():
    p = problem("huber", None)
    p = consensus.Problem(p.model, p.loss, replace(p.shards, targets=p.shards.targets + 1e3), None)
    w = np.zeros((AGENTS, 5))
    start = Curvature.at_start(p, w, AGENTS * p.gradient(w))
    assert not start.V.any()
    assert (start.scale > 0).all()


# Directions


@pytest.mark.parametrize("parameters", [1, 5, 30])
def test_directions_are_orthonormal_and_the_same_for_all(parameters):
    count = min(8, parameters)
    O, again, other = (directions(parameters, count, round) for round in (3, 3, 4))  # noqa: E741
    np.testing.assert_allclose(O.T @ O, np.eye(count), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(O, again)
    assert parameters == 1 or np.abs(O - other).max() > 0.1


@pytest.mark.parametrize("width", [4, 40])
def test_products_are_a_times_the_own_ones(width):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, width)), rng.standard_normal(60)
    p = consensus.Problem(consensus.Linear(width), consensus.SquaredLoss(), consensus.partition(X, y, AGENTS), None)
    w = np.zeros((AGENTS, p.parameters))
    basis, found = curvature.products(p, w, 7)
    assert basis.shape == (p.parameters, min(curvature.DIRECTIONS, p.parameters))
    np.testing.assert_array_equal(basis, directions(*basis.shape, 7))
    np.testing.assert_allclose(found, explicit(p, w) @ basis, rtol=0, atol=1e-5)


def test_very_many_parameters_have_fewer_directions(monkeypatch):
    p = problem("squared", None, MLP)
    for numbers, count in ((3 * 19 + 1, 3), (1, 1)):
        monkeypatch.setattr(curvature, "_NUMBERS", numbers)
        assert curvature.products(p, np.zeros((AGENTS, 19)), 0)[1].shape == (AGENTS, 19, count)
