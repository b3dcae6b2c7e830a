"""The columns of an agent's curvature of the network: corrections against plain formulas, the start against products."""

import numpy as np
import pytest
from scipy.optimize import brentq

import consensus
from consensus.solvers.adaptive import curvature, gauss_newton
from consensus.solvers.adaptive.curvature import Curvature, directions
from tests.helpers.problems import AGENTS, problem

P = 9
MLP = consensus.MLP([4, 3, 1])
ALL = np.ones(3, bool)


def definite(seed=0, agents=3, rank=P):
    """Return matrices of a rank, with eigenvalues over three orders of magnitude."""
    root = np.random.default_rng(seed).standard_normal((agents, P, rank)) * np.logspace(0, -1.5, rank)
    return root @ root.swapaxes(1, 2)


def curved(M, dtype=float):
    """Return M by as many columns as parameters."""
    values, vectors = np.linalg.eigh(M)
    V = (vectors * np.sqrt(np.maximum(values, 0))[:, None]).astype(dtype)
    return Curvature(V, np.trace(M, axis1=1, axis2=2), np.zeros(len(M)))


def dense(found):
    return found.V @ found.V.swapaxes(1, 2)


def orthonormal(seed, *shape):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal(shape))[0]


def formula(M, basis, Z):
    """Return the correction of one agent's M."""
    MO = M @ basis
    return M - MO @ np.linalg.pinv(basis.T @ MO) @ MO.T + Z @ np.linalg.pinv(basis.T @ Z) @ Z.T


def own_curvature(p, w):
    """Return the dense Gauss-Newton curvature of A times the own costs."""
    return p.agents * gauss_newton.products(p, w, np.eye(p.parameters))


# Corrections


@pytest.mark.parametrize("own", [False, True], ids=["one O", "own O"])
@pytest.mark.parametrize("count", [1, 4, P])
def test_a_correction_is_the_formula_for_agents_whose_products_count(count, own):
    M, H, basis = definite(0), definite(1), orthonormal(2, *((3, P, count) if own else (P, count)))
    before, Z, told = curved(M), H @ basis, np.array([True, False, True])
    found = before.corrected(basis, Z, told)
    expected = [formula(M[agent], basis[agent] if own else basis, Z[agent]) if told[agent] else M[agent] for agent in range(3)]
    np.testing.assert_allclose(dense(found), expected, rtol=0, atol=1e-10 * found.scale.min())
    np.testing.assert_allclose((dense(found) @ basis)[told], Z[told], rtol=0, atol=1e-10 * np.abs(Z).max())  # it takes O to Z
    np.testing.assert_allclose(found.scale, np.trace(dense(found), axis1=1, axis2=2), rtol=1e-12)
    d = np.random.default_rng(4).standard_normal((3, P))
    np.testing.assert_allclose(found.times(d), np.vecdot(dense(found), d[:, None]), rtol=0, atol=1e-12 * found.scale.max())


@pytest.mark.parametrize("count", [2, 4])
def test_fewer_columns_keep_their_number_and_know_the_last_directions(count):
    H = definite(1)
    found = Curvature(np.random.default_rng(6).standard_normal((3, P, 4)), np.ones(3), np.ones(3))
    for turn in range(5):
        basis = orthonormal(turn, P, count)
        found = found.corrected(basis, H @ basis, ALL)
        assert found.V.shape == (3, P, 4)
        np.testing.assert_allclose(dense(found) @ basis, H @ basis, rtol=0, atol=1e-10 * np.abs(H).max())


@pytest.mark.parametrize("signs", [(0.0, 0.0), (1.0, -1.0)], ids=["none", "negative"])
def test_directions_without_positive_curvature_lose_what_m_had_of_them(signs):
    """Weights of a round may be negative and products are rounded, so O'Z may be indefinite; M keeps its positive part."""
    M, basis = definite(0), np.eye(P)[:, :2]
    found = dense(curved(M).corrected(basis, np.tile(basis * signs, (3, 1, 1)), ALL))
    np.testing.assert_allclose(found @ basis, np.tile(basis * np.maximum(signs, 0), (3, 1, 1)), rtol=0, atol=1e-12)
    assert (np.linalg.eigvalsh(found)[:, 2:] > 1e-6).all()


