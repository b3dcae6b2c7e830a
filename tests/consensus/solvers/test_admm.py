"""ADMM and its kin: each against a plain statement of its update, edge by edge, its rate, and optima known from elsewhere."""

import dataclasses

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from problems import problem, smooth_optimum
from quadratics import NETWORKS, dense, fitted, hessians, linear_part, optimum, quadratic, rate, times
from steps_by_hand import SCHEDULES, states

import consensus
import topologies
from consensus.solvers import ATG, DADMM, DLM, LTADMM, DiNNO, check_needs

METHODS = {"DADMM": DADMM, "DLM": DLM, "DiNNO": DiNNO, "LTADMM": LTADMM, "ATG": ATG}
ROUNDS = 12


# Plain statements: step(x, ...) -> (x, ...) from H, b, W and the settings of a prepared solver ----------------------


def dadmm(H, b, W, solver):
    c = solver.penalty

    def step(x, u):
        u = u + c * (x - W @ x)
        around = np.stack([sum(W[i, j] * (x[i] + x[j]) for j in range(len(x))) for i in range(len(x))])
        right = -b - u + c * around
        return np.linalg.solve(H + 2 * c * np.eye(H.shape[1]), right[:, :, None])[:, :, 0], u

    return step


def dlm(H, b, W, solver):
    """Edge by edge, with a step ``1 / (2 c d_i + rho)`` of each agent's own."""
    rho, agents = 1 / solver.step_size, range(len(W))
    c = rho if solver.penalty is None else solver.penalty
    degrees = np.array([sum(W[i, j] for j in agents if j != i) for i in agents])

    def step(x, u):
        apart = c * np.stack([sum(W[i, j] * (x[i] - x[j]) for j in agents) for i in agents])
        u = u + apart
        return x - (times(H, x) + b + u + apart) / (2 * c * degrees + rho)[:, None], u

    return step


def dinno(H, b, W, solver):
    alpha = solver.step_size
    c, agents = 1 / (4 * alpha) if solver.penalty is None else solver.penalty, range(len(W))

    def step(x, u):
        u = u + c * (x - W @ x)
        v = x
        for _ in range(solver.local_steps):
            pulls = [sum(2 * c * W[i, j] * (v[i] - (x[i] + x[j]) / 2) for j in agents if j != i) for i in agents]
            v = v - alpha * (times(H, v) + b + u + np.stack(pulls))
        return v, u

    return step


def lt_admm(H, b, W, solver):
    gamma = solver.step_size
    rho = 1 / (solver.local_steps * gamma) if solver.penalty is None else solver.penalty

    def step(x, z):
        v = x
        for _ in range(solver.local_steps):
            v = v - gamma * (times(H, v) + b) - gamma * (rho * W.sum(axis=1)[:, None] * x - z.sum(axis=1))
        return v, (z - z.swapaxes(0, 1)) / 2 + rho * W[:, :, None] * v[None]

    return step


def atg(H, b, W, solver):
    delta, gamma, rho, alpha = solver.step_size, solver.gamma, solver.penalty, solver.relaxation

    def step(x, z):
        q = (np.concatenate([x, times(H, x) + b], axis=1) + z.sum(axis=1)) / (1 + rho * W.sum(axis=1)[:, None])
        y, s = np.split(q, 2, axis=1)
        z = (1 - alpha) * z + alpha * (2 * rho * W[:, :, None] * q[None] - z.swapaxes(0, 1))
        return x + gamma * (y - delta * s - x), z

    return step


PLAIN = {"DADMM": dadmm, "DLM": dlm, "DiNNO": dinno, "LTADMM": lt_admm, "ATG": atg}


def begin(name, w, W, solver):
    """What a plain statement begins with, beside the iterates."""
    agents, parameters = w.shape
    if name == "ATG":
        return np.zeros((agents, agents, 2 * parameters))
    if name == "LTADMM":
        return W[:, :, None] * w[None] / (solver.local_steps * solver.step_size)
    return np.zeros_like(w)


@pytest.mark.parametrize("network", ["ring of 8", "geometric of 8"])
@pytest.mark.parametrize("name", METHODS)
def test_iterates_are_those_of_a_plain_statement(name, network):
    p, schedule = quadratic(8), NETWORKS[network]
    solver, W = METHODS[name]().prepared(p, schedule), dense(schedule)
    step = PLAIN[name](*hessians(p), W, solver)
    found = [state.w for state in states(solver, p, schedule, ROUNDS)]
    x, memory = found[0], begin(name, found[0], W, solver)
    for w in found[1:]:
        x, memory = step(x, memory)
        np.testing.assert_allclose(w, x, rtol=0, atol=1e-12)


# Rates and optima ---------------------------------------------------------------------------------------------------


