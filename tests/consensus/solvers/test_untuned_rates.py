"""How fast AutoGT and DATOS are on quadratics: DATOS's step comes to rest, AutoGT's steps never do."""

import itertools

import numpy as np
import pytest
from quadratics import NETWORKS, WEIGHT, dense, fitted, hessians, linear_part, optimum, quadratic, rate, times
from steps_by_hand import states

import consensus
import topologies
from consensus.solvers import DATOS, AutoGT, Gossip

COMPLETE = topologies.Static(topologies.complete(8))


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
    slope = np.polyfit(np.arange(len(late)), np.log(late), 1)[0]
    assert slope == pytest.approx(np.log(expected), rel=0.02)
    assert 0.8 < expected < 0.95


def bowls(*curvatures):
    """The same curvatures at every agent, each about a centre of its own; and the optimum."""
    h, centres = np.array(curvatures), np.random.default_rng(0).standard_normal((8, len(curvatures)))
    problem = consensus.Problem.from_functions(
        lambda w: (h * (w - centres) ** 2).sum(axis=1) / 16, lambda w: h * (w - centres) / 8, agents=8, parameters=len(h)
    )
    return problem, centres.mean(axis=0)


@pytest.mark.parametrize(("solver", "network"), [(AutoGT(), COMPLETE), (Gossip(AutoGT(), 100), NETWORKS["ring of 8"])])
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
    steps = np.array([state.alpha[0, 0] for state in found])
    moving = np.array(errors) > 1e-9
    assert steps[moving].max() <= 1.001 / (2 * h.min())
    assert steps[moving][60:].min() >= 0.999 / (2 * h.max())
    assert np.ptp(steps[moving][60:]) > 0.01  # they do not come to rest
