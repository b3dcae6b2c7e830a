"""AdaptiveNEXT as a user meets it: the default, what is counted and recorded, what is rejected."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.compression.packing import pack
from consensus.engines import Engine, Processes, reports, run_rounds
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import DGD, AdaptiveNEXT, Gossip
from tests.helpers.problems import AGENTS, GRAPH, SCHEDULES, data, problem
from tests.helpers.turns import in_turn

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
