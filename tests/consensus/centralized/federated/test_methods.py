"""FedProx, FedDyn, FedNova, FedYogi, FedAdagrad: plain statements, laws, and what they cannot take."""

import numpy as np
import pytest
from scipy.optimize import minimize

import consensus
from consensus.centralized import SCAFFOLD, FedAdagrad, FedAdam, FedAvg, FedDyn, FedNova, FedProx, FedYogi, solve
from consensus.checkpoints.checkpoint import load
from consensus.federated.base import Clients
from consensus.privacy import SecureSums
from consensus.problems import Minibatches

STEPS = [1, 2, 5, 5, 1, 3]


@pytest.fixture(scope="module")
def line(problem):
    return consensus.Problem(consensus.Linear(3), problem.loss, problem.shards, problem.regularizer)


def local(problem, w, steps, *, step=0.1, shares=None, correction=0.0, pull=0.0, batches=None, round=0):
    """y of all clients; f_i = g_i / share_i + r."""
    agents = problem.agents
    shares = np.full(agents, 1 / agents) if shares is None else shares
    y = np.tile(w, (agents, 1))
    for k in range(max(steps)):
        batch = None if batches is None else batches.at(problem, round * max(steps) + k)
        gradient = problem.gradient(y, batch) / shares[:, None] + 0.01 * y + correction + pull * (y - w)
        y = np.where(np.array(steps)[:, None] > k, y - step * gradient, y)
    return y


@pytest.mark.parametrize("batch", [None, 2])
def test_fed_nova_and_fed_prox_are_their_equations(problem, start, batch):
    shares, batches = problem.shards.sizes / 60, Minibatches(2, 3) if batch else None
    nova = prox = start
    for n in range(3):
        y = local(problem, nova, STEPS, shares=shares, batches=batches, round=n)
        nova = nova + (shares @ STEPS) * (shares / STEPS) @ (y - nova)
        prox = shares @ local(problem, prox, [4] * 6, shares=shares, pull=0.7, batches=batches, round=n)
    found = solve(problem, FedNova(0.1, STEPS, batch=batch, seed=3), rounds=3, start=start)
    np.testing.assert_allclose(found.mean, nova, rtol=1e-12, atol=1e-14)
    assert (found.history["gradients"][-1], found.history["messages"][-1]) == (15, 36)
    assert found.history["samples"][-1] == 3 * (np.array(STEPS) @ ([2] * 6 if batch else problem.shards.sizes))
    found = solve(problem, FedProx(0.1, 4, batch=batch, seed=3, coupling=0.7), rounds=3, start=start)
    np.testing.assert_allclose(found.mean, prox, rtol=1e-12, atol=1e-14)


def test_fed_dyn_is_its_equation_and_its_h_is_the_clients_mean(problem, start, tmp_path):
    w, h, own = start, 0 * start, np.zeros((6, problem.parameters))
    for _ in range(3):
        y = local(problem, w, [4] * 6, correction=-own, pull=0.5)
        own = own - 0.5 * (y - w)
        h = h - 0.5 * (y - w).mean(axis=0)
        w = y.mean(axis=0) - h / 0.5
    run = solve(problem, FedDyn(0.1, 4, coupling=0.5), rounds=3, start=start)
    np.testing.assert_allclose(run.mean, w, rtol=1e-12, atol=1e-14)
    system = FedDyn(0.05, 3, batch=2, share=0.5, seed=4, coupling=0.5)
    solve(problem, system, rounds=5, start=start, checkpoint=tmp_path / "a")
    fields = load(tmp_path / "a").fields
    np.testing.assert_allclose(fields["gradients"][0].mean(axis=0), fields["h"][0], atol=1e-14)
    again = solve(problem, system, rounds=8, start=start, resume=tmp_path / "a")
    np.testing.assert_array_equal(again.w, solve(problem, system, rounds=8, start=start).w)


