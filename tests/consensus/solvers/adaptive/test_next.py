"""AdaptiveNEXT as a user meets it: the default, what is counted and recorded, what is refused."""

from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest
from problems import CIRCLE, SCHEDULES, data, problem

import consensus
import topologies
from consensus.compression.runs import pack
from consensus.engines import Engine, Processes, reports, run_rounds
from consensus.engines.stacked import StackedNetwork
from consensus.regularizers.base import Regularizer
from consensus.solvers import DGD, AdaptiveNEXT, Gossip, GradientTracking
from consensus.solvers.adaptive import averaging

AGENTS = 6
GRAPH = topologies.erdos_renyi(AGENTS, 0.5, seed=3)
MLP = consensus.MLP([4, 3, 1])
COLUMNS = ["tau_least", "tau_largest", "exchanges_a_round", "tries"]


def test_it_is_the_default():
    p = problem("squared", consensus.L2(0.01), MLP)
    default, named = consensus.solve(p, GRAPH, rounds=5), consensus.solve(p, GRAPH, AdaptiveNEXT(), rounds=5)
    np.testing.assert_array_equal(default.w, named.w)
    assert list(default.history) == list(named.history)
    assert list(default.history)[-4:] == COLUMNS
    assert AdaptiveNEXT() == AdaptiveNEXT()


def test_other_solvers_have_no_columns_of_their_own():
    assert not set(COLUMNS) & set(consensus.solve(problem(), GRAPH, DGD(0.1), rounds=1).history)


# What is counted


class Ledger(StackedNetwork):
    """Counts for itself what every message takes, as it would be written; nothing but ``mix`` may send."""

    def __init__(self, schedule, dtype):
        super().__init__(schedule, dtype, strict=True)
        self.sums, self.rows_of_counts, self.widest = np.zeros(4, int), [], 0

    def mix(self, round, *blocks, beside=0):
        assert round == self.sums[0]  # exchanges are made one after the other
        W = self.schedule.weights(self.schedule.key(round)).toarray()
        others = np.count_nonzero(W - np.diag(np.diag(W)), axis=0)
        numbers, sizes = np.full(len(W), beside), np.full(len(W), beside * self.dtype.itemsize)
        for block in blocks:
            if isinstance(block, np.ndarray):
                numbers, sizes = numbers + block.shape[1], sizes + block.shape[1] * block.itemsize
                assert block.dtype == self.dtype
            else:
                codes, unit = block.arrays
                parts = codes.reshape(len(W), unit.shape[1], -1)
                written = [sum(len(pack(part)) + 2 for part in row) for row in parts]
                numbers, sizes = numbers + codes.shape[1], sizes + np.array(written)
        self.widest = max(self.widest, numbers.max() - beside)
        self.sums = np.add(self.sums, (1, others.sum(), others @ numbers, others @ sizes))
        return super().mix(round, *blocks, beside=beside)

    def refused(self, *arguments, **options):
        raise AssertionError("AdaptiveNEXT mixes and does nothing else")

    average = mix_and_average = aggregate = tell = talk = sum = flood = total = least = crossing = hubs = refused


class Counting(Engine):
    """Runs all agents in this process by a :class:`Ledger`."""

    def run(self, problem, schedule, solver, begin, rounds, observer):
        self.network = Ledger(schedule, problem.dtype)
        everyone = problem.restrict(slice(0, problem.agents))
        return run_rounds(everyone, self.network, solver, begin, rounds, reports(observer, solver))


@pytest.mark.filterwarnings("ignore:.*ended above its start")
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", ["MLP", "MLP, float32", "linear", "functions"])
def test_no_byte_is_sent_that_is_not_counted(kind, schedule):
    if kind == "functions":
        centres = np.random.default_rng(0).standard_normal((AGENTS, 5))
        p = consensus.Problem.from_functions(
            lambda w: np.square(w - centres).sum(axis=1), lambda w: 2 * (w - centres), agents=AGENTS, parameters=5
        )
    else:
        dtype = np.float32 if "float32" in kind else np.float64
        X, y = (array.astype(dtype) for array in data())
        shards, model = consensus.partition(X, y, AGENTS, "sorted", seed=0), consensus.Linear(4) if kind == "linear" else MLP
        p = consensus.Problem(model, consensus.SquaredLoss(), shards, consensus.L2(0.01))
    engine = Counting()
    result = consensus.solve(p, SCHEDULES[schedule], rounds=20, engine=engine, start=np.zeros(p.parameters))
    found = [int(result.history[name][-1]) for name in ("exchanges", "messages", "floats", "bytes")]
    assert found == engine.network.sums.tolist()
    assert found[1] == len(engine.network.record)
    assert engine.network.widest <= AdaptiveNEXT().width(p)
    assert result.w.dtype == p.dtype == (np.float32 if "float32" in kind else np.float64)