def atg_nodes(H, b, W, solver):
    """ATG in the sums over edges alone: sums that it never changes would be in its spectrum with the edges."""
    delta, gamma, rho, alpha = solver.step_size, solver.gamma, solver.penalty, solver.relaxation

    def step(x, own, others):
        q = (np.concatenate([x, times(H, x) + b], axis=1) + own) / (1 + rho)
        y, s = np.split(q, 2, axis=1)
        following = (1 - alpha) * own + alpha * (2 * rho * W @ q - others)
        return x + gamma * (y - delta * s - x), following, (1 - alpha) * others + alpha * (2 * rho * q - own)

    return step


@pytest.mark.parametrize("name", METHODS)
def test_the_rate_is_the_spectral_radius_of_the_iteration(name):
    schedule, p = topologies.Static(topologies.path(4)), quadratic(4, parameters=2)
    chosen = ATG(2 / p.lipschitz().max()) if name == "ATG" else METHODS[name]()  # of ATG one whose slowest mode is real
    solver, W = chosen.prepared(p, schedule), dense(schedule)
    memory = {"ATG": [(4, 4), (4, 4)], "LTADMM": [(4, 4, 2)]}.get(name, [(4, 2)])
    plain = atg_nodes if name == "ATG" else PLAIN[name]
    expected = rate(linear_part(plain(*hessians(p), W, solver), (4, 2), *memory))
    errors = [np.linalg.norm(state.w - optimum(p)) for state in states(solver, p, schedule, 250)]
    assert fitted(errors) == pytest.approx(expected, abs=0.005)
    assert 0.5 < expected < 0.95


RUNS = [(name, network, 500) for name in METHODS for network in ("ring of 8", "geometric of 30")]
RUNS += [
    ("DLM", "ring of 30", 2000),
    ("ATG", "ring of 30", 500),
    ("ATG", "geometric of 8", 250),
    ("DADMM", "geometric of 8", 500),
]


