"""AdaptiveNEXT on networks: the default, its sums and fixed points, and the same in other units and by other numbers."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.compression.packing import pack
from consensus.engines import Engine, Processes, reports, run_rounds
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import DGD, AdaptiveNEXT, Gossip
from tests.helpers.problems import AGENTS, CIRCLE, GRAPH, SCHEDULES, data, problem, smooth_optimum
from tests.helpers.turns import in_turn, with_slow

MLP = consensus.MLP([4, 3, 1])
COLUMNS = ["tau_least", "tau_largest", "exchanges_a_round", "tries"]


def network_problem():
    return problem("squared", consensus.L2(0.01), MLP)


def test_it_is_the_default_on_small_networks():
    p = network_problem()
    default, named = consensus.solve(p, GRAPH, rounds=5), consensus.solve(p, GRAPH, AdaptiveNEXT(), rounds=5)
    np.testing.assert_array_equal(default.w, named.w)
    assert list(default.history) == list(named.history)
    assert list(default.history)[-4:] == COLUMNS
    assert AdaptiveNEXT() == AdaptiveNEXT()
    assert not set(COLUMNS) & set(consensus.solve(p, GRAPH, DGD(0.1), rounds=1).history)


# What is counted


class Ledger(StackedNetwork):
    """Counts what every message takes when written; only ``mix`` may send."""

    def __init__(self, schedule, dtype):
        super().__init__(schedule, dtype, strict=True)
        self.sums, self.widest = np.zeros(4, int), 0

    def receivers(self, round):
        assert round == self.sums[0]  # exchanges are made one after the other
        W = self.schedule.weights(self.schedule.key(round)).toarray()
        return W, np.count_nonzero(W - np.diag(np.diag(W)), axis=0)

    def count_exchanges(self, round, exchanges, numbers):
        for n in range(round, round + exchanges):
            sent = self.receivers(n)[1].sum()
            self.sums = np.add(self.sums, (1, sent, sent * numbers, sent * numbers * self.dtype.itemsize))
        super().count_exchanges(round, exchanges, numbers)

    def mix(self, round, *blocks, beside=0):
        W, receivers = self.receivers(round)
        numbers, sizes = np.full(len(W), beside), np.full(len(W), beside * self.dtype.itemsize)
        for block in blocks:
            if isinstance(block, np.ndarray):
                numbers, sizes = numbers + block.shape[1], sizes + block.shape[1] * block.itemsize
                assert block.dtype == self.dtype
            else:
                codes, unit = block.arrays
                rows = codes.reshape(len(W), unit.shape[1], -1)
                written = [sum(len(pack(codes)) + unit.itemsize for codes in row) for row in rows]
                numbers, sizes = numbers + codes.shape[1], sizes + np.array(written)
        self.widest = max(self.widest, numbers.max() - beside)
        self.sums = np.add(self.sums, (1, receivers.sum(), receivers @ numbers, receivers @ sizes))
        return super().mix(round, *blocks, beside=beside)

    def refused(self, *arguments, **options):
        raise AssertionError("AdaptiveNEXT only mixes")

    average = aggregate = send_each = edges = tree = refused


class Counting(Engine):
    """Runs all agents in this process by a :class:`Ledger`."""

    def run(self, problem, schedule, solver, begin, rounds, observer):
        self.network = Ledger(schedule, problem.dtype)
        everyone = problem.restrict(slice(0, problem.agents))
        return run_rounds(everyone, self.network, solver, begin, rounds, reports(observer, solver))


@pytest.mark.filterwarnings("ignore:.*ended above its start")
@pytest.mark.parametrize(("kind", "schedule"), in_turn(["MLP", "MLP, float32", "linear", "functions"], SCHEDULES, every=4))
def test_no_byte_is_sent_that_is_not_counted(kind, schedule):
    if kind == "functions":
        c = np.random.default_rng(0).standard_normal((AGENTS, 5))
        p = consensus.Problem.from_functions(
            lambda w: np.square(w - c).sum(axis=1), lambda w: 2 * (w - c), agents=AGENTS, parameters=5
        )
    else:
        X, y = (array.astype(np.float32 if "float32" in kind else np.float64) for array in data())
        shards, model = consensus.partition(X, y, AGENTS, "sorted", seed=0), consensus.Linear(4) if kind == "linear" else MLP
        p = consensus.Problem(model, consensus.SquaredLoss(), shards, consensus.L2(0.01))
    engine = Counting()
    result = consensus.solve(
        p, SCHEDULES[schedule], AdaptiveNEXT(), rounds=20, record_every=1, engine=engine, start=np.zeros(p.parameters)
    )
    found = [int(result.history[name][-1]) for name in ("exchanges", "messages", "floats", "bytes")]
    assert found == engine.network.sums.tolist()
    assert found[1] == len(engine.network.record)
    assert result.history["exchanges_a_round"].tolist() == [0, *np.diff(result.history["exchanges"])]
    width, parameters = AdaptiveNEXT().width(p), p.parameters  # without a model no products are sent, and later no probes
    assert engine.network.widest <= width <= engine.network.widest + 4 + AGENTS + (kind == "functions") * parameters**2
    assert result.w.dtype == p.dtype == (np.float32 if "float32" in kind else np.float64)


def test_work_and_choices_are_recorded():
    history = consensus.solve(network_problem(), GRAPH, AdaptiveNEXT(), rounds=30, record_every=1).history
    assert history["gradients"].tolist() == list(range(25, 56))  # twenty-four look for a length of the first step
    assert history["solves"].tolist() == list(range(31))
    solves = np.diff(history["iterations"])
    assert ((solves >= AGENTS) & (solves <= AGENTS * history["tries"][1:])).all()
    assert (history["tau_least"] > 0).all()
    assert (history["tau_least"] <= history["tau_largest"]).all()
    assert len(set(history["tau_largest"])) > 20
    assert history["tries"][0] == 0
    assert ((history["tries"][1:] >= 1) & (history["tries"][1:] <= 3)).all()


def test_gossip_does_not_take_it():
    with pytest.raises(TypeError, match="AdaptiveNEXT finds its exchanges by itself"):
        Gossip(AdaptiveNEXT(), 2)


@pytest.mark.parametrize(
    "graph", [pytest.param(topologies.path(12), marks=pytest.mark.slow), topologies.star(12)], ids=["path", "star"]
)
def test_workers_have_room_for_rounds_of_many_exchanges(graph, forked):
    p = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), consensus.partition(*data(), 12), consensus.L2(0.1))
    expected = consensus.solve(p, graph, AdaptiveNEXT(), rounds=20)
    np.testing.assert_array_equal(consensus.solve(p, graph, AdaptiveNEXT(), rounds=20, engine=Processes(2)).w, expected.w)
    assert expected.history["exchanges_a_round"][-1] > 1


# AdaptiveNEXT round by round: conserved sums, what agents know in the end, and fixed points.


PROBLEMS = {
    "MLP": lambda: problem("squared", consensus.L2(0.01), MLP, scheme="sizes"),
    "MLP, L1": lambda: problem("logistic", consensus.L1(0.01), MLP),
    "linear": lambda: problem("squared", consensus.L2(0.1)),
    "classes": lambda: problem("classes", consensus.L2(0.01)),
}
EVERY = SCHEDULES | {
    "path": topologies.Static(topologies.path(AGENTS)),
    "complete": topologies.Static(topologies.complete(AGENTS)),
    "matchings": topologies.Matchings(AGENTS, seed=1),
}


def states(p, schedule, rounds, w=None):
    """Yield all states of a run, the start included, and its network."""
    if w is None:
        w = 0.5 * np.random.default_rng(0).standard_normal((p.agents, p.parameters))
    network, solver = StackedNetwork(schedule, p.dtype), AdaptiveNEXT()
    state = solver.init(p, w)
    yield state, network
    for _ in range(rounds):
        state = solver.step(p, network, state)
        yield state, network


def gradients(p, w):
    """Return the gradients of ``A g_i + r`` where r is quadratic, else of ``A g_i``."""
    return p.agents * p.gradient(w) + (p.regularizer.gradient(w) if p.regularizer.quadratic else 0)


@pytest.mark.parametrize(("name", "schedule"), in_turn(PROBLEMS, EVERY, every=4))
def test_trackers_sum_to_the_gradients_and_states_say_what_was_done(name, schedule):
    p, largest, before = PROBLEMS[name](), 0.0, 0
    for state, network in states(p, EVERY[schedule], 30):
        gradient = gradients(p, state.w)
        np.testing.assert_allclose(state.gradient, gradient, rtol=1e-13, atol=1e-14)
        largest = max(largest, np.abs(gradient).max(), np.abs(state.tracker).max())  # whose rounding sums keep
        np.testing.assert_allclose(state.tracker.sum(axis=0), gradient.sum(axis=0), rtol=0, atol=1e-12 * largest)
        assert state.pace.mass.sum() == pytest.approx(AGENTS, rel=1e-13)
        assert (state.pace.mass > 0).all()
        tau, tries, refused = state.step.tau, state.step.tries, state.step.refused
        assert ((refused <= 4) & (tau > 0) & (tries <= 3) & ((tries >= 1) | (state.round == 0))).all()
        assert network.exchanges == state.pace.sent
        made = np.full(AGENTS, network.exchanges - before)
        np.testing.assert_array_equal(AdaptiveNEXT().report(state).T, [tau, tau, made, tries])
        np.testing.assert_array_equal(state.step.trial, state.w)
        before = network.exchanges
    assert state.round == 30


@pytest.mark.parametrize(
    "schedule", with_slow([name for name in EVERY if name != "directed, failing"], "failing", "random", "complete", "matchings")
)
def test_agents_agree_and_know_the_networks_gradient_in_the_end(schedule):
    p = PROBLEMS["linear"]()
    *_, (state, _) = states(p, EVERY[schedule], 90)
    np.testing.assert_allclose(state.w, np.tile(state.w[0], (AGENTS, 1)), rtol=0, atol=2e-8)
    mean = gradients(p, state.w).mean(axis=0)
    np.testing.assert_allclose(state.step.slope, np.tile(mean, (AGENTS, 1)), rtol=0, atol=1e-7)
    np.testing.assert_allclose(mean, 0, rtol=0, atol=1e-7)


# Fixed points


LINEAR = {loss: lambda loss=loss: problem(loss, consensus.L2(0.1)) for loss in ("squared", "logistic", "huber", "classes")}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "schedule"), in_turn(LINEAR, [*SCHEDULES, "complete"], every=4))
def test_it_comes_back_to_a_stationary_agreement(name, schedule):
    """Trackers begin as the agents' own gradients, by which everyone leaves first."""
    p, away = LINEAR[name](), 0.0
    everywhere = np.tile(smooth_optimum(p), (AGENTS, 1))
    rounds, near = (150, 1e-7) if schedule == "directed, failing" else (80, 1e-8)
    for state, _ in states(p, EVERY[schedule], rounds, everywhere):
        away = max(away, np.abs(state.w - everywhere).max())
    assert away > 1e-3
    np.testing.assert_allclose(state.w, everywhere, rtol=0, atol=near)


