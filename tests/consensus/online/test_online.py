"""Costs that move: plain statements, regrets and tracking errors against closed forms, LMS; gradients from values alone."""

import warnings

import numpy as np
import pytest

import consensus
import topologies
from consensus import L1, Box, Minibatches
from consensus.engines import Processes
from consensus.observe import EarlyStopping
from consensus.problems import Online, ZerothOrder
from consensus.solvers import DGD, EXTRA, NEXT, NIDS, Gossip, GradientTracking, Subgradient
from consensus.step_sizes import InverseSqrt
from consensus.surrogates import FullLinearization
from consensus.testing import check_problem
from consensus.testing.threads import Threads
from tests.helpers.refusals import refusals
from tests.helpers.steps_by_hand import states

AGENTS, P, SPEED = 5, 2, np.array([0.02, -0.01])
SIDES = np.random.default_rng(0).standard_normal((AGENTS, P))
SIDES -= SIDES.mean(axis=0)
RING = topologies.Static(topologies.ring(AGENTS))


def value(w, round, rows):
    return ((w - SIDES[rows] - SPEED * round) ** 2).sum(axis=1) / (2 * AGENTS)


def gradient(w, round, rows):
    return (w - SIDES[rows] - SPEED * round) / AGENTS


def moving(**options):
    return Online(value, gradient, AGENTS, P, optimum=lambda round: SPEED * round, **options)


def test_iterates_are_those_of_a_plain_statement():
    W, everyone = RING.weights(0).toarray(), np.arange(AGENTS)

    def of(w, t):
        return AGENTS * gradient(w, t, everyone)

    first, *found = (state.w for state in states(DGD(0.3), moving(), RING, 10))
    x = first
    for t, w in enumerate(found):
        x = W @ x - 0.3 * of(x, t)
        np.testing.assert_allclose(w, x, rtol=0, atol=1e-14)
    first, *found = (state.w for state in states(GradientTracking(0.3, order="cta"), moving(), RING, 10))
    x, y = first, of(first, 0)
    for t, w in enumerate(found):
        new = W @ x - 0.3 * y
        y = W @ y + of(new, t + 1) - of(x, t)
        x = new
        np.testing.assert_allclose(w, x, rtol=0, atol=1e-13)
    first, *found = (state.w for state in states(Subgradient(0.3), moving(regularizer=Box(-0.2, 0.2)), RING, 10))
    x = first
    for t, w in enumerate(found):
        v = W @ x
        x = np.clip(v - 0.3 * of(v, t), -0.2, 0.2)
        np.testing.assert_allclose(w, x, rtol=0, atol=1e-14)


