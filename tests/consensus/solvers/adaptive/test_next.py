"""AdaptiveNEXT as a user meets it: the default, what is counted and recorded, what is refused."""

from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest
from problems import SCHEDULES, data, problem

import consensus
import topologies
from consensus.engines import Processes, Stacked
from consensus.engines.hubs import Hubs
from consensus.engines.stacked import StackedNetwork
from consensus.regularizers.base import Regularizer
from consensus.solvers import DGD, AdaptiveNEXT, Gossip, GradientTracking

AGENTS = 6
GRAPH = topologies.erdos_renyi(AGENTS, 0.5, seed=3)
MLP = consensus.MLP([4, 3, 1])
COLUMNS = ["tau_least", "tau_largest", "exchanges_a_round", "tries", "pairs"]


def test_it_is_the_default():
    p = problem("squared", consensus.L2(0.01), MLP)
    default, named = consensus.solve(p, GRAPH, rounds=5), consensus.solve(p, GRAPH, AdaptiveNEXT(), rounds=5)
    np.testing.assert_array_equal(default.w, named.w)
    assert list(default.history) == list(named.history)
    assert list(default.history)[-5:] == COLUMNS
    assert AdaptiveNEXT() == AdaptiveNEXT()


def test_other_solvers_have_no_columns_of_their_own():
    assert not set(COLUMNS) & set(consensus.solve(problem(), GRAPH, DGD(0.1), rounds=1).history)


@pytest.mark.parametrize("graph", [GRAPH, topologies.ring(AGENTS), topologies.complete(AGENTS), topologies.star(AGENTS)])
@pytest.mark.parametrize("model", [MLP, None], ids=["MLP", "linear"])
def test_agents_get_to_know_their_graph_while_they_move_and_then_every_round_is_alike(model, graph):
    p = problem("squared", consensus.L2(0.01), model)
    history = consensus.solve(p, graph, rounds=14, engine=Stacked(strict=True)).history
    diameter, edges = nx.diameter(graph), 2 * graph.number_of_edges()
    alone = 4 * (diameter > 1)
    hubs = Hubs.of(topologies.metropolis(graph), diameter + 1)
    pace, sums = hubs.exchanges, AGENTS - len(hubs.hubs) + len(hubs.hubs) * (AGENTS - 1)
    first = [2, 1, 1, 1, pace] if alone else [1 + pace]  # in the very first exchange nobody moves
    assert np.diff(history["exchanges"]).tolist() == first + (14 - len(first)) * [pace]
    messages, floats = np.diff(history["messages"]), np.diff(history["floats"])
    assert messages.tolist() == ([2 * edges, *[edges] * 3, sums] if alone else [edges + sums]) + (14 - len(first)) * [sums]
    # Every message is w, tau and its scale, and both trackers; while they move alone the mass; then the start's costs.
    width, block = 2 * p.parameters + 3, p.parameters * min(p.parameters, 64)
    names = floats[0] - (edges if alone else 0) * (width + 1) - (0 if alone else sums * (width + block))
    assert AGENTS * (AGENTS - 1) <= names / 2 <= AGENTS * edges  # everyone's neighbours, with its name, have reached everyone
    if alone:
        assert floats[1:5].tolist() == [edges * (width + 1)] * 3 + [sums * (width + 1 + block)]
    # Curvature goes along with the sums; that of a linear model once.
    np.testing.assert_array_equal(floats[5:], sums * (width + block * (model is not None)))
    assert (history["bytes"] <= 8 * history["floats"]).all()


@pytest.mark.parametrize(
    "network",
    [
        GRAPH,
        topologies.RandomEdges(GRAPH, 0.5, seed=1),
        topologies.Static(nx.DiGraph([(k, (k + 1) % AGENTS) for k in range(AGENTS)]), weights=topologies.push),
        topologies.random_regular(300, 4, seed=0),  # so many do not get to know their graph
    ],
    ids=["static", "changing", "directed", "300 agents"],
)
def test_the_history_says_how_many_exchanges_a_round_takes(network):
    agents = len(network) if isinstance(network, nx.Graph) else network.agents
    X = np.random.default_rng(0).standard_normal((2 * agents, 3))
    p = consensus.Problem(consensus.Linear(3), consensus.LogisticLoss(), consensus.partition(X, X[:, 0] > 0, agents), None)
    history = consensus.solve(p, network, rounds=8).history
    assert history["exchanges_a_round"].tolist() == [0, *np.diff(history["exchanges"])]
    assert history["exchanges_a_round"][1] > 0


def test_floats_of_a_changing_graph_have_masses_and_probes_too():
    p, network = problem("squared", consensus.L2(0.01)), topologies.RandomEdges(GRAPH, 0.5, seed=1)
    history = consensus.solve(p, network, rounds=30).history
    width = 1 + 5 + 2 + 1 + 5 * (1 + 5) + AGENTS
    assert width <= AdaptiveNEXT().width(p)
    messages, moved = np.diff(history["messages"]), 2 * int(history["exchanges_a_round"][-1])
    widths = np.full(30, width)  # agents that move first send no curvature, but who has heard from whom, who is done and when
    widths[:moved] += 3 - 5 * 5
    widths[moved] += 1  # the costs at the start
    np.testing.assert_array_equal(np.diff(history["floats"]), widths * messages)
    assert (messages[:moved] <= 2 * GRAPH.number_of_edges()).all()