@pytest.mark.slow
def test_a_network_comes_back_to_its_minimum():
    """It has many minima; that it is not left for another says that only disagreement moves the agents."""
    p = problem("squared", consensus.L2(0.01), MLP)
    point = smooth_optimum(p, p.model.init(np.random.default_rng(1)))
    assert p.stationarity(point) < 1e-15
    *_, (state, _) = states(p, SCHEDULES["static"], 200, np.tile(point, (AGENTS, 1)))
    np.testing.assert_allclose(state.w, np.tile(point, (AGENTS, 1)), rtol=0, atol=1e-8)


# AdaptiveNEXT does the same in other units of objective, parameters and features, and with other numbers of the agents.


NAMES = {
    "MLP": ("squared", consensus.L2, (0.01,), MLP),
    "MLP, L1": ("squared", consensus.L1, (0.01,), MLP),
    "classes": ("classes", consensus.L2, (0.02,), None),
    "logistic MLP": ("logistic", consensus.L2, (0.02,), MLP),
    "elastic net": ("huber", consensus.ElasticNet, (0.05, 0.1), None),
    "no regularizer": ("squared", consensus.L2, (0.0,), None),
}


def iterates(p, schedule, w=None):
    """Return the estimates and trial points of ten rounds, and tau."""
    if w is None:
        w = np.tile(0.5 * np.random.default_rng(0).standard_normal(p.parameters), (p.agents, 1))
    network, solver = StackedNetwork(schedule, p.dtype), AdaptiveNEXT()
    state, found, taus = solver.init(p, w), [], []
    for _ in range(10):
        state = solver.step(p, network, state)
        found.append(np.stack([state.step.w, state.w]))
        taus.append(state.step.tau)
    return np.array(found), np.array(taus)


