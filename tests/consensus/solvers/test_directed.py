"""Directed, changing and failing networks: invariants at every round, and optima."""

import networkx as nx
import numpy as np
import pytest
from problems import problem, smooth_optimum
from steps_by_hand import MLP, SCHEDULES, states

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import NEXT, SONATA, Gossip, GradientTracking, PushDIGing, PushPull
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization

AGENTS = 6


def digraph(seed):
    """A directed ring and some random arcs."""
    rng = np.random.default_rng(seed)
    graph = nx.DiGraph([(agent, (agent + 1) % AGENTS) for agent in range(AGENTS)])
    graph.add_edges_from((int(a), int(b)) for a, b in rng.integers(0, AGENTS, (5, 2)) if a != b)
    return graph


def parts(seed):
    """Digraphs that are not strongly connected, but whose union is a directed ring."""
    rng = np.random.default_rng(seed)
    ring = [(agent, (agent + 1) % AGENTS) for agent in range(AGENTS)]
    graphs = []
    for chosen in np.array_split(rng.permutation(AGENTS), 3):
        graph = nx.empty_graph(AGENTS, create_using=nx.DiGraph)
        graph.add_edges_from(ring[edge] for edge in chosen)
        graphs.append(graph)
    return graphs


RING = nx.DiGraph([(agent, (agent + 1) % AGENTS) for agent in range(AGENTS)])
UNDIRECTED = topologies.erdos_renyi(AGENTS, 0.6, seed=3)
DIRECTED = {
    "ring": topologies.Static(RING, weights=topologies.push),
    "digraph": topologies.Static(digraph(0), weights=topologies.push),
    "changing": topologies.Periodic([digraph(seed) for seed in range(4)], weights=topologies.push),
    "parts": topologies.Periodic(parts(0), weights=topologies.push),
    "loss": topologies.LinkFailure(topologies.Static(digraph(1), weights=topologies.push), 0.3, seed=2, symmetric=False),
}