def test_unlike_clients_end_at_the_stationary_point_by_fed_dyn_and_nearer_by_fed_prox(line):
    systems = (FedAvg(0.1, 8), FedProx(0.1, 8, coupling=5.0), FedDyn(0.1, 8, coupling=0.5), SCAFFOLD(0.1, STEPS))
    ends = [solve(line, system, rounds=200, record_every=200).history["stationarity"][-1] for system in systems]
    assert ends[1] < 0.5 * ends[0]
    assert max(ends[2:]) < 1e-10


def test_fed_nova_has_the_objective_of_like_clients_and_is_fed_avg_with_equal_steps(line):
    """With small steps its end is the minimiser, to first order; FedAvg's counts clients by their steps."""
    runs = [solve(line, kind(0.02, STEPS), rounds=400, record_every=400) for kind in (FedAvg, FedNova)]
    assert runs[1].history["stationarity"][-1] < 0.1 * runs[0].history["stationarity"][-1]
    a, b = (solve(line, kind(0.1, [3] * 6), rounds=5).mean for kind in (FedAvg, FedNova))
    np.testing.assert_allclose(a, b, rtol=1e-12)
    np.testing.assert_array_equal(a, solve(line, FedAvg(0.1, 3), rounds=5).mean)


@pytest.mark.parametrize("kind", [FedYogi, FedAdagrad])
def test_adaptive_steps_of_the_server(problem, start, kind):
    past = {"momentum": 0.5} if kind is FedAdagrad else {"betas": (0.5, 0.9)}
    system = kind(0.2, 2, server_rate=0.05, tau=1e-2, **past)
    shares, w, m, v = problem.shards.sizes / 60, start, 0 * start, 1e-4
    for _ in range(3):
        d = shares @ local(problem, w, [2] * 6, step=0.2, shares=shares) - w
        m = 0.5 * m + 0.5 * d
        v = v + d**2 if kind is FedAdagrad else v - 0.1 * d**2 * np.sign(v - d**2)
        w = w + 0.05 * m / (np.sqrt(v) + 1e-2)
    run = solve(problem, system, rounds=3, start=start)
    np.testing.assert_allclose(run.mean, w, rtol=1e-11, atol=1e-13)


def test_adagrad_has_no_second_beta():
    with pytest.raises(TypeError, match="betas"):
        FedAdagrad(0.1, betas=(0.0, 0.5))
    with pytest.raises(ValueError, match="momentum must be"):
        FedAdagrad(0.1, momentum=1.0)


@pytest.mark.parametrize("system", [FedProx(0.1), FedDyn(0.1), FedNova(0.1, STEPS), FedYogi(0.1), FedAdagrad(0.1)])
def test_secure_sums_are_the_sums(problem, start, system):
    pytest.importorskip("cryptography")
    masked = type(system)(0.1, system.local_steps, secure=SecureSums())
    a, b = (solve(problem, one, rounds=2, start=start).mean for one in (system, masked))
    np.testing.assert_allclose(a, b, atol=1e-8)


def test_single_precision_stays(line):
    x, y = line.shards.features[0], line.shards.targets[0]
    single = consensus.partition(x.astype(np.float32), y[:, 0].astype(np.float32), agents=6)
    problem = consensus.Problem(consensus.Linear(3), line.loss, single)
    for system in (FedProx(0.1, STEPS), FedDyn(0.1), FedNova(0.1, STEPS), FedYogi(0.1), FedAvg(0.1), SCAFFOLD(0.1, STEPS)):
        assert solve(problem, system, rounds=2).w.dtype == np.float32


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda problem: FedAvg(0.1, [1, 0]), ValueError, r"local_steps\[1\]"),
    (lambda problem: FedAvg(0.1, "5"), (ValueError, TypeError), "local_steps"),
    (lambda problem: solve(problem, FedNova(0.1, [1, 2]), rounds=1), ValueError, r"each of the 6 clients; got \(1, 2\)"),
    (lambda problem: FedProx(0.1, coupling=0.0), ValueError, "coupling"),
    (lambda problem: FedDyn(0.1, coupling=-1.0), ValueError, "coupling"),
])  # fmt: skip
def test_what_is_refused(problem, make, error, message):
    with pytest.raises(error, match=message):
        make(problem)


# Federated systems: their equations by hand, what they have in common with others, and where they end.

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
