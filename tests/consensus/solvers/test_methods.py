"""Every exact method against the plain statement of its update, its rate and optima known from elsewhere."""

import dataclasses
import itertools

import numpy as np
import pytest

import consensus
import topologies
from consensus import solvers
from consensus.local.exact import newton_directions
from consensus.solvers import (
    ATG,
    DADMM,
    DATOS,
    DLM,
    KGT,
    LED,
    LTADMM,
    NEXT,
    NIDS,
    PGEXTRA,
    SONATA,
    AutoGT,
    Gossip,
    GradientTracking,
    NetworkGIANT,
    NewtonTracking,
    ProxGT,
    check_needs,
)
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.problems import DIRECTED, nonsmooth_optimum, problem, smooth_optimum
from tests.helpers.quadratics import NETWORKS, costs, dense, hessians, iteration_matrix, optimum, quadratic, rate, times
from tests.helpers.steps_by_hand import AGENTS, MLP, SCHEDULES, states
from tests.helpers.turns import in_turn
from tests.reference import multipliers
from tests.reference.exact_methods import METHODS
from tests.reference.least_squares import Costs

L1, L2 = consensus.L1(0.2), consensus.L2(0.1)
STATEMENTS = {type(solver): statement for solver, statement in METHODS.items()}
EXACT = [solver for solver in METHODS if type(solver) is not solvers.DGD]
GIVEN = [  # settings by which a method takes another way
    solvers.OPAPC(0.1, convexity=0.3, momentum=0.4, dual=2.0),
    solvers.AccGT(0.1, convexity=0.3),
    DADMM(penalty=0.7),
    solvers.DLM(0.2, penalty=3.0),
    solvers.DiNNO(0.05, local_steps=3, penalty=2.0),
    solvers.LTADMM(0.05, local_steps=3, penalty=2.0),
    solvers.ATG(0.2, gamma=0.9, penalty=0.5, relaxation=0.4),
    solvers.NetworkGIANT(0.1, damping=0.3),
    KGT(0.02, local_steps=3, scale=0.7),
    LED(0.02, local_steps=3),
    solvers.ProxSkip(0.05, probability=0.3, seed=4),
]


class Lasso(Costs):
    """With 0.2 |w|_1 in place of the ridge."""

    def prox(self, V, a):
        return np.sign(V) * np.maximum(np.abs(V) - 0.2 * a, 0)