@pytest.mark.parametrize("name", DIRECTED)
@pytest.mark.parametrize("surrogate", [PartialLinearization(1.0), FullLinearization(4.0)])
def test_sonatas_masses_and_tracked_sums_at_every_round(surrogate, name):
    p = problem("squared", consensus.L2(0.02), MLP, scheme="sizes")
    for state in states(SONATA(surrogate, 0.1), p, DIRECTED[name], 40):
        assert state.mass.min() > 0
        assert state.mass.sum() == pytest.approx(AGENTS, abs=1e-13)
        tracked = (state.mass * state.y).sum(axis=0)
        np.testing.assert_allclose(tracked, p.gradient(state.w).sum(axis=0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", DIRECTED)
@pytest.mark.parametrize("solver", [PushDIGing(0.02), PushPull(0.02)])
def test_pushed_trackers_keep_the_gradients_sum_at_every_round(solver, name):
    p = problem("squared", consensus.L2(0.02), MLP, scheme="sizes")
    for state in states(solver, p, DIRECTED[name], 40):
        expected = p.average_gradient(state.w).sum(axis=0)
        np.testing.assert_allclose(state.y.sum(axis=0), expected, rtol=0, atol=1e-12)
        if isinstance(solver, PushDIGing):
            assert state.mass.sum() == pytest.approx(AGENTS, abs=1e-13)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("surrogate", [PartialLinearization(0.5), FullLinearization(3.0)])
def test_sonata_over_symmetric_matrices_is_next(surrogate, schedule):
    p = problem("squared", consensus.L2(0.02), MLP, scheme="sizes")
    step = Diminishing(0.3, 0.01)
    ours = consensus.solve(p, SCHEDULES[schedule], SONATA(surrogate, step), rounds=60)
    reference = consensus.solve(p, SCHEDULES[schedule], NEXT(surrogate, step), rounds=60)
    np.testing.assert_allclose(ours.w, reference.w, rtol=0, atol=1e-13)


CONTACTS = "\n".join(
    f"{20 * step + spread},{(step + spread) % 6},{(step + 2 * spread + 1) % 6}" for step in range(12) for spread in range(3)
)


def failing():
    """Undirected networks with every kind of trouble."""
    static = topologies.Static(UNDIRECTED)
    return {
        "30% loss": topologies.LinkFailure(static, 0.3, seed=4),
        "agents leave and return": topologies.AgentFailure(static, [(0, 5, 40), (3, 20, 60), (0, 100, 130)]),
        "mobile": topologies.Mobile(AGENTS, radius=0.5, speed=0.05, seed=1),
        "matchings": topologies.Matchings(AGENTS, seed=2),
        "one peer": topologies.OnePeerExponential(AGENTS),
    }


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("name", DIRECTED)
@pytest.mark.parametrize(
    "solver", [SONATA(PartialLinearization(1.0), 0.15), SONATA(FullLinearization(4.0), 0.15), PushDIGing(0.05)]
)
def test_directed_networks_reach_the_optimum(solver, name, loss):
    p = problem(loss, consensus.L2(0.1), scheme="iid")
    result = consensus.solve(p, DIRECTED[name], solver, rounds=12000, record_every=200, tolerance=1e-10)
    np.testing.assert_allclose(result.w, np.tile(smooth_optimum(p), (AGENTS, 1)), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["ring", "digraph"])
def test_push_pull_reaches_the_optimum_over_static_digraphs(name):
    p = problem("logistic", consensus.L2(0.1))
    result = consensus.solve(p, DIRECTED[name], PushPull(0.03), rounds=12000, record_every=200, tolerance=1e-10)
    np.testing.assert_allclose(result.w, np.tile(smooth_optimum(p), (AGENTS, 1)), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", failing())
@pytest.mark.parametrize(
    "solver", [SONATA(PartialLinearization(1.0), 0.15), NEXT(FullLinearization(4.0), 0.15), GradientTracking(0.05)]
)
def test_failing_networks_reach_the_optimum(solver, name):
    p = problem("squared", consensus.L2(0.1), scheme="iid")
    result = consensus.solve(p, failing()[name], solver, rounds=12000, record_every=200, tolerance=1e-10)
    np.testing.assert_allclose(result.w, np.tile(smooth_optimum(p), (AGENTS, 1)), rtol=0, atol=1e-8)


def test_a_contact_list_reaches_the_optimum(tmp_path):
    path = tmp_path / "contacts.csv"
    path.write_text(CONTACTS)
    schedule = topologies.Temporal.from_csv(path, window=20)
    p = problem("squared", consensus.L2(0.1), scheme="iid")
    result = consensus.solve(
        p, schedule, NEXT(PartialLinearization(1.0), 0.15), rounds=12000, record_every=200, tolerance=1e-10
    )
    np.testing.assert_allclose(result.w, np.tile(smooth_optimum(p), (AGENTS, 1)), rtol=0, atol=1e-8)


# Gossip -----------------------------------------------------------------------------------------------------------


def test_one_exchange_is_the_solver_itself():
    p = problem("squared", consensus.L2(0.02), MLP)
    solver = NEXT(PartialLinearization(0.5), 0.1)
    once = consensus.solve(p, SCHEDULES["random"], Gossip(solver, 1), rounds=20)
    np.testing.assert_array_equal(once.w, consensus.solve(p, SCHEDULES["random"], solver, rounds=20).w)


def test_exchanges_are_counted():
    p, edges = problem("squared", consensus.L2(0.02)), UNDIRECTED.number_of_edges()
    last = consensus.solve(p, UNDIRECTED, Gossip(GradientTracking(0.05), 3), rounds=10).history.last()
    assert last["exchanges"] == 10 * 2 * 3
    assert last["messages"] == 10 * 2 * 3 * 2 * edges


@pytest.mark.parametrize("exchanges", [1, 2, 5, 9])
def test_accelerated_gossip_is_the_chebyshev_polynomial_of_the_matrix(exchanges):
    schedule = topologies.Static(topologies.ring(9))
    matrix = schedule.weights(0).toarray()
    gap = topologies.spectral_gap(matrix)
    values, vectors = np.linalg.eigh(matrix)
    polynomial = np.polynomial.chebyshev.Chebyshev.basis(exchanges)
    expected = (vectors * (polynomial(values / (1 - gap)) / polynomial(1 / (1 - gap)))) @ vectors.T

    class Mix(GradientTracking):
        def step(self, problem, network, state):
            (w,) = network.mix(state.round, state.w)
            return state._replace(round=state.round + 1, w=w)

    w = np.random.default_rng(0).standard_normal((9, 4))
    p = consensus.Problem.from_functions(lambda w: w.sum(axis=1), np.ones_like, agents=9, parameters=4)
    solver = Gossip(Mix(0.1), exchanges, gap=gap)
    network = StackedNetwork(schedule, np.float64)
    after = solver.step(p, network, solver.init(p, w)).w
    np.testing.assert_allclose(after, expected @ w, rtol=0, atol=1e-13)
    assert network.exchanges == exchanges


def test_acceleration_contracts_more_than_plain_gossip():
    p, ring = problem("squared", consensus.L2(0.1)), topologies.Static(topologies.ring(AGENTS))
    gap = topologies.spectral_gap(ring.weights(0))
    spread = {
        name: consensus.solve(p, ring, Gossip(GradientTracking(0.05), 4, gap=value), rounds=40).history["disagreement"][-1]
        for name, value in (("plain", None), ("accelerated", gap))
    }
    assert spread["accelerated"] < 0.7 * spread["plain"]


# Bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "solver", [NEXT(FullLinearization(4.0), 0.1), GradientTracking(0.05), Gossip(PushDIGing(0.1), 2, gap=0.5)]
)
def test_column_stochastic_matrices_are_refused_where_rows_must_sum_to_one(solver):
    with pytest.raises(ValueError, match=r"doubly stochastic mixing matrices, but row \d of round 0 sums to"):
        consensus.solve(problem("squared", consensus.L2(0.1)), DIRECTED["digraph"], solver, rounds=1)


def test_row_stochastic_matrices_are_refused_to_push_methods():
    network = topologies.Static(digraph(0), weights=topologies.pull)
    with pytest.raises(ValueError, match=r"SONATA needs column stochastic.*column \d of round 0 sums to.*topologies\.push"):
        consensus.solve(problem("squared", consensus.L2(0.1)), network, SONATA(FullLinearization(4.0), 0.1), rounds=1)


def test_bad_gossip_settings():
    with pytest.raises(ValueError, match="exchanges must be a whole number >= 1; got 0"):
        Gossip(GradientTracking(0.1), 0)
    with pytest.raises(ValueError, match=r"gap must be a finite number > 0 and < 1; got 1\.5"):
        Gossip(GradientTracking(0.1), 2, gap=1.5)
