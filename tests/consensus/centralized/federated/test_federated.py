"""Federated systems: their equations by hand, what they have in common with others, and where they end."""

import numpy as np
import pytest
from scipy.optimize import minimize

import consensus
from consensus.centralized import SCAFFOLD, FedAdam, FedAvg, solve
from consensus.checkpoints.checkpoint import load
from consensus.federated.base import Clients
from consensus.problems import Minibatches

BATCHES = Minibatches(2, 5)


@pytest.mark.parametrize("batch", [None, 2])
def test_fed_avg_is_its_equation_and_every_local_step_has_a_batch_of_its_own(problem, start, batch):
    """Step k of round n, of K a round, has the batch that :class:`Minibatches` draws in round n K + k."""
    sizes, w = problem.shards.sizes, start
    for n in range(3):
        y = np.tile(w, (6, 1))
        for k in range(4):
            drawn = BATCHES.at(problem, 4 * n + k) if batch else None
            y = y - 0.2 * (60 / sizes[:, None] * problem.gradient(y, drawn) + 0.01 * y)
        w = np.average(y, axis=0, weights=sizes)
    run = solve(problem, FedAvg(0.2, local_steps=4, batch=batch, seed=5), rounds=3, start=start)
    np.testing.assert_allclose(run.mean, w, rtol=1e-12, atol=1e-14)
    last, samples = run.history.last(), 12 * (6 * batch if batch else 60)
    assert (last["gradients"], last["samples"], last["bytes_busiest"]) == (12, samples, 3 * 12 * 8 * problem.parameters)


@pytest.mark.parametrize("system", [FedAvg(0.2, 1), FedAdam(0.2, 1, server_rate=0.05), SCAFFOLD(0.2, 1)])
def test_one_local_step_from_all_clients_is_a_step_along_the_gradient(problem, start, slope, system):
    first = -0.2 * slope(start)
    if isinstance(system, FedAdam):
        m, v = 0.1 * first, 0.99 * 1e-6 + 0.01 * first**2
        first = 0.05 * m / (np.sqrt(v) + 1e-3)
    run = solve(problem, system, rounds=1, start=start)
    np.testing.assert_allclose(run.mean, start + first, rtol=1e-12, atol=1e-14)


def test_scaffold_ends_at_the_stationary_point_where_fed_avg_does_not(problem):
    line = consensus.Problem(consensus.Linear(3), problem.loss, problem.shards, problem.regularizer)
    ends = [solve(line, kind(0.1, 8), rounds=150, record_every=150).history["stationarity"][-1] for kind in (FedAvg, SCAFFOLD)]
    assert ends[1] < 1e-10 < 1e-4 < ends[0]


def test_controls_add_up_to_the_servers_and_some_clients_are_drawn_a_round(problem, start, tmp_path):
    system = SCAFFOLD(0.05, 3, batch=2, share=0.5, seed=4)
    run = solve(problem, system, rounds=5, start=start, checkpoint=tmp_path / "a", every=2)
    fields = load(tmp_path / "a").fields
    np.testing.assert_allclose(fields["controls"][0].mean(axis=0), fields["c"][0], atol=1e-14)
    assert (fields["controls"][0] != 0).any(axis=1).sum() >= 3
    assert run.history["messages"][-1] == 5 * 4 * 3
    assert run.history["samples"][-1] == 5 * 3 * 3 * 2
    again = solve(problem, system, rounds=8, start=start, resume=tmp_path / "a")
    np.testing.assert_array_equal(again.w, solve(problem, system, rounds=8, start=start).w)


def test_minibatches_are_those_of_all_clients_at_any_share(problem, start):
    """Who takes part draws the samples that it would draw among all."""
    run = solve(problem, FedAvg(0.1, 1, batch=2, share=0.34, seed=5), rounds=1, start=start)
    sizes = problem.shards.sizes
    steps = -0.1 * (60 / sizes[:, None] * problem.gradient(np.tile(start, (6, 1)), BATCHES.at(problem, 0)) + 0.01 * start)
    pairs = [[i, j] for i in range(6) for j in range(i)]
    means = [np.average(steps[pair], axis=0, weights=sizes[pair]) for pair in pairs]
    assert min(np.abs(start + mean - run.mean).max() for mean in means) < 1e-14


def test_fed_adam_comes_near_the_least(problem, start):
    run = solve(problem, FedAdam(0.2, 5, server_rate=0.05), rounds=150, start=start, record_every=150)
    assert run.history["objective"][-1] < 1.1 * minimize(problem.objective, run.mean).fun


def test_other_clients_are_drawn_in_other_rounds(problem):
    def drawn(seed):
        clients = Clients(FedAvg(0.1, share=0.5, seed=seed), problem)
        return [tuple(clients.chosen(n)) for n in range(40)]

    assert len({*drawn(3)}) > 5
    assert np.bincount(np.concatenate(drawn(3)), minlength=problem.agents).min() > 5
    assert drawn(3) != drawn(4)