def test_columns_are_sums_over_rounds():
    u, rounds = np.array([0.3, -0.1]), 30
    seen = []
    history = consensus.solve(
        moving(comparator=u),
        RING,
        DGD(0.3),
        rounds=rounds,
        start=np.ones(P),
        record_every=1,
        callbacks=[lambda i: seen.append(i.w.copy())],
    ).history
    regret = dynamic = 0.0
    everyone = np.arange(AGENTS)
    assert len(seen) == rounds + 1
    for t, w in enumerate(seen):
        at = [value(np.tile(point, (AGENTS, 1)), t, everyone).sum() for point in (w.mean(axis=0), u, SPEED * t)]
        regret, dynamic = regret + at[0] - at[1], dynamic + at[0] - at[2]
        error = np.sqrt(((w - SPEED * t) ** 2).sum(axis=1).mean())
        for name, expected in (
            ("objective", at[0]),
            ("regret", regret),
            ("dynamic_regret", dynamic),
            ("tracking_error", error),
        ):
            assert history[name][t] == pytest.approx(expected, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_tracking_lags_by_the_speed_over_the_step(alpha):
    """Agents end at a distance of the speed over alpha from a target that moves on."""
    result = consensus.solve(
        Online(value, gradient, AGENTS, P),
        topologies.complete(AGENTS),
        GradientTracking(alpha, order="cta"),
        rounds=600,
        start=8 * np.ones(P),
        record_every=600,
    )
    lag = SPEED * 600 - result.mean
    np.testing.assert_allclose(lag, SPEED / alpha, rtol=1e-6)


def test_regret_grows_no_faster_than_the_root():
    """Of costs that alternate the best fixed point in hindsight is known."""
    signs = np.resize([1.0, -1.0], 301)
    problem = Online(
        lambda w, round: abs(w - signs[round])[:, 0] / AGENTS,
        lambda w, round: np.sign(w - signs[round]) / AGENTS,
        AGENTS,
        1,
        comparator=[0.0],  # every point of [-1, 1] has the least sum
    )
    history = consensus.solve(problem, RING, Subgradient(InverseSqrt(0.5)), rounds=300, start=[3.0], record_every=1).history
    regret, t = history["regret"][1::2], history["round"][1::2] + 1  # whole pairs
    assert (regret <= (3**2 / (2 * 0.5) + 0.5) * np.sqrt(t)).all()  # the bound for one agent
    assert (regret[10:] / np.sqrt(t[10:]) <= regret[10] / np.sqrt(t[10])).all()


def least_mean_squares(samples):
    target = np.array([1.0, -1.0, 0.5, 0.0])
    draws = np.random.default_rng(5)
    h, noise = draws.standard_normal((samples, AGENTS, 4)), 0.3 * draws.standard_normal((samples, AGENTS))

    def error(w, round):
        return (h[round] * (w - target)).sum(axis=1) - noise[round]

    return Online(
        lambda w, round: error(w, round) ** 2 / (2 * AGENTS),
        lambda w, round: error(w, round)[:, None] * h[round] / AGENTS,
        AGENTS,
        4,
        optimum=lambda round: target,
    )


def covariance(W, mu, size, noise):
    """The fixed point of the covariance of the errors of all agents, for regressors N(0, I) that are new in every round."""
    A = len(W)
    one = np.kron(W - mu * np.eye(A), np.eye(size))
    found = np.zeros((A * size, A * size))
    for _ in range(150):
        fourth = np.zeros_like(found)
        for i in range(A):
            own = slice(i * size, i * size + size)
            block = found[own, own]
            fourth[own, own] = block + np.trace(block) * np.eye(size)  # E[H S H] - S of Gaussian regressors
        found = one @ found @ one.T + mu**2 * (fourth + noise**2 * np.eye(A * size))
    return found


@pytest.mark.parametrize(("rounds", "mu"), [(2000, 0.1), pytest.param(20_000, 0.2, marks=pytest.mark.slow)])
def test_diffusion_lms_has_the_misadjustment_and_the_regret_of_theory(rounds, mu):
    """A round adds ``E|m|^2 / 2`` to the regret, m the mean of the errors: it knows nothing of the round's regressors yet."""
    options = {"rounds": rounds, "start": np.zeros(4), "record_every": 1}
    history = consensus.solve(least_mean_squares(rounds + 1), RING, DGD(mu), **options).history
    errors = covariance(RING.weights(0).toarray(), mu, 4, 0.3)
    squares = history["tracking_error"][500:] ** 2
    assert squares.mean() == pytest.approx(np.trace(errors) / AGENTS, rel=0.05)
    mean = np.tile(np.eye(4), AGENTS) / AGENTS
    a_round = np.diff(history["dynamic_regret"][500:]).mean()
    # One round's regret deviates by some 2 sqrt(2 / (4 mu)) times its mean: by 12% over 1,500 rounds, by 2.5% over 20,000.
    assert a_round == pytest.approx(np.trace(mean @ errors @ mean.T) / 2, rel=0.25 if rounds == 2000 else 0.05)


def test_regrets_on_a_moving_target_are_sums_of_geometric_series():
    """Agents that begin alike and see the same target stay alike: ``e+ = (1 - alpha) e - v``, a line and a geometric series."""
    alpha, rounds, start, u = 0.2, 40, np.array([1.0, 2.0]), np.array([0.4, -0.2])
    problem = Online(
        lambda w, round: ((w - SPEED * round) ** 2).sum(axis=1) / (2 * AGENTS),
        lambda w, round: (w - SPEED * round) / AGENTS,
        AGENTS,
        P,
        optimum=lambda round: SPEED * round,
        comparator=u,
    )
    history = consensus.solve(problem, RING, DGD(alpha), rounds=rounds, start=start, record_every=1).history
    lag, first, q, n = SPEED / alpha, start + SPEED / alpha, 1 - alpha, rounds + 1
    dynamic = first @ first * (1 - q ** (2 * n)) / (1 - q**2) - 2 * first @ lag * (1 - q**n) / (1 - q) + n * lag @ lag
    of_u = n * u @ u - u @ SPEED * rounds * n + SPEED @ SPEED * rounds * n * (2 * rounds + 1) / 6
    assert history["dynamic_regret"][-1] == pytest.approx(dynamic / 2, rel=1e-12)
    assert history["regret"][-1] == pytest.approx((dynamic - of_u) / 2, rel=1e-12)
    assert history["tracking_error"][-1] == pytest.approx(np.linalg.norm(q**rounds * first - lag), rel=1e-12)


def test_engines_and_resumed_runs_come_to_the_same(tmp_path):
    options = {"start": np.ones(P), "record_every": 1}
    whole = consensus.solve(moving(comparator=np.zeros(P)), RING, GradientTracking(0.2), rounds=8, **options)
    parts = consensus.solve(moving(comparator=np.zeros(P)), RING, GradientTracking(0.2), rounds=8, engine=Threads(2), **options)
    consensus.solve(
        moving(comparator=np.zeros(P)), RING, GradientTracking(0.2), rounds=5, checkpoint=tmp_path / "run", **options
    )
    again = consensus.solve(
        moving(comparator=np.zeros(P)), RING, GradientTracking(0.2), rounds=8, resume=tmp_path / "run", **options
    )
    for other in (parts, again):
        assert np.array_equal(whole.w, other.w)
        for name in ("objective", "regret", "dynamic_regret", "tracking_error", "gradients"):
            assert np.array_equal(whole.history[name], other.history[name])


@pytest.mark.slow
def test_worker_processes_come_to_the_same():
    for problem in (moving(), estimated()):
        options = {"rounds": 5, "start": np.ones(P), "record_every": 1}
        whole, parts = (
            consensus.solve(problem, RING, DGD(0.2), engine=engine, **options) for engine in ("stacked", Processes(2))
        )
        assert np.array_equal(whole.w, parts.w)
        assert np.array_equal(whole.history["objective"], parts.history["objective"])


def test_rounds_that_are_not_recorded_make_regrets_nan_and_are_warned_of():
    with pytest.warns(UserWarning, match="adds up all rounds, and round 5 is recorded after round 0.*record_every=1"):
        history = consensus.solve(moving(), RING, DGD(0.2), rounds=10, record_every=5).history
    assert np.isnan(history["dynamic_regret"][1:]).all()
    assert np.isfinite(history["tracking_error"]).all()


def estimated(radius=1e-4, **options):
    scales = np.array([1.0, 3.0])
    return ZerothOrder(lambda w, rows: (scales * (w - SIDES[rows]) ** 2).sum(axis=1) / 2, AGENTS, P, radius, **options)


def test_two_points_are_the_plain_estimate():
    problem, W, scales = estimated(), RING.weights(0).toarray(), np.array([1.0, 3.0])
    first, *found = (state.w for state in states(DGD(0.02), problem, RING, 10))
    x = first
    for t, w in enumerate(found):
        u = problem.directions(t)
        slope = P * ((scales * (x - SIDES)) * u).sum(axis=1, keepdims=True) * u  # exact of a quadratic
        x = W @ x - 0.02 * AGENTS * slope
        np.testing.assert_allclose(w, x, rtol=0, atol=1e-10)
    np.testing.assert_allclose(problem.gradient(first), scales * (first - SIDES), atol=1e-9)
    check_problem(problem)


def test_estimates_are_unbiased_with_p_times_the_square():
    problem, w = estimated(), np.ones((AGENTS, P))
    true = problem.gradient(w)
    drawn = np.stack([problem.gradient(w, problem.batch_of(t)) for t in range(700)])
    errors = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (abs(drawn.mean(axis=0) - true) < 4 * errors).all()
    np.testing.assert_allclose((drawn**2).sum(axis=2).mean(axis=0), P * (true**2).sum(axis=1), rtol=0.15)
    lengths = np.linalg.norm(problem.directions(3), axis=1)
    np.testing.assert_allclose(lengths, 1)
    assert np.array_equal(problem.restrict([2, 3]).directions(3), problem.directions(3)[2:4])


def test_solvers_without_a_batch_take_all_differences():
    problem = estimated(lipschitz=3.0)
    result = consensus.solve(problem, RING, EXTRA(), rounds=300, record_every=100)
    np.testing.assert_allclose(result.mean, 0, atol=1e-6)
    lasso = estimated(lipschitz=3.0, regularizer=L1(0.1))
    assert consensus.solve(lasso, RING, NIDS(), rounds=300, record_every=100).history["stationarity"][-1] < 1e-6


@pytest.mark.parametrize(
    "solver", [EXTRA(), NEXT(FullLinearization(1.0), 0.1), Gossip(EXTRA(), 2), DGD(0.1, batch=2), None], ids=str
)
def test_solvers_for_costs_that_stay_refuse_those_that_move(solver):
    with pytest.raises(TypeError, match=r"take DGD\(step_size\), GradientTracking\(step_size\) or Subgradient"):
        consensus.solve(moving(), RING, solver, rounds=1)
    for remedy in (DGD(0.1), GradientTracking(0.1), Subgradient(0.1), Gossip(DGD(0.1), 2)):
        consensus.solve(moving(), RING, remedy, rounds=1)


def test_objectives_of_different_rounds_are_not_compared():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it starts at the minimiser of round 0, and lags behind those that follow
        options = {"start": np.zeros(P), "record_every": 1, "keep": "tracking_error"}
        result = consensus.solve(moving(), RING, DGD(0.3), rounds=20, **options)
    assert result.history["objective"][-1] > result.history["objective"][0]
    assert result.best.value == result.history["tracking_error"].min()
    moved = {"stop": ["tracking_error <= 0.01"], "callbacks": [EarlyStopping(column="dynamic_regret", patience=3)]}
    assert consensus.solve(moving(), RING, DGD(0.3), rounds=20, record_every=1, **moved).rounds < 20
    for options in ({"keep": "objective"}, {"callbacks": [EarlyStopping(column="objective", patience=3)]}):
        with pytest.raises(ValueError, match=r"compares objectives, and costs of Online.* move: take tracking_error"):
            consensus.solve(moving(), RING, DGD(0.3), rounds=20, **options)


test_refusals = refusals(
    (lambda: Online(value, 3, AGENTS, P), TypeError, "gradient must be a function of w and round"),
    (lambda: Online(value, gradient, AGENTS, P, optimum=[0.0]), TypeError, "optimum must be a function of round"),
    (lambda: moving(comparator=[0.0]), ValueError, r"comparator must be one point \(P,\) = \(2,\); got shape \(1,\)"),
    (lambda: Online(value, gradient, AGENTS, P).minimiser(), TypeError, "knows no minimisers: give it optimum="),
    (lambda: moving().at(-1), ValueError, "round"),
    (lambda: moving().lipschitz(), TypeError, "no known Lipschitz constants"),
    (lambda: Online(lambda w, round: w, gradient, AGENTS, P).value(np.ones((AGENTS, P))), ValueError,
     r"value must return shape \(5,\)"),
    (lambda: ZerothOrder(lambda w: w[:, 0], AGENTS, P, radius=0.0), ValueError, "radius"),
    (lambda: consensus.solve(estimated(), RING, DGD(0.1, batch=Minibatches(2)), rounds=1), TypeError,
     r"has values alone: take DGD\(step_size\)"),
)  # fmt: skip
