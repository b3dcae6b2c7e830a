"""Every exact method against the plain statement of its update, its rate and optima known from elsewhere."""

import itertools

import numpy as np
import pytest

import consensus
from consensus import solvers
from consensus.solvers import DADMM, DATOS, KGT, LED, NEXT, NIDS, PGEXTRA, SONATA, AutoGT, Gossip, GradientTracking, ProxGT
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.problems import DIRECTED, nonsmooth_optimum, problem, smooth_optimum
from tests.helpers.quadratics import NETWORKS, costs, dense, iteration_matrix, optimum, quadratic
from tests.helpers.steps_by_hand import AGENTS, MLP, SCHEDULES, states
from tests.helpers.turns import in_turn
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