@pytest.mark.parametrize("network", ["ring of 8", "geometric of 8"])
@pytest.mark.parametrize("solver", [*METHODS, *GIVEN], ids=str)
def test_iterates_are_those_of_a_plain_statement(solver, network):
    p, schedule = quadratic(8), NETWORKS[network]
    cases = [(p, costs(p))]
    if isinstance(solver, PGEXTRA | NIDS | ProxGT | DATOS):
        lasso = consensus.Problem(p.model, p.loss, p.shards, L1)
        cases.append((lasso, Lasso(p.shards.features, p.shards.targets, p.weights, ridge=0)))
    for p, plain in cases:
        ready = solver.prepared(p, schedule)
        first, *found = (state.w for state in states(ready, p, schedule, 20))
        for w, expected in zip(found, STATEMENTS[type(solver)](dense(schedule), plain, first, ready), strict=False):
            np.testing.assert_allclose(w, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("solver", [one for one in METHODS if not isinstance(one, AutoGT | DATOS)], ids=str)
def test_the_rate_is_the_spectral_radius_of_the_iteration(solver):
    """Without targets the optimum is zero, and errors are known to many digits."""
    schedule, p = NETWORKS["ring of 8"], quadratic.__wrapped__(8)
    if isinstance(solver, solvers.ProxSkip):
        solver = solvers.ProxSkip(probability=1.0)
    elif isinstance(solver, solvers.ATG):  # with a step for which the slowest mode is real
        solver = solvers.ATG(2 / p.lipschitz().max())
    ready = solver.prepared(p, schedule)
    p.shards.targets[:] = 0
    values = np.linalg.eigvals(iteration_matrix(ready, p, schedule))
    moduli = np.abs(values)
    assert moduli.max() < 1 + 1e-6
    radius = moduli[abs(values - 1) > 1e-6].max()  # sums that never change have the eigenvalue one
    assert radius < 0.99
    sizes = (np.linalg.norm(state.w) for state in states(ready, p, schedule, 4000))
    errors = np.array(list(itertools.takewhile(lambda size: size > 1e-14, sizes)))
    late = np.flatnonzero(errors < 1e-6 * errors[0])
    assert len(late) > 20
    assert np.polyfit(late, np.log(errors[late]), 1)[0] == pytest.approx(np.log(radius), rel=0.03)


@pytest.mark.parametrize(("solver", "network"), in_turn(EXACT, NETWORKS, every=4), ids=str)
def test_with_default_settings_they_reach_the_optimum(solver, network):
    """With ten exchanges in place of one for methods that take tens of thousands of rounds on a ring of 30."""
    solver = Gossip(solver, 10) if network == "ring of 30" and isinstance(solver, KGT | AutoGT | solvers.WangElia) else solver
    schedule = NETWORKS[network]
    p = quadratic(schedule.agents)
    result = consensus.solve(p, schedule, solver, rounds=20_000, record_every=100, tolerance=2e-12)
    np.testing.assert_allclose(result.w, np.tile(optimum(p), (p.agents, 1)), rtol=0, atol=1e-10)


OTHER = [(type(one)(convexity=0.1) if isinstance(one, solvers.AccGT | solvers.OPAPC) else one, "logistic") for one in EXACT]
OTHER += [(one, loss) for one in (solvers.NetworkGIANT(0.1), solvers.NewtonTracking()) for loss in ("huber", "classes")]


@pytest.mark.parametrize(("solver", "loss"), OTHER, ids=str)
def test_they_reach_other_optima_from_unequal_starts(solver, loss):
    p = problem(loss, L2)
    start = np.random.default_rng(0).standard_normal((p.agents, p.parameters))
    options = {"rounds": 20_000, "record_every": 50, "tolerance": 1e-11, "start": start}
    result = consensus.solve(p, SCHEDULES["static"], solver, **options)
    np.testing.assert_allclose(result.w, np.tile(smooth_optimum(p), (p.agents, 1)), rtol=0, atol=1e-10)


CONVEX = [(one, "squared", L1) for one in (PGEXTRA(), NIDS(), ProxGT())]
CONVEX += [pytest.param(DADMM(), "squared", L1, marks=pytest.mark.slow)]
CONVEX += [(DATOS(), loss, L1) for loss in ("squared", "logistic")]
CONVEX += [
    (NEXT(FullLinearization(4.0), 0.2), loss, r)
    for loss in ("squared", "logistic")
    for r in (L1, consensus.ElasticNet(0.05, 0.1))
]


@pytest.mark.parametrize(("solver", "loss", "regularizer"), CONVEX, ids=str)
def test_they_reach_cvxpys_optimum_where_the_regularizer_is_not_smooth(solver, loss, regularizer):
    p = problem(loss, regularizer)
    w, objective = nonsmooth_optimum(loss, regularizer)
    result = consensus.solve(p, SCHEDULES["static"], solver, rounds=20_000, record_every=100, tolerance=2e-12)
    assert result.history["stationarity"][-1] < 1e-10
    assert p.objective(result.mean) == pytest.approx(objective, abs=1e-10)
    np.testing.assert_allclose(result.w, np.tile(w, (p.agents, 1)), rtol=0, atol=1e-8 if loss == "squared" else 1e-6)
    if isinstance(solver, DATOS):
        np.testing.assert_array_equal(result.w == 0, np.tile(np.abs(w) < 1e-7, (p.agents, 1)))


# Sums over the agents -----------------------------------------------------------------------------------------------
MEANS = [NEXT(PartialLinearization(0.5), Diminishing(0.5, 0.01)), NEXT(PartialLinearization(0.5, "local"), 0.1)]
MEANS += [NEXT(FullLinearization(3.0), 0.5), SONATA(PartialLinearization(1.0), 0.1), SONATA(FullLinearization(4.0), 0.1)]
MEANS += [GradientTracking(0.1), GradientTracking(0.1, order="cta"), AutoGT(), solvers.NetworkGIANT(0.02)]
MEANS += [solvers.PushDIGing(0.02), solvers.PushPull(0.02)]


@pytest.mark.parametrize("solver", MEANS, ids=str)
def test_trackers_have_the_sum_of_the_gradients_at_every_round(solver):
    """On directed graphs weighted by masses, which stay positive and have the sum A."""
    p = problem("squared", L2, MLP, scheme="sizes")
    pushed = isinstance(solver, SONATA | solvers.PushDIGing | solvers.PushPull)
    for schedule in (DIRECTED if pushed else SCHEDULES).values():
        for state in states(solver, p, schedule, 30):
            gradient = p.gradient(state.w) if isinstance(solver, NEXT | SONATA) else p.average_gradient(state.w)
            tracked = state.y * (state.mass if isinstance(solver, SONATA) else 1)
            np.testing.assert_allclose(tracked.sum(axis=0), gradient.sum(axis=0), rtol=0, atol=1e-12)
            if hasattr(state, "mass"):
                assert state.mass.min() > 0
                assert state.mass.sum() == pytest.approx(AGENTS, abs=1e-13)


ZEROS = [
    DADMM(0.5),
    solvers.DLM(0.1),
    solvers.DiNNO(0.05),
    solvers.LTADMM(0.05),
    solvers.NewtonTracking(0.5, 1.0),
    PGEXTRA(0.05),
]
ZEROS += [solvers.EXTRA(0.05), solvers.WangElia(0.05), KGT(0.01), LED(0.01), solvers.ProxSkip(0.05, 0.3, seed=4), DATOS()]


@pytest.mark.parametrize("solver", ZEROS, ids=str)
def test_dual_variables_add_up_to_zero_at_every_round(solver):
    linear = isinstance(solver, DADMM | DATOS)
    for schedule, r in itertools.product(SCHEDULES.values(), (L2, consensus.L1(0.05)) if isinstance(solver, DATOS) else (L2,)):
        p = problem("squared", r, None if linear else MLP, scheme="sizes")
        for state in states(solver.prepared(p, schedule), p, schedule, 40):
            dual = state.d if isinstance(solver, DATOS) else state.dual
            assert np.abs(dual.sum(axis=0)).max() < 1e-12 * max(1.0, np.abs(dual).max())
        assert np.abs(dual).max() > 1e-3


# What is the same ---------------------------------------------------------------------------------------------------
EQUAL = [
    (KGT(0.05, local_steps=1), GradientTracking(0.05), 1),  # whose trackers differ from then on
    (LED(0.05, local_steps=1), solvers.ProxSkip(0.05, probability=1), 30),
    (SONATA(PartialLinearization(0.5), Diminishing(0.3, 0.01)), NEXT(PartialLinearization(0.5), Diminishing(0.3, 0.01)), 60),
    (SONATA(FullLinearization(3.0), 0.3), NEXT(FullLinearization(3.0), 0.3), 60),
    (Gossip(NEXT(PartialLinearization(0.5), 0.1), 1), NEXT(PartialLinearization(0.5), 0.1), 20),
    (NIDS(0.05), solvers.ExactDiffusion(0.05), 30),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("one", "other", "rounds"), EQUAL, ids=str)
def test_two_methods_are_one_where_theory_says_so(one, other, rounds, schedule):
    p = problem("squared", None if isinstance(one, NIDS) else L2, MLP, scheme="sizes")
    for x, y in zip(*(states(solver, p, SCHEDULES[schedule], rounds) for solver in (one, other)), strict=True):
        np.testing.assert_allclose(x.w, y.w, rtol=0, atol=1e-13)


def test_dlm_is_extra_where_all_agents_have_the_same_weight_for_themselves():
    """With ``c = 1 / (2 alpha)`` and ``rho = 2 c w_ii``, for which ``2 c d_i + rho = 1 / alpha``."""
    p, schedule = quadratic(8), NETWORKS["ring of 8"]
    dlm, extra = solvers.DLM(0.3 / dense(schedule)[0, 0], 1 / 0.6).prepared(p, schedule), solvers.EXTRA(0.3)
    start = np.ones((8, p.parameters))  # agents that start alike have no dual variables in either
    one, other = (consensus.solve(p, schedule, solver, rounds=20, start=start).w for solver in (dlm, extra))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-13)


