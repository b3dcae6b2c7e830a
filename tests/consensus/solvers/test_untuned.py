"""AutoGT and DATOS, whose agents find their steps themselves: optima, rates, what the steps do, what is sent."""

import itertools

import numpy as np
import pytest

import consensus
import topologies
from consensus.solvers import DATOS, AutoGT, Gossip
from tests.helpers.problems import problem, smooth_optimum
from tests.helpers.quadratics import NETWORKS, WEIGHT, dense, fitted, hessians, linear_part, optimum, quadratic, rate, times
from tests.helpers.steps_by_hand import SCHEDULES, states

L2, RING = consensus.L2(0.1), NETWORKS["ring of 8"]
COMPLETE = topologies.Static(topologies.complete(8))


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["random", "periodic"])
@pytest.mark.parametrize("solver", [AutoGT(), DATOS()])
def test_they_reach_the_optimum_on_changing_networks_too(solver, schedule):
    """Beyond their theory."""
    p = problem("squared", L2)
    *_, end = states(solver, p, SCHEDULES[schedule], 1500)
    np.testing.assert_allclose(end.w, np.broadcast_to(smooth_optimum(p), end.w.shape), rtol=0, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_scale_of_the_data_does_not_matter_to_datos(scale):
    """Curvatures of 1e-6 and 1e6, with a first step of 1."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.5 * rng.standard_normal(160)
    shards = consensus.partition(scale * X, scale * y, 8, "iid", seed=0)
    p = consensus.Problem(consensus.Linear(3, bias=False), consensus.SquaredLoss(), shards)
    result = consensus.solve(p, RING, DATOS(), rounds=1000, record_every=1000)
    np.testing.assert_allclose(result.w, np.tile(np.linalg.lstsq(X, y)[0], (8, 1)), rtol=0, atol=1e-9)


def test_single_precision_stays():
    X, y = np.random.default_rng(0).standard_normal((2, 160, 3), np.float32)
    p = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), consensus.partition(X, y[:, 0], agents=8), L2)
    for solver in (AutoGT(), DATOS()):
        result = consensus.solve(p, RING, solver, rounds=600, record_every=600)
        assert result.w.dtype == np.float32
        assert result.history["stationarity"][-1] < 1e-5


def test_steps_outlast_the_optimum():
    """Rounding neither lets DATOS's step collapse nor AutoGT's run away, long after the optimum is reached."""
    p = problem("logistic", L2, scheme="iid")
    for solver, lowest, highest in ((DATOS(), "step", "step"), (AutoGT(), "step_least", "step_largest")):
        history = consensus.solve(p, topologies.complete(6), solver, rounds=800, record_every=40).history
        assert history["stationarity"][10:].max() < 1e-12
        assert history[lowest][10:].min() > 0.02
        assert history[highest].max() < 100


# Rates --------------------------------------------------------------------------------------------------------------


def datos(H, b, W, a, c=0.49):
    """A round at the step ``a``, with the ridge as r: its prox divides."""
    smooth, mix = H - WEIGHT * np.eye(H.shape[1]), (1 - c) * np.eye(len(W)) + c * W

    def step(x, s, d):
        gradient = times(smooth, x) + b
        x_hat, d_hat = mix @ x, mix @ (gradient + s + d)
        new = (x_hat - a * d_hat + a * s) / (1 + a * WEIGHT)
        return new, s + (x_hat - new) / a - d_hat, d_hat + (x - x_hat) / a - gradient - s

    return step


@pytest.mark.parametrize("network", ["ring of 8", "geometric of 8"])
def test_the_rate_of_datos_is_the_spectral_radius_at_the_step_where_it_rests(network):
    p, schedule = quadratic(8), NETWORKS[network]
    found = list(states(DATOS(), p, schedule, 260))
    steps = np.array([state.alpha for state in found])
    resting = int(np.flatnonzero(steps != steps[-1])[-1]) + 1
    errors = np.array([np.linalg.norm(state.w - optimum(p)) for state in found])
    assert errors[resting] > 1e-7 * errors[0]  # with many rounds to go
    expected = rate(linear_part(datos(*hessians(p), dense(schedule), steps[-1]), *[(8, 3)] * 3))
    known = errors[resting:][errors[resting:] > 1e-12 * errors[0]]
    late = known[len(known) // 3 :]
    assert len(late) > 30
    assert np.polyfit(np.arange(len(late)), np.log(late), 1)[0] == pytest.approx(np.log(expected), rel=0.02)
    assert 0.8 < expected < 0.95


def bowls(*curvatures):
    """The same curvatures at every agent, each about a centre of its own; and the optimum."""
    h, centres = np.array(curvatures), np.random.default_rng(0).standard_normal((8, len(curvatures)))
    problem = consensus.Problem.from_functions(
        lambda w: (h * (w - centres) ** 2).sum(axis=1) / 16, lambda w: h * (w - centres) / 8, agents=8, parameters=len(h)
    )
    return problem, centres.mean(axis=0)


@pytest.mark.parametrize(("solver", "network"), [(AutoGT(), COMPLETE), (Gossip(AutoGT(), 100), RING)])
def test_with_exact_averages_autogt_halves_the_error_where_all_curvatures_are_one(solver, network):
    """The steps are 1 / (2 h) for a curvature h: the paper's Algorithm 1, and with many inner exchanges its Algorithm 2."""
    p, best = bowls(3.0, 3.0)
    errors = [np.linalg.norm(state.w - best) for state in states(solver, p, network, 60)]
    assert fitted(errors) == pytest.approx(0.5, abs=0.002)


def test_with_exact_averages_autogt_is_as_fast_as_its_theory_says():
    """The energy of Malitsky and Mishchenko's first theorem never grows, and the rate is at least that of the least step that
    the rule can come to, 1 / (2 L)."""
    h = np.array([1.0, 2.0, 7.0, 20.0])
    p, best = bowls(*h)
    found = list(states(AutoGT(), p, COMPLETE, 250))
    assert np.ptp([state.w for state in found[1:]], axis=1).max() < 1e-13

    def energy(last, state):
        a, before = last.alpha[0, 0], last.before[0, 0]
        x, old = state.w[0] - best, last.w[0] - best
        return x @ x + (x - old) @ (x - old) / 2 + 2 * a * (1 + a / before) * (h @ old**2) / 2

    energies = np.array([energy(*pair) for pair in itertools.pairwise(found[1:])])
    assert (np.diff(energies) <= 1e-12 * energies[:-1] + 1e-28).all()
    errors = [np.linalg.norm(state.w[0] - best) for state in found]
    assert fitted(errors) < 1 - h.min() / (2 * h.max())
    steps = np.array([state.alpha[0, 0] for state in found])[np.array(errors) > 1e-9]
    assert steps.max() <= 1.001 / (2 * h.min())
    assert steps[60:].min() >= 0.999 / (2 * h.max())
    assert np.ptp(steps[60:]) > 0.01  # they do not come to rest


# What is sent -------------------------------------------------------------------------------------------------------


def test_the_flood_of_datos_is_counted():
    """On a path of four: one exchange of two vectors a round and three of a number, first six of two numbers."""
    p = problem("squared", consensus.L1(0.1), agents=4)
    history = consensus.solve(p, topologies.path(4), DATOS(), rounds=5, record_every=1).history
    np.testing.assert_array_equal(np.diff(history["exchanges"]), [7, 4, 4, 4, 4])
    np.testing.assert_array_equal(np.diff(history["messages"]), 6 * np.array([7, 4, 4, 4, 4]))
    vectors = 2 * p.parameters
    np.testing.assert_array_equal(np.diff(history["floats"]), 6 * np.array([vectors + 6 * 2, *[vectors + 3] * 4]))
    assert (history["tries"][1:] >= 1).all()


def test_on_changing_networks_the_flood_waits_until_all_have_heard_from_all():
    with pytest.warns(UserWarning, match="condition 'static'"):
        history = consensus.solve(problem("squared", L2), SCHEDULES["random"], DATOS(), rounds=6, record_every=1).history
    sent = 0
    for made in np.diff(history["exchanges"]):
        assert made == 1 + topologies.analysis.crossing(SCHEDULES["random"], sent + 1)
        sent += int(made)


def test_one_agent_sends_nothing():
    p = problem("squared", consensus.L1(0.1), agents=1)
    result = consensus.solve(p, topologies.complete(1), DATOS(), rounds=400)
    assert result.history["stationarity"][-1] < 1e-9
    assert result.history["messages"][-1] == 0