def weighted(p, factor, regularizer):
    """Return the problem with the losses times a factor, and another regularizer."""
    return consensus.Problem(p.model, p.loss, replace(p.shards, weights=factor * p.shards.weights), regularizer)


def scaled(name, factor):
    """Return the problem ``name`` times a factor; "quadratic", "nonconvex" and "L1" are given by functions."""
    if name in NAMES:
        loss, kind, weights, model = NAMES[name]
        return weighted(problem(loss, None, model), factor, kind(*(weight * factor for weight in weights)))
    rng, bend = np.random.default_rng(1), 0.5 if name == "nonconvex" else 0.0
    c, scales = rng.standard_normal((AGENTS, 5)), rng.uniform(0.5, 3, (AGENTS, 5))
    return consensus.Problem.from_functions(
        lambda w: factor * (scales * (w - c) ** 2 / 2 + bend * np.cos(2 * w)).sum(axis=1),
        lambda w: factor * (scales * (w - c) - 2 * bend * np.sin(2 * w)),
        agents=AGENTS,
        parameters=5,
        regularizer=consensus.L1(0.3 * factor) if name == "L1" else consensus.L2(0.1 * factor),
    )


def assert_same_run(found, expected, factor):
    (iterates, taus), (others, other_taus) = found, expected
    moved = np.abs(np.diff(others[:, 1], axis=0)).max(axis=(1, 2))
    assert moved.max() > 1e-2
    np.testing.assert_allclose(iterates, others, rtol=0, atol=1e-9 * np.abs(others).max())
    last = np.flatnonzero(moved > 1e-12).max() + 1  # shorter steps are judged by rounding
    assert last > 5
    np.testing.assert_allclose(taus[:last], factor * other_taus[:last], rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("name", "schedule"),
    in_turn(NAMES, ("static", "random"), every=4) + [(name, "static") for name in ("quadratic", "nonconvex", "L1")],
)
def test_costs_and_regularizer_rescaled_together(name, schedule):
    expected = iterates(scaled(name, 1.0), SCHEDULES[schedule])
    for factor in (1e6, 1e-6):
        assert_same_run(iterates(scaled(name, factor), SCHEDULES[schedule]), expected, factor)