@pytest.mark.parametrize("kind", ["model", "functions"])
def test_engines_are_told_how_much_is_mixed_at_once(kind):
    p = problem("squared", consensus.L2(0.1))
    if kind == "functions":
        p = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=6, parameters=3)
    network = Ledger(SCHEDULES["static"], p.dtype)
    AdaptiveNEXT().step(p, network, AdaptiveNEXT().init(p, np.ones((6, p.parameters))))
    assert network.widest <= AdaptiveNEXT().width(p) <= network.widest + 6 + (kind == "functions") * 9


@pytest.mark.parametrize(
    "network",
    [
        topologies.Static(GRAPH),
        topologies.RandomEdges(GRAPH, 0.5, seed=1),
        topologies.Static(CIRCLE, weights=topologies.push),
        topologies.Static(topologies.random_regular(300, 4, seed=0)),
    ],
    ids=["static", "changing", "directed", "300 agents"],
)
def test_the_history_says_how_many_exchanges_a_round_takes(network):
    agents = network.agents
    X = np.random.default_rng(0).standard_normal((2 * agents, 3))
    p = consensus.Problem(
        consensus.Linear(3), consensus.LogisticLoss(), consensus.partition(X, X[:, 0] > 0, agents), consensus.L2(0.1)
    )
    history = consensus.solve(p, network, rounds=26).history
    lengths = np.diff(history["exchanges"])
    assert history["exchanges_a_round"].tolist() == [0, *lengths]
    assert lengths[:8].tolist() == [1] * 8
    assert set(np.unique(lengths)) <= {1, 2, 4, 8}
    assert lengths[-1] > 1


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
    every = consensus.solve(p, GRAPH, rounds=40).history["exchanges"]
    result = consensus.solve(p, GRAPH, rounds=40, exchanges=exchanges)
    last = every[every >= exchanges][0]
    assert result.history["exchanges"][-1] == last
    assert result.history["exchanges"][-2] < exchanges
    assert result.reason == f"{last} exchanges done at round {result.rounds}"
    sparse = consensus.solve(p, GRAPH, rounds=40, exchanges=exchanges, record_every=7)
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


# What does not fit


@dataclass(frozen=True)
class Plain(Regularizer):
    """A user's regularizer with no more than it must have."""

    def value(self, w):
        return 0.1 * np.abs(w).sum(axis=-1)

    def prox(self, v, step):
        return np.sign(v) * np.maximum(np.abs(v) - 0.1 * step, 0)


@pytest.mark.parametrize("model", [MLP, None], ids=["MLP", "linear"])
def test_a_regularizer_with_value_and_prox_alone_leads_where_one_with_the_derivative_of_its_prox_does(model):
    """In the first rounds, after which what rounding makes of differences of 1e-10 is a unit now and then."""
    own, known = (consensus.solve(problem("squared", r, model), GRAPH, rounds=8) for r in (Plain(), consensus.L1(0.1)))
    np.testing.assert_allclose(own.w, known.w, rtol=0, atol=1e-7)
    np.testing.assert_array_equal(own.w == 0, known.w == 0)
    assert np.ptp(known.history["objective"]) > 0.1


def test_a_graph_in_two_parts_is_warned_of():
    with pytest.warns(UserWarning, match="never jointly connected"):
        consensus.solve(problem(), nx.Graph([(0, 1), (1, 2), (3, 4), (4, 5)]), rounds=3)


def test_gossip_does_not_take_it():
    with pytest.raises(TypeError, match="AdaptiveNEXT finds its exchanges by itself"):
        Gossip(AdaptiveNEXT(), 2)


@pytest.mark.parametrize("graph", [topologies.path(12), topologies.star(12)], ids=["path", "star"])
def test_however_many_exchanges_a_round_takes_workers_have_room(graph, forked):
    X, y = data()
    p = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), consensus.partition(X, y, 12), consensus.L2(0.1))
    expected = consensus.solve(p, graph, rounds=20)
    np.testing.assert_array_equal(consensus.solve(p, graph, rounds=20, engine=Processes(2)).w, expected.w)
    assert expected.history["exchanges_a_round"][-1] > 1
    assert averaging.ROUNDS < 20