# Methods of second order: directions, the paper's form of Newton tracking, stable penalties, defaults.


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


# ADMM and its kin: the papers' forms with variables of the edges, stable penalties, and where a gradient is saved.


def lt_admm(G, W, x, solver):
    """With z_ij for every edge and direction, in an array (agents, agents, P)."""
    gamma, rho = solver.step_size, 1 / (solver.local_steps * solver.step_size)
    z = rho * W[:, :, None] * x[None]
    while True:
        v = x
        for _ in range(solver.local_steps):
            v = v - gamma * G(v) - gamma * (rho * W.sum(axis=1)[:, None] * x - z.sum(axis=1))
        x, z = v, (z - z.swapaxes(0, 1)) / 2 + rho * W[:, :, None] * v[None]
        yield x


def atg(G, W, x, solver):
    rho, alpha, z = solver.penalty, solver.relaxation, np.zeros((*W.shape, 2 * x.shape[1]))
    while True:
        q = (np.concatenate([x, G(x)], axis=1) + z.sum(axis=1)) / (1 + rho * W.sum(axis=1)[:, None])
        y, s = np.split(q, 2, axis=1)
        z = (1 - alpha) * z + alpha * (2 * rho * W[:, :, None] * q[None] - z.swapaxes(0, 1))
        x = x + solver.gamma * (y - solver.step_size * s - x)
        yield x