@pytest.mark.parametrize(("name", "network", "rounds"), RUNS)
def test_with_default_settings_they_reach_the_optimum(name, network, rounds):
    schedule = NETWORKS[network]
    p = quadratic(schedule.agents)
    result = consensus.solve(p, schedule, METHODS[name](), rounds=rounds, record_every=rounds)
    np.testing.assert_allclose(result.w, np.tile(optimum(p), (p.agents, 1)), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", METHODS)
def test_logistic_costs_and_agents_that_start_apart(name):
    p, schedule = problem("logistic", consensus.L2(0.1)), SCHEDULES["static"]
    start = np.random.default_rng(0).standard_normal((p.agents, p.parameters))
    options = {"rounds": 5000, "record_every": 50, "tolerance": 1e-11, "start": start}
    result = consensus.solve(p, schedule, METHODS[name](), **options)
    np.testing.assert_allclose(result.w, np.tile(smooth_optimum(p), (p.agents, 1)), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["DADMM", "DLM", "DiNNO", "LTADMM"])
def test_dual_variables_sum_to_zero_on_networks_that_change(name):
    p = problem("squared", consensus.L2(0.1))
    solver = METHODS[name]().prepared(p, SCHEDULES["random"])
    for state in states(solver, p, SCHEDULES["random"], 30):
        np.testing.assert_allclose(state.dual.sum(axis=0), 0, rtol=0, atol=1e-13)


# One method at a time -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [1e-3, 0.1, 10.0, 1e3])
def test_admm_is_stable_with_any_penalty(penalty):
    schedule, p = topologies.Static(topologies.ring(4)), quadratic(4, parameters=2)
    step = dadmm(*hessians(p), dense(schedule), DADMM(penalty))
    assert rate(linear_part(step, (4, 2), (4, 2))) < 1


@pytest.mark.parametrize("weight", [0.3])
def test_admm_takes_regularizers_that_are_not_smooth(weight):
    p = problem("squared", consensus.L1(weight))
    w = cp.Variable(p.parameters)
    x, d = p.shards.features.reshape(-1, 4), p.shards.targets.ravel()
    cost = cp.sum_squares(x @ w[:4] + w[4] - d) / (2 * 60) + weight * cp.norm1(w)
    cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    result = consensus.solve(p, SCHEDULES["static"], DADMM(), rounds=400, record_every=400)
    np.testing.assert_allclose(result.w, np.tile(w.value, (p.agents, 1)), rtol=0, atol=1e-7)
    assert result.history["stationarity"][-1] < 1e-10


@pytest.mark.parametrize("penalty", [1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("graph", [topologies.star(6), topologies.erdos_renyi(6, 0.5, seed=2)], ids=["star", "random"])
def test_dlm_is_stable_below_two_over_the_lipschitz_constant_with_any_penalty(graph, penalty):
    p, network = quadratic(6, parameters=2), topologies.Static(graph)
    (H, b), L = hessians(p), p.lipschitz().max()
    assert DLM().stable_step(p, network) == pytest.approx(1.8 / L, rel=1e-12)
    for factor in (1.999, 2.02):
        step = dlm(H, b, dense(network), DLM(factor / L, penalty * L))
        moduli = np.abs(np.linalg.eigvals(linear_part(step, (6, 2), (6, 2))))
        if factor < 2 or penalty == 1e-3:  # agents that are hardly joined have the edge of gradient descent
            assert (moduli.max() < 1 + 1e-7) == (factor < 2)


def test_dlm_is_extra_where_all_agents_have_the_same_weight_for_themselves():
    """With ``c = 1 / (2 alpha)`` and ``rho = 2 c w_ii``, for which ``2 c d_i + rho = 1 / alpha``."""
    p, schedule, alpha = quadratic(8), NETWORKS["ring of 8"], 0.3
    (H, b), W = hessians(p), dense(schedule)
    solver = DLM(alpha / W[0, 0], 1 / (2 * alpha)).prepared(p, schedule)
    found = [state.w for state in states(solver, p, schedule, ROUNDS)]
    for x, y, z in zip(found, found[1:], found[2:], strict=False):
        change = times(H, y) - times(H, x)
        np.testing.assert_allclose(z, y + W @ y - (x + W @ x) / 2 - alpha * change, rtol=0, atol=1e-13)
    assert abs(b).max() > 0


# Wrong pairs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_wrong_pairs(name):
    solver, p = METHODS[name](), problem("squared", consensus.L2(0.1))
    with pytest.warns(UserWarning, match=f"{name}'s theory needs mixing matrices with the condition 'static'"):
        check_needs(solver, p, SCHEDULES["random"])
    directed = nx.DiGraph([(k, (k + 1) % 6) for k in range(6)] + [(0, 3)])
    with pytest.raises(ValueError, match=f"{name} needs symmetric doubly stochastic mixing matrices"):
        check_needs(solver, p, topologies.Static(directed, weights=topologies.push))
    if name == "DADMM":
        functions = consensus.Problem.from_functions(np.sum, np.copy, agents=6, parameters=2)
        with pytest.raises(TypeError, match="DADMM needs a model to linearise"):
            check_needs(solver, functions, SCHEDULES["static"])
    else:
        with pytest.raises(ValueError, match=f"{name} needs a smooth regularizer, and L1"):
            check_needs(solver, problem("squared", consensus.L1(0.1)), SCHEDULES["static"])


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: DADMM(0), "penalty must be"),
        (lambda: DLM(penalty=-1), "penalty must be"),
        (lambda: DiNNO(local_steps=0), "local_steps must be"),
        (lambda: LTADMM(penalty=0.0), "penalty must be"),
        (lambda: ATG(gamma=1.5), "gamma must be"),
        (lambda: ATG(relaxation=1), "relaxation must be"),
    ],
)
def test_bad_settings(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_where_costs_are_quadratic_dadmm_takes_a_gradient_in_every_fiftieth_round(tmp_path):
    """From there on it has the minimisers by linear algebra alone; in single precision they are as near as with all gradients,
    where rounding of the sum of the duals leaves 4.3e-6. A run that is resumed goes on from the same gradient."""
    for p, error in ((quadratic(8), 1e-13), (single(quadratic(8)), 6e-6)):
        solver = DADMM(1.5)
        result = consensus.solve(p, NETWORKS["ring of 8"], solver, rounds=120, record_every=10)
        assert result.history["gradients"].tolist() == [0, *[1] * 5, *[2] * 5, *[3] * 2]
        assert result.history["solves"][-1] == 120
        path = tmp_path / "run.ckpt"
        consensus.solve(p, NETWORKS["ring of 8"], solver, rounds=73, checkpoint=path)
        again = consensus.solve(p, NETWORKS["ring of 8"], solver, rounds=120, resume=path)
        np.testing.assert_array_equal(again.w, result.w)
        step, x = dadmm(*hessians(quadratic(8)), dense(NETWORKS["ring of 8"]), result.solver), np.zeros((8, 3))
        dual = x
        for _ in range(120):
            x, dual = step(x, dual)
        np.testing.assert_allclose(result.w, x, rtol=0, atol=error)


def single(problem):
    """The same in single precision."""
    shards = problem.shards
    features, targets, weights = (np.float32(array) for array in (shards.features, shards.targets, shards.weights))
    shards = dataclasses.replace(shards, features=features, targets=targets, weights=weights)
    return consensus.Problem(problem.model, problem.loss, shards, problem.regularizer)
