"""Agents speak with their neighbours only: strict engines check it, and ranks send no row twice."""

import itertools
import re

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import consensus
import topologies
from consensus.communication import Messages
from consensus.engines import Processes, Stacked
from consensus.engines.processes import SharedState
from consensus.engines.rank_engine import AllRanks, HaloNetwork
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import DGD, PowerGossip
from consensus.workers.blocks import blocks_by_load, blocks_of
from tests.helpers import engine_cases
from tests.helpers.engine_harness import assert_same, ended
from tests.helpers.ranks_on_threads import assert_bits_of_one_process, together

CHEATING = r"in round 2 agent (5 sent to agent 1|1 sent to agent 5), which is no edge of the graph"  # whoever sees it first


@pytest.mark.parametrize(
    "engine", [Stacked(strict=True), Processes(1, strict=True), Processes(3, strict=True)], ids=["stacked", "one", "three"]
)
def test_a_matrix_that_uses_more_than_the_graph_is_caught(engine, forked):
    case = engine_cases.cheating()
    assert case.run().rounds == 4  # nobody looks
    with pytest.raises(RuntimeError, match=CHEATING) as caught:
        case.run(engine=engine)
    if engine == Processes(3, strict=True):
        assert re.search(r"in worker [02] \(agents \d to ", "".join(caught.value.__notes__))


@pytest.mark.slow
def test_a_matrix_that_uses_more_than_the_graph_is_caught_under_mpi(tmp_path):
    assert re.search(CHEATING, ended(3, "cheat", tmp_path))


def test_a_directed_edge_carries_messages_one_way():
    graph = nx.DiGraph([(0, 1), (2, 2)])
    both_ways = sp.csr_array(np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1.0]]))
    network = StackedNetwork(Given(both_ways, graph), np.float64, strict=True)
    with pytest.raises(RuntimeError, match="in round 4 agent 1 sent to agent 0, which is no edge"):
        network.mix(4, np.ones((3, 1)))


def test_a_strict_network_knows_what_each_edge_carried():
    network = StackedNetwork(topologies.Static(nx.path_graph(3)), np.float64, strict=True)
    for round in range(4):
        network.mix(round, np.ones((3, 1)))
    assert network.per_edge() == dict.fromkeys([(0, 1), (1, 0), (1, 2), (2, 1)], 4)


def random_weights(agents, rng):
    """Any pattern at all, directed, with isolated agents and a few without a weight for themselves."""
    matrix = rng.random((agents, agents)) * (rng.random((agents, agents)) < rng.choice([0.05, 0.2, 0.6]))
    return sp.csr_array(matrix)


class Given:
    """A schedule of one given matrix, and of a graph that it may not fit."""

    def __init__(self, matrix, graph=None):
        self.matrix, self.agents, self.graph = matrix, matrix.shape[0], lambda round: graph

    def key(self, round):
        return 0

    def weights(self, key):
        return self.matrix


@pytest.mark.parametrize("seed", range(40))
def test_ranks_send_each_row_once_to_each_rank_that_needs_it(seed):
    rng = np.random.default_rng(seed)
    whole = random_weights(int(rng.integers(1, 30)), rng)
    if seed % 4 == 0:
        whole = topologies.metropolis(topologies.erdos_renyi(max(whole.shape[0], 8), 0.4, seed=seed))
    agents, dense = whole.shape[0], whole.toarray()
    blocks = blocks_of(agents, int(rng.integers(1, min(agents, 7) + 1)))
    assert [agent for block in blocks for agent in range(block.start, block.stop)] == list(range(agents))
    x = rng.standard_normal((agents, 3))

    def on_rank(ranks):
        network = HaloNetwork(Given(whole), blocks[ranks.me], np.dtype(float), False, ranks, blocks)
        return network.mix(0, x[network.rows])[0], network.messages, ranks.wire

    mixed, messages, wire = zip(*together(len(blocks), on_rank), strict=True)
    np.testing.assert_array_equal(np.concatenate(mixed), StackedNetwork(Given(whole), np.float64).mix(0, x)[0])
    np.testing.assert_allclose(np.concatenate(mixed), dense @ x, rtol=0, atol=1e-13)
    for block, received, size in zip(blocks, messages, wire, strict=True):
        used = dense[block] != 0
        assert received == used.sum() - np.count_nonzero(dense.diagonal()[block])
        assert size == x[0].nbytes * np.delete(used.any(axis=0), np.arange(agents)[block]).sum()