def test_the_sum_of_losses_is_their_mean_rescaled():
    total = problem("squared", consensus.L2(0.6), MLP, scheme="sizes", reduction="sum")
    runs = [iterates(p, SCHEDULES["static"]) for p in (total, weighted(total, 60.0, consensus.L2(0.6)))]
    assert_same_run(*runs, 1)


def in_lengths(name, length):
    """Return costs by functions of w / length, and a start: phase retrieval, robust location, and quadratics from zero."""
    rng = np.random.default_rng(2)
    Z, c = rng.standard_normal((AGENTS, 12, 5)), rng.standard_normal((AGENTS, 5))
    h, squares, start = np.logspace(0, 2, 5), np.square(Z @ rng.standard_normal(5)), rng.standard_normal(5)

    def quartic(w, rows):
        u = np.einsum("anp,ap->an", Z[rows], w)
        error = np.square(u) - squares[rows]
        return np.square(error).sum(axis=1), 4 * np.einsum("an,anp->ap", u * error, Z[rows])

    def cauchy(w, rows):
        return np.log1p(np.square(w - c[rows])).sum(axis=1), 2 * (w - c[rows]) / (1 + np.square(w - c[rows]))

    def quadratic(w, rows):
        return (h * np.square(w - c[rows])).sum(axis=1), 2 * h * (w - c[rows])

    f = {"quartic": quartic, "Cauchy": cauchy, "quadratic": quadratic}[name]
    p = consensus.Problem.from_functions(
        lambda w, rows: f(w / length, rows)[0], lambda w, rows: f(w / length, rows)[1] / length, agents=AGENTS, parameters=5
    )
    return p, np.tile(length * start * (name != "quadratic"), (AGENTS, 1))