def test_work_is_counted():
    p = problem("squared", consensus.L2(0.01), MLP)
    history = consensus.solve(p, GRAPH, rounds=10).history
    assert history["gradients"].tolist() == list(range(1, 12))
    assert history["solves"].tolist() == list(range(11))
    assert (np.diff(history["iterations"]) >= AGENTS).all()
    assert (np.diff(history["iterations"]) <= AGENTS * history["tries"][1:]).all()


@pytest.mark.parametrize("exchanges", [1, 40, 41])
def test_exchanges_stop_the_run(exchanges):
    p = problem("squared", consensus.L2(0.01), MLP)
    every = consensus.solve(p, GRAPH, rounds=30).history["exchanges"]
    result = consensus.solve(p, GRAPH, rounds=30, exchanges=exchanges)
    last = every[every >= exchanges][0]
    assert result.history["exchanges"][-1] == last
    assert result.history["exchanges"][-2] < exchanges
    assert result.reason == f"{last} exchanges done at round {result.rounds}"
    sparse = consensus.solve(p, GRAPH, rounds=30, exchanges=exchanges, record_every=7)
    assert sparse.rounds % 7 == 0
    assert sparse.history["exchanges"][-1] >= exchanges
    other = consensus.solve(p, GRAPH, GradientTracking(0.01), rounds=30, exchanges=21)
    assert (other.rounds, other.history["exchanges"][-1]) == (11, 22)


@pytest.mark.parametrize(("wrong", "error"), [(0, ValueError), (-3, ValueError), (2.5, TypeError | ValueError)])
def test_exchanges_are_a_count(wrong, error):
    errors = getattr(error, "__args__", error)
    with pytest.raises(errors, match="exchanges"):
        consensus.solve(problem(), GRAPH, rounds=3, exchanges=wrong)


def test_what_it_did_is_recorded():
    history = consensus.solve(problem("squared", consensus.L2(0.01), MLP), GRAPH, rounds=30).history
    assert (history["tau_least"] > 0).all()
    assert (history["tau_least"] <= history["tau_largest"]).all()
    assert len(set(history["tau_largest"])) > 20
    assert history["tries"][0] == 0
    assert ((history["tries"][1:] >= 1) & (history["tries"][1:] <= 3)).all()
    assert history["pairs"][-1] == 19
    linear = consensus.solve(problem("squared", consensus.L2(0.01)), GRAPH, rounds=3).history
    assert linear["pairs"].tolist() == [0, 5, 5, 5]


# What does not fit ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plain(Regularizer):
    """A user's regularizer with no more than it must have."""

    def value(self, w):
        return 0.1 * np.abs(w).sum(axis=-1)

    def prox(self, v, step):
        return np.sign(v) * np.maximum(np.abs(v) - 0.1 * step, 0)


@pytest.mark.parametrize("model", [MLP, None], ids=["MLP", "linear"])
def test_a_regularizer_with_value_and_prox_alone_leads_where_one_with_the_derivative_of_its_prox_does(model):
    own, known = (consensus.solve(problem("squared", r, model), GRAPH, rounds=12) for r in (Plain(), consensus.L1(0.1)))
    np.testing.assert_allclose(own.w, known.w, rtol=0, atol=1e-7)
    np.testing.assert_array_equal(own.w == 0, known.w == 0)
    assert (own.w == 0).any()
    assert own.history["stationarity"][-1] < 0.1 * own.history["stationarity"][0]


def test_a_graph_in_two_parts_is_refused():
    with pytest.warns(UserWarning, match="never jointly connected"), pytest.raises(ValueError, match="must be connected"):
        consensus.solve(problem(), nx.Graph([(0, 1), (1, 2), (3, 4), (4, 5)]), rounds=3)


def test_gossip_does_not_take_it():
    with pytest.raises(TypeError, match="AdaptiveNEXT finds its exchanges by itself"):
        Gossip(AdaptiveNEXT(), 2)


@pytest.mark.parametrize("graph", [topologies.path(12), topologies.star(12)], ids=["path", "star"])
def test_however_many_exchanges_the_first_round_takes_workers_have_room(graph, forked):
    """The common fit's equations are K (K + 1) numbers an agent, more than a small model's rounds ever send."""
    X, y = data()
    p = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), consensus.partition(X, y, 12), consensus.L2(0.1))
    expected = consensus.solve(p, graph, rounds=3)
    np.testing.assert_array_equal(consensus.solve(p, graph, rounds=3, engine=Processes(2)).w, expected.w)


class Widest(StackedNetwork):
    """Keeps how many numbers of an agent were mixed at once, at most."""

    widest = 0

    def mix(self, round, *blocks, beside=0):
        sizes = (block.size // len(block) if isinstance(block, np.ndarray) else block.unpack().shape[1] for block in blocks)
        self.widest = max(self.widest, sum(sizes))
        return super().mix(round, *blocks, beside=beside)


@pytest.mark.parametrize("kind", ["model", "functions"])
def test_engines_are_told_how_much_is_mixed_at_once(kind):
    p = problem("squared", consensus.L2(0.1))
    if kind == "functions":
        p = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=6, parameters=3)
    network = Widest(SCHEDULES["directed, failing"], p.dtype)
    state = AdaptiveNEXT().init(p, np.ones((6, p.parameters)))
    for _ in range(6):
        state = AdaptiveNEXT().step(p, network, state)
    assert network.widest == AdaptiveNEXT().width(p)
