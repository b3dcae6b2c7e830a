"""KGT, LED and ProxSkip, which do more than one gradient an exchange: bounds, the rate of ProxSkip, counts."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.solvers import KGT, LED, ProxSkip
from tests.helpers.problems import problem, smooth_optimum
from tests.helpers.quadratics import dense, hessians, optimum, quadratic
from tests.helpers.steps_by_hand import SCHEDULES, states

L2 = consensus.L2(0.1)
SKIPPING = ProxSkip(0.05, probability=0.3, seed=4)


@pytest.mark.parametrize("schedule", ["random", "periodic"])
def test_kgt_reaches_the_optimum_on_changing_networks_too(schedule):
    p = problem("squared", L2)
    *_, end = states(KGT(0.02), p, SCHEDULES[schedule], 1500)
    np.testing.assert_allclose(end.w, np.broadcast_to(smooth_optimum(p), end.w.shape), rtol=0, atol=1e-10)


@pytest.mark.parametrize("own", [0.15, 0.35, 0.7])  # least eigenvalues -0.7, where (1 - l^2) / |l| < 2, then -0.3 and 0.4
def test_with_one_local_step_and_equal_quadratics_kgt_has_the_bound_of_its_docstring(own):
    lowest, L = 2 * own - 1, 3.0
    network = topologies.Static(topologies.ring(6), lambda g: topologies.laplacian(g, (1 - own) / 2))
    p = consensus.Problem.from_functions(
        lambda w: L * (w**2).sum(axis=1) / 12, lambda w: L * w / 6, agents=6, parameters=1, lipschitz=L / 6
    )
    bound = (min(2, (1 - lowest**2) / -lowest) if lowest < 0 else 2) / L
    assert np.linalg.eigvalsh(dense(network))[0] == pytest.approx(lowest)
    assert KGT(local_steps=1).stable_step(p, network) <= 0.9 * bound * (1 + 1e-9)
    for factor, stable in ((0.99, True), (1.01, False)):
        *_, end = states(KGT(factor * bound, local_steps=1), p, network, 4000)
        assert (abs(end.w).max() < 1e-6) == stable


def test_the_squared_error_of_proxskip_shrinks_as_its_theory_says():
    """By 1 - min(alpha mu, p^2 (1 - lambda_2) / 2) or faster; by the second here, so half of p takes four times as long."""
    p, network = quadratic(8), topologies.Static(topologies.ring(8))
    curvatures, second = np.linalg.eigvalsh(hessians(p)[0]), np.linalg.eigvalsh(dense(network))[-2]
    rates = {}
    for probability in (0.1, 0.2):
        runs = [list(states(ProxSkip(1 / curvatures.max(), probability, seed), p, network, 600)) for seed in range(4)]
        errors = [[np.sum((run[n].w - optimum(p)) ** 2) for n in (100, 600)] for run in runs]
        rates[probability] = -np.mean([np.log(late / early) for early, late in errors]) / 500
        shrinks = probability**2 * (1 - second) / 2
        assert shrinks < curvatures.min() / curvatures.max()
        assert shrinks < rates[probability]
    assert rates[0.2] / rates[0.1] == pytest.approx(4, rel=0.3)


def test_a_round_that_is_skipped_costs_no_exchange():
    p = problem("squared", L2)
    history = consensus.solve(p, SCHEDULES["static"], SKIPPING, rounds=200, record_every=1).history
    made = np.diff(history["exchanges"]).astype(bool)
    assert made.tolist() == [SKIPPING.communicates(n) for n in range(200)]
    assert 40 < made.sum() < 80
    edges = 2 * SCHEDULES["static"].graph(0).number_of_edges()
    assert history["messages"][-1] == edges * made.sum()
    assert history["floats"][-1] == edges * made.sum() * p.parameters
    assert history["gradients"][-1] == 200


@pytest.mark.parametrize("solver", [KGT(0.02, local_steps=3), LED(0.02, local_steps=3)], ids=str)
def test_local_steps_are_counted(solver):
    history = consensus.solve(problem("squared", L2), SCHEDULES["static"], solver, rounds=10, record_every=1).history
    assert (history["gradients"][-1], history["exchanges"][-1]) == (30, 10)