def test_plans_are_kept_for_few_rounds_only():
    network = StackedNetwork(topologies.RandomEdges(engine_cases.GRAPH, 0.5, seed=0), np.float64)
    rows = np.ones((engine_cases.AGENTS, 2))
    for round in range(500):
        network.mix(round, rows)
    assert len(network._plans.kept) <= 64
    static = StackedNetwork(engine_cases.NETWORKS["periodic"], np.float64)
    plans = set()
    for round in range(9):
        static.mix(round, rows)
        plans |= {id(plan) for plan in static._plans.kept.values()}
    assert len(plans) == 3


def test_blocks_of_workers_cover_the_agents_in_order():
    X, y = np.ones((60, 1)), np.zeros(60)
    for seed, workers in itertools.product(range(20), (1, 2, 3, 5, 7)):
        rng = np.random.default_rng(seed)
        sizes = 1 + rng.multinomial(53, rng.dirichlet(np.full(7, 0.3)))
        shards = consensus.partition(X, y, 7, "sizes", sizes=sizes)
        blocks = blocks_by_load(consensus.Problem(consensus.Linear(1), consensus.SquaredLoss(), shards).load, workers)
        assert len(blocks) == workers
        assert all(block.stop > block.start for block in blocks)
        assert [agent for block in blocks for agent in range(block.start, block.stop)] == list(range(7))


def test_blocks_that_do_not_fit_into_shared_memory_at_once_are_mixed_in_turn(forked):
    class Many(DGD):
        def step(self, problem, network, state):
            first, *_, last = network.mix(state.round, *(scale * state.w for scale in range(1, 8)))
            return state._replace(round=state.round + 1, w=first - 0.1 * last)

    class Wide(DGD):
        def step(self, problem, network, state):
            network.mix(state.round, np.tile(state.w, (1, 9)))

    case = engine_cases.special()["functions, DGD"]
    many, wide = (case._replace(solver=solver(0.1)) for solver in (Many, Wide))
    assert_same(many.run(engine=Processes(2)), many.run())
    with pytest.raises(ValueError, match=r"a block to mix has \d+ numbers per agent, workers share \d+: split it"):
        wide.run(engine=Processes(2))


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("solver", [DGD(0.05), PowerGossip(DGD(0.05), rank=2)], ids=["mix", "send_each"])
def test_on_ranks_rows_and_messages_reach_their_receivers(solver, size):
    problem = engine_cases.problem(model=consensus.MLP([4, 5, 1]), regularizer=consensus.L2(0.01))
    assert_bits_of_one_process(problem, engine_cases.NETWORKS["static"], solver, size)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_slowest_rank_is_the_clock(size):
    def gathered(ranks):
        mine = {"exchanges": 3, "messages": 10 + ranks.me}
        return AllRanks(ranks, np.ones(size, int)).total(mine, [5.0, 7.0, 6.0][ranks.me])

    expected = {"exchanges": 3, "messages": sum(range(10, 10 + size))}, [5.0, 7.0, 7.0][size - 1]
    assert together(size, gathered) == [expected] * size


def test_the_slowest_worker_is_the_clock():
    shared = SharedState.of([slice(0, 1), slice(1, 2), slice(2, 3)], 1, np.dtype(float), 1, 0)
    shared.seconds.array[:] = 5.0, 7.0, 6.0
    assert shared.totals()[1] == 7.0


def test_numbers_beside_are_counted_in_every_message():
    counted = []
    for beside in (0, 3):
        network = StackedNetwork(topologies.Static(nx.path_graph(3)), np.float32)
        ends = network.edges(0)
        network.send_each(0, ends, np.ones((3, 2, 5), np.float32), beside=beside)
        network.mix(0, np.ones((3, 5), np.float32), beside=beside)
        network.aggregate(0, Messages.mixed, np.ones((3, 5), np.float32), beside=beside)
        counted.append([network.messages, network.floats, network.bytes])
    assert counted == [[12, 12 * 5, 4 * 12 * 5], [12, 12 * (5 + 3), 4 * 12 * (5 + 3)]]