@pytest.mark.parametrize("dtype", [float, np.float32])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_many_corrections_stay_finite_and_of_the_size_of_the_products(noise, dtype):
    """300 corrections by matrices of any rank and size, of a block and of a single direction in turn."""
    rng, found, sizes = np.random.default_rng(3), curved(definite(0, rank=3), dtype), []
    for turn in range(300):
        H = definite(turn + 10, rank=1 + turn % P) * 10.0 ** (3 * rng.uniform(-1, 1) * (turn < 280))
        basis = orthonormal(turn, *((P, 4) if turn % 2 else (3, P, 1))).astype(dtype)
        Z = (H @ basis).astype(dtype)
        Z += (noise * np.abs(Z).max() * rng.standard_normal(Z.shape)).astype(dtype)
        found = found.corrected(basis, Z, ALL)
        sizes.append(found.scale / np.trace(H, axis1=1, axis2=2))
        assert found.V.dtype == dtype
    assert np.isfinite(found.V).all()
    assert noise or np.max(sizes[-8:]) < 4  # noise is kept where O'Z is nearly singular
    values = np.linalg.eigvalsh(dense(found).astype(float))
    assert (values[:, 0] > -10 * np.finfo(dtype).eps * values[:, -1]).all()


# At the start


def halved(p, w):
    """Return the change over the length of a step down the own gradient that changes it by half, by bisection."""

    def change(t, agent):
        moved = w.copy()
        moved[agent] -= t * g[agent] / size[agent]
        return np.linalg.norm(p.agents * p.gradient(moved)[agent] - g[agent]) / size[agent] - 0.5

    g = p.agents * p.gradient(w)
    size = np.linalg.norm(g, axis=1)
    found = [0.5 * size[agent] / brentq(change, 1e-6, 1e3, (agent,), xtol=1e-14) for agent in range(p.agents)]
    return np.array(found)


@pytest.mark.parametrize("columns", [64, 6])
@pytest.mark.parametrize("model", ["linear", "mlp"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber", "classes"])
def test_it_is_the_own_curvature_in_some_directions_at_the_start(loss, model, columns, monkeypatch):
    monkeypatch.setattr(curvature, "COLUMNS", columns)
    outputs = 3 if loss == "classes" else 1
    p = problem(loss, consensus.L2(0.1), {"linear": consensus.Linear(4, outputs), "mlp": consensus.MLP([4, 3, outputs])}[model])
    w = 0.5 * np.random.default_rng(0).standard_normal((AGENTS, p.parameters))
    start, own = Curvature.at_start(p, w, p.agents * p.gradient(w), 0.0), own_curvature(p, w)
    basis = directions(p.parameters, min(columns, p.parameters), -1)
    assert start.V.shape == (AGENTS, *basis.shape)
    # Eigenvalues below 1e-6 of the largest are left out.
    np.testing.assert_allclose(dense(start) @ basis, own @ basis, rtol=0, atol=2e-5 * np.abs(own).max())
    trace = p.parameters / basis.shape[1] * np.einsum("pk,apq,qk->a", basis, own, basis)
    least = 0 if loss == "squared" and model == "linear" else halved(p, w)  # where no sample has curvature
    np.testing.assert_allclose(start.scale, np.maximum(trace, least), rtol=1e-5)


def test_without_a_model_only_a_scale_is_known():
    p = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=3, parameters=P)
    w, slope = np.full((3, P), 2.0), np.full((3, P), 4.0)
    start = Curvature.at_start(p, w, 3 * slope, 0.0)
    np.testing.assert_array_equal(start.V, np.zeros((3, P, P)))
    np.testing.assert_allclose(start.scale, np.full(3, 10 * 3 * 2), rtol=1e-9)  # ten times the curvature of A g_i
    assert curvature.products(p, w, 0)[1].shape == (3, P, 0)


# Directions


@pytest.mark.parametrize("parameters", [1, 5, 30])
def test_directions_are_orthonormal_and_the_same_for_all(parameters):
    count = min(8, parameters)
    basis, again, other = (directions(parameters, count, round) for round in (3, 3, 4))
    np.testing.assert_allclose(basis.T @ basis, np.eye(count), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(basis, again)
    assert parameters == 1 or np.abs(basis - other).max() > 0.1


@pytest.mark.parametrize(("numbers", "count"), [(curvature._NUMBERS, 8), (3 * 19 + 1, 3), (1, 1)])
def test_products_are_those_of_the_own_curvature_with_fewer_directions_for_many_parameters(numbers, count, monkeypatch):
    monkeypatch.setattr(curvature, "_NUMBERS", numbers)
    p = problem("squared", None, MLP)
    w = 0.5 * np.random.default_rng(0).standard_normal((AGENTS, 19))
    basis, found = curvature.products(p, w, 7)
    np.testing.assert_array_equal(basis, directions(19, count, 7))
    np.testing.assert_allclose(found, own_curvature(p, w) @ basis, rtol=0, atol=1e-12)
    assert curvature.products(problem(), w[:, :5], 7)[0].shape == (5, min(numbers // 5, 5) or 1)