@pytest.mark.parametrize("network", ["ring of 8", "geometric of 8"])
@pytest.mark.parametrize(("solver", "plain"), [(LTADMM(), lt_admm), (ATG(), atg)])
def test_sums_over_the_edges_are_all_that_matters_of_the_edges_variables(solver, plain, network):
    p, schedule = quadratic(8), NETWORKS[network]
    solver = solver.prepared(p, schedule)
    first, *found = (state.w for state in states(solver, p, schedule, 12))
    for w, expected in zip(found, plain(costs(p).gradient, dense(schedule), first, solver), strict=False):
        np.testing.assert_allclose(w, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("penalty", [1e-3, 0.1, 10.0, 1e3])
def test_admm_is_stable_with_any_penalty(penalty):
    assert rate(iteration_matrix(DADMM(penalty), quadratic(4, parameters=2), topologies.Static(topologies.ring(4)))) < 1


@pytest.mark.parametrize("penalty", [1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("graph", [topologies.star(6), topologies.erdos_renyi(6, 0.5, seed=2)], ids=["star", "random"])
def test_dlm_is_stable_below_two_over_the_lipschitz_constant_with_any_penalty(graph, penalty):
    p, network = quadratic(6, parameters=2), topologies.Static(graph)
    L = p.lipschitz().max()
    assert DLM().stable_step(p, network) == pytest.approx(1.8 / L, rel=1e-12)
    for factor in (1.999, 2.02):
        solver = DLM(factor / L, penalty * L).prepared(p, network)
        moduli = np.abs(np.linalg.eigvals(iteration_matrix(solver, p, network)))
        if factor < 2 or penalty == 1e-3:  # agents that are hardly joined have the edge of gradient descent
            assert (moduli.max() < 1 + 1e-7) == (factor < 2)


def single(problem):
    """The same in single precision."""
    arrays = {name: np.float32(getattr(problem.shards, name)) for name in ("features", "targets", "weights")}
    return consensus.Problem(problem.model, problem.loss, dataclasses.replace(problem.shards, **arrays), problem.regularizer)


@pytest.mark.parametrize(("p", "error"), [(quadratic(8), 1e-13), (single(quadratic(8)), 6e-6)], ids=["double", "single"])
def test_where_costs_are_quadratic_dadmm_takes_a_gradient_in_every_fiftieth_round(p, error, tmp_path):
    """From there on it has the minimisers by linear algebra alone; in single precision they are as near as with all gradients,
    where rounding of the sum of the duals leaves 4.3e-6. A run that is resumed goes on from the same gradient."""
    solver, network = DADMM(1.5), NETWORKS["ring of 8"]
    result = consensus.solve(p, network, solver, rounds=120, record_every=10)
    assert result.history["gradients"].tolist() == [0, *[1] * 5, *[2] * 5, *[3] * 2]
    assert result.history["solves"][-1] == 120
    path = tmp_path / "run.ckpt"
    consensus.solve(p, network, solver, rounds=73, checkpoint=path)
    again = consensus.solve(p, network, solver, rounds=120, resume=path)
    np.testing.assert_array_equal(again.w, result.w)
    plain = multipliers.dadmm(dense(network), costs(quadratic(8)), np.zeros((8, 3)), solver)
    np.testing.assert_allclose(result.w, next(itertools.islice(plain, 119, None)), rtol=0, atol=error)
