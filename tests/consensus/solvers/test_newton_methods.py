"""Methods of second order: directions, the paper's form of Newton tracking, stable penalties, defaults."""

import numpy as np
import pytest

import consensus
from consensus.local.exact import newton_directions
from consensus.solvers import NetworkGIANT, NewtonTracking, check_needs
from tests.helpers.problems import problem
from tests.helpers.quadratics import NETWORKS, dense, hessians, iteration_matrix, quadratic, times
from tests.helpers.steps_by_hand import MLP, SCHEDULES, states


def solved(matrices, right):
    return np.linalg.solve(matrices, right[:, :, None])[:, :, 0]


def test_newton_tracking_tracks_directions():
    """The paper's form, from a start with ``(B + e I) U = G(X) + 2 c (I - W) X``, where the dual variables are zero here."""
    p, schedule = quadratic(8), NETWORKS["geometric of 8"]
    solver, (H, b), lap = NewtonTracking().prepared(p, schedule), hessians(p), np.eye(8) - dense(schedule)
    x, *found = (state.w for state in states(solver, p, schedule, 20))
    c, B = solver.penalty, H + solver.damping * np.eye(3)
    u = solved(B, times(H, x) + b + 2 * c * lap @ x)
    for w in found:
        new = x - u
        u, x = solved(B, times(B, u) + times(H, new - x) + c * lap @ (2 * new - x)), new
        np.testing.assert_allclose(w, x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("model", [consensus.Linear(4), consensus.MLP([4, 30, 2, 1]), MLP])  # P above and below n
def test_directions_solve_the_explicit_systems(model):
    p, rng = problem("logistic", consensus.L2(0.05), model, scheme="sizes"), np.random.default_rng(1)
    w, right = rng.standard_normal((2, 6, p.parameters))
    found = newton_directions(p, w, right, 0.3)
    J, outputs = model.jacobian(w, p.shards.features), model.predict(w, p.shards.features)[:, :, 0]
    chance = 1 / (1 + np.exp(-outputs))
    curved = J * (p.agents * p.weights * chance * (1 - chance))[:, :, None]
    expected = solved(curved.swapaxes(1, 2) @ J + 0.35 * np.eye(p.parameters), right)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    assert p.work.solves == 1


@pytest.mark.parametrize("excess", [1, 2.5])
def test_newton_tracking_is_stable_where_it_says_and_not_far_above(excess):
    """Targets and features near zero: the Hessians are those of the small ridge."""
    network, shards = NETWORKS["ring of 8"], consensus.partition(np.zeros((8, 1)), np.zeros(8), agents=8)
    p = consensus.Problem(consensus.Linear(1, bias=False), consensus.SquaredLoss(), shards, consensus.L2(0.01))
    c = excess / (1 - np.linalg.eigvalsh(dense(network))[0])
    moduli = np.abs(np.linalg.eigvals(iteration_matrix(NewtonTracking(c, 1.0), p, network)))
    assert (moduli.max() < 1 + 1e-9) == (excess == 1)


def test_defaults():
    p, schedule = quadratic(8), NETWORKS["ring of 8"]
    curvatures, values = np.linalg.eigvalsh(hessians(p)[0]), np.linalg.eigvalsh(dense(schedule))
    middle, most = np.sqrt(curvatures.max() * curvatures[:, 0].mean()), 1 - values[0]
    ready = NewtonTracking().prepared(p, schedule)
    assert ready.damping == pytest.approx(middle * np.sqrt(most / (1 - values[-2])), rel=1e-5)
    assert ready.penalty == pytest.approx(ready.damping / most, rel=1e-5)
    assert NewtonTracking(0.3).prepared(p, schedule) == NewtonTracking(0.3, float(f"{0.3 * most:.6g}"))
    assert NewtonTracking(damping=0.3).prepared(p, schedule) == NewtonTracking(float(f"{0.3 / most:.6g}"), 0.3)
    for model, share in ((consensus.Linear(4), 1 / 4), (MLP, 1)):  # Hessians that change
        p = problem("huber", consensus.L2(1e-9), model)
        assert 1 / NewtonTracking().stable_step(p, SCHEDULES["static"]) == pytest.approx(share * p.lipschitz().max(), rel=1e-5)
    with pytest.raises(ValueError, match=r"damping must be > 0 with L2\(weight=0\.0\)"):
        check_needs(NetworkGIANT(0.1), problem("squared"), SCHEDULES["static"])
    check_needs(NetworkGIANT(0.1, damping=0.1), problem("squared"), SCHEDULES["static"])