@pytest.mark.parametrize("schedule", ["static", "random", "directed"])
@pytest.mark.parametrize("name", ["quartic", "Cauchy", "quadratic"])
def test_parameters_rescaled_with_the_start(name, schedule):
    expected, taus = iterates(*in_lengths(name, 1.0)[:1], SCHEDULES[schedule], in_lengths(name, 1.0)[1])
    for length in (1e-6, 1e6):
        p, start = in_lengths(name, length)
        found, other = iterates(p, SCHEDULES[schedule], start)
        np.testing.assert_allclose(found / length, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
        np.testing.assert_allclose(other[:5] * length**2, taus[:5], rtol=1e-6, atol=0)


@pytest.mark.parametrize("schedule", ["static", "random"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_features_rescaled_with_the_start(start, loss, schedule):
    p, w = (
        problem(loss, consensus.L2(0.0), consensus.Linear(4, bias=False)),
        start * np.random.default_rng(0).standard_normal(4),
    )
    expected, _ = iterates(p, SCHEDULES[schedule], np.tile(w, (AGENTS, 1)))
    for factor in (1e-6, 1e6):
        q = consensus.Problem(p.model, p.loss, replace(p.shards, features=factor * p.shards.features), p.regularizer)
        found, _ = iterates(q, SCHEDULES[schedule], np.tile(w / factor, (AGENTS, 1)))
        np.testing.assert_allclose(factor * found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("graph", [topologies.ring(6), topologies.complete(6)], ids=["ring", "complete"])
def test_averages_of_numbers_of_any_size(graph, size):
    c = size * np.random.default_rng(0).standard_normal((6, 2))
    p = consensus.Problem.from_functions(
        lambda w, rows: np.square(w - c[rows]).sum(axis=1) / 12, lambda w, rows: (w - c[rows]) / 6, agents=6, parameters=2
    )
    result = consensus.solve(p, graph, AdaptiveNEXT(), rounds=60, start=np.zeros(2))
    np.testing.assert_allclose(result.w, np.tile(c.mean(axis=0), (6, 1)), rtol=0, atol=1e-11 * size)
    assert result.history["exchanges"][-1] < 1000


ORDER = np.array([3, 0, 5, 1, 4, 2])  # the new agent k is the old agent ORDER[k]
NUMBERED = {
    "static": lambda change: topologies.Static(change(GRAPH)),
    "changing": lambda change: topologies.Periodic([*map(change, (topologies.ring(AGENTS), topologies.star(AGENTS), GRAPH))]),
    "directed": lambda change: topologies.Static(change(CIRCLE), weights=topologies.push),
}


@pytest.mark.parametrize("schedule", NUMBERED)
@pytest.mark.parametrize(("regularizer", "model"), in_turn([consensus.L2(0.01), consensus.L1(0.015)], [MLP, None]), ids=str)
def test_agents_renumbered(model, regularizer, schedule):
    # Zeros of L1 can make exact ties of rounding, which the order of sums breaks: L1(0.01) has one in round ten, this none.
    p = problem("squared", regularizer, model, scheme="sizes")
    q = consensus.Problem(p.model, p.loss, replace(p.shards.restrict(ORDER), rows=np.arange(AGENTS)), regularizer)
    w = 0.5 * np.random.default_rng(0).standard_normal((AGENTS, p.parameters))
    new = {int(old): k for k, old in enumerate(ORDER)}
    expected, taus = iterates(p, NUMBERED[schedule](lambda graph: graph), w)
    found, other_taus = iterates(q, NUMBERED[schedule](lambda graph: nx.relabel_nodes(graph, new)), w[ORDER])
    assert np.abs(p.gradient(w) - p.gradient(w)[ORDER]).max() > 1e-2  # agents differ
    np.testing.assert_allclose(found, expected[:, :, ORDER], rtol=0, atol=1e-8)
    np.testing.assert_allclose(other_taus[:4], taus[:4, ORDER], rtol=1e-5, atol=0)
