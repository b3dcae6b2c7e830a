"""Methods of second order: against a plain statement of their updates, their rate, and optima known from elsewhere."""

import functools

import numpy as np
import pytest
from problems import problem, smooth_optimum
from quadratics import NETWORKS, dense, fitted, hessians, linear_part, optimum, quadratic, rate, times
from steps_by_hand import MLP, SCHEDULES, states

import consensus
import topologies
from consensus.local.newton_directions import newton_directions
from consensus.solvers import NetworkGIANT, NewtonTracking, check_needs

METHODS = {"NetworkGIANT": functools.partial(NetworkGIANT, 0.1), "NewtonTracking": NewtonTracking}


def solved(matrices, right):
    return np.linalg.solve(matrices, right[:, :, None])[:, :, 0]


def network_giant(H, b, W, solver):
    alpha = solver.step_size

    def step(x, y):
        new = W @ (x - alpha * solved(H, y))
        return new, W @ (y + times(H, new - x))

    return step


def newton_tracking(H, b, W, solver):
    """In the paper's form, with directions tracked."""
    c, lap = solver.penalty, np.eye(len(W)) - W
    B = H + solver.damping * np.eye(H.shape[1])

    def step(x, u):
        new = x - u
        return new, solved(B, times(B, u) + times(H, new - x) + c * lap @ (2 * new - x))

    return step


PLAIN = {"NetworkGIANT": network_giant, "NewtonTracking": newton_tracking}


@pytest.mark.parametrize("name", METHODS)
def test_iterates_are_those_of_a_plain_statement(name):
    p, schedule = quadratic(8), NETWORKS["geometric of 8"]
    solver, W, (H, b) = METHODS[name]().prepared(p, schedule), dense(schedule), hessians(p)
    step = PLAIN[name](H, b, W, solver)
    found = [state.w for state in states(solver, p, schedule, 20)]
    x = found[0]
    memory = times(H, x) + b
    if name == "NewtonTracking":
        memory = solved(H + solver.damping * np.eye(3), memory + 2 * solver.penalty * (x - W @ x))
    for w in found[1:]:
        x, memory = step(x, memory)
        np.testing.assert_allclose(w, x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_the_rate_is_the_spectral_radius_of_the_iteration(name):
    schedule, p = topologies.Static(topologies.path(4)), quadratic(4, parameters=2)
    solver = {"NetworkGIANT": NetworkGIANT(0.1), "NewtonTracking": NewtonTracking(0.5, 1.0)}[name]
    expected = rate(linear_part(PLAIN[name](*hessians(p), dense(schedule), solver), (4, 2), (4, 2)))
    errors = [np.linalg.norm(state.w - optimum(p)) for state in states(solver, p, schedule, 500)]
    assert fitted(errors) == pytest.approx(expected, abs=0.005)
    assert 0.5 < expected < 0.97


@pytest.mark.parametrize(
    ("name", "network", "rounds"),
    [
        ("NetworkGIANT", "ring of 8", 300),
        ("NetworkGIANT", "geometric of 8", 500),
        ("NetworkGIANT", "geometric of 30", 1200),
        ("NewtonTracking", "ring of 8", 250),
        ("NewtonTracking", "geometric of 8", 500),
        ("NewtonTracking", "geometric of 30", 250),
    ],
)
def test_with_default_settings_they_reach_the_optimum(name, network, rounds):
    schedule = NETWORKS[network]
    p = quadratic(schedule.agents)
    result = consensus.solve(p, schedule, METHODS[name](), rounds=rounds, record_every=rounds)
    np.testing.assert_allclose(result.w, np.tile(optimum(p), (p.agents, 1)), rtol=0, atol=1e-10)


@pytest.mark.parametrize("loss", ["logistic", "huber", "classes"])
@pytest.mark.parametrize("name", METHODS)
def test_other_losses_and_agents_that_start_apart(name, loss):
    p, schedule = problem(loss, consensus.L2(0.1)), SCHEDULES["static"]
    start = np.random.default_rng(0).standard_normal((p.agents, p.parameters))
    options = {"rounds": 5000, "record_every": 50, "tolerance": 1e-11, "start": start}
    result = consensus.solve(p, schedule, METHODS[name](), **options)
    np.testing.assert_allclose(result.w, np.tile(smooth_optimum(p), (p.agents, 1)), rtol=0, atol=1e-10)


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


def test_the_tracker_of_network_giant_has_the_mean_of_the_gradients():
    p = problem("logistic", consensus.L2(0.1))
    for state in states(NetworkGIANT(0.05), p, SCHEDULES["random"], 20):
        np.testing.assert_allclose(state.y.mean(axis=0), p.average_gradient(state.w).mean(axis=0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("excess", [1, 2.5])
def test_newton_tracking_is_stable_where_it_says_and_not_far_above(excess):
    W, curvature = dense(NETWORKS["ring of 8"]), 0.01
    c = excess / (1 - np.linalg.eigvalsh(W)[0])
    step = newton_tracking(curvature * np.ones((8, 1, 1)), np.zeros((8, 1)), W, NewtonTracking(c, 1.0))
    moduli = np.abs(np.linalg.eigvals(linear_part(step, (8, 1), (8, 1))))
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
    with pytest.raises(TypeError, match="step"):
        NetworkGIANT()


def test_wrong_pairs():
    static, random = SCHEDULES["static"], SCHEDULES["random"]
    for name, kind in METHODS.items():
        with pytest.warns(UserWarning, match=f"{name}'s theory needs mixing matrices with the condition 'static'"):
            check_needs(kind(), problem("squared", consensus.L2(0.1)), random)
        with pytest.raises(ValueError, match=f"{name} needs a smooth regularizer, and L1"):
            check_needs(kind(), problem("squared", consensus.L1(0.1)), static)
        functions = consensus.Problem.from_functions(np.sum, np.copy, agents=6, parameters=2)
        with pytest.raises(TypeError, match=f"{name} needs a model to linearise"):
            check_needs(kind(), functions, static)
    with pytest.raises(ValueError, match=r"damping must be > 0 with L2\(weight=0\.0\)"):
        check_needs(NetworkGIANT(0.1), problem("squared"), static)
    check_needs(NetworkGIANT(0.1, damping=0.1), problem("squared"), static)
    with pytest.raises(ValueError, match="damping must be"):
        NewtonTracking(damping=0)
