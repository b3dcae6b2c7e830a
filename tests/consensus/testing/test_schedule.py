"""Every schedule keeps the contract; of wrong ones the broken law is named."""

from dataclasses import dataclass, replace

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import consensus
import topologies
from consensus.compression import Compressor, Half, LowRank, NoCompression, Quantize, RandomK, Sparse, TopK
from consensus.testing import check_compressor, check_schedule
from tests.extensions.signs import Sign
from tests.helpers.every_schedule import DIRECTED, UNDIRECTED
from tests.helpers.problems import problem

GRAPH = nx.gnp_random_graph(9, 0.4, seed=2)
RING = topologies.Static(topologies.ring(5))


@pytest.mark.parametrize("name", UNDIRECTED)
def test_undirected_ones_keep_the_contract_and_stay_symmetric_under_failures(name):
    inner = UNDIRECTED[name](GRAPH, 3)
    for schedule in (
        inner,
        topologies.LinkFailure(inner, 0.4, seed=1),
        topologies.AgentFailure(inner, [(2, 1, 5), (0, 3, None)]),
    ):
        assert "edges of graph are the entries of weights" in check_schedule(schedule, mixing="symmetric").errors


@pytest.mark.parametrize("preserve", ["columns", "rows"])
@pytest.mark.parametrize("name", DIRECTED)
def test_directed_ones_keep_the_sums_that_they_say(name, preserve):
    inner = DIRECTED[name](GRAPH, 3, topologies.push if preserve == "columns" else topologies.pull)
    mixing = "column stochastic" if preserve == "columns" else "row stochastic"
    check_schedule(inner, mixing=mixing)
    check_schedule(topologies.LinkFailure(inner, 0.4, 1, False, preserve), mixing=mixing)
    check_schedule(topologies.AgentFailure(inner, [(2, 1, 5)], preserve), mixing=mixing)


class Good:
    """A ring whose matrix is lazy in odd rounds; those below each break a law."""

    agents = 5

    def key(self, round):
        return round % 2

    def weights(self, key):
        return RING.weights(0) if key == 0 else sparse.csr_array((RING.weights(0) + sparse.eye_array(5)) / 2)

    def graph(self, round):
        return RING.graph(round)

    def __repr__(self):
        return "Good()"


@dataclass(frozen=True)
class Waking:
    """In every round one edge of a graph averages; graphs print with their address."""

    edges: nx.Graph

    @property
    def agents(self):
        return len(self.edges)

    def key(self, round):
        return round % self.edges.number_of_edges()

    def weights(self, key):
        i, j = list(self.edges.edges)[key]
        matrix = np.eye(self.agents)
        matrix[np.ix_([i, j], [i, j])] = 0.5
        return sparse.csr_array(matrix)


def test_a_copy_of_a_schedule_that_holds_a_graph_is_equal():
    check_schedule(Waking(GRAPH), mixing="symmetric")


def _zero(self, key):
    matrix = Good.weights(self, key).copy()
    matrix.data[matrix.indices == 3] *= 0
    return matrix


def _doubled(self, key):
    matrix = Good.weights(self, key)
    twice = lambda a: np.concatenate([a[:1], a])  # noqa: E731
    return sparse.csr_array((twice(matrix.data), twice(matrix.indices), matrix.indptr + (np.arange(6) > 0)), shape=(5, 5))


KEPT = RING.graph(0)
RNG = np.random.default_rng(0)
FAULTS = {
    "keys can be hashed": {"key": lambda self, round: [round]},
    r"weights\(key\) is a scipy.sparse.csr_array: found ndarray": {"weights": lambda self, key: np.eye(5)},
    r"weights have shape \(agents, agents\): found \(4, 4\)": {"weights": lambda self, key: sparse.csr_array(np.eye(4))},
    "weights are real numbers: found dtype complex128": {"weights": lambda self, key: sparse.csr_array(1j * np.eye(5))},
    "weights are finite": {"weights": lambda self, key: sparse.csr_array(np.nan * np.eye(5))},
    "no zeros are stored off the diagonal": {"weights": _zero},
    "every entry is stored once": {"weights": _doubled},
    "a round has the same matrix when it is asked again": {
        "weights": lambda self, key: sparse.csr_array(np.diag(RNG.random(5)) + 0.1)
    },
    "a copy by cloudpickle has the same matrices": {"__reduce__": lambda self: (Good, ())} | {"key": lambda self, round: 0},
    "a static schedule has one matrix": {"static": True},
    "rows, or columns, sum to one": {"weights": lambda self, key: 0.9 * Good.weights(self, key)},
    "edges of graph are the entries of weights: round 0": {"graph": lambda self, round: topologies.path(5)},
    r"graph\(round\) is a new one in every call": {"graph": lambda self, round: KEPT},
    "nodes are 0": {"graph": lambda self, round: nx.relabel_nodes(RING.graph(0), {0: "a"})},
}


def test_what_is_broken_below_was_whole():
    check_schedule(Good(), mixing="symmetric")


@pytest.mark.parametrize("law", FAULTS)
def test_what_is_broken_is_named(law):
    with pytest.raises(AssertionError, match=rf"^Good\(\): {law}"):
        check_schedule(type("Wrong", (Good,), FAULTS[law])())


def test_the_mixing_that_is_asked_for_is_checked():
    push = topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]), topologies.push)
    with pytest.raises(AssertionError, match=r"rows sum to one, up to rounding: found 0\.\d+, more than 1e-14"):
        check_schedule(push, mixing="doubly stochastic")
    with pytest.raises(AssertionError, match="matrices are symmetric"):
        check_schedule(topologies.OnePeerExponential(7), mixing="symmetric")


# Every compressor passes the contract; of wrong ones the broken law is named.

ALL = [TopK(3), TopK(0.2), RandomK(4), RandomK(0.3), Quantize(2), Quantize(8), Quantize(3, "nearest"), Half(), NoCompression()]
WITH_LAYERS = problem("logistic", consensus.L2(0.1), consensus.MLP([4, 6, 1]), "sizes")


@pytest.mark.parametrize("compressor", [*ALL, Sign()], ids=repr)
def test_it_keeps_the_contract(compressor):
    laws = check_compressor(compressor).errors
    assert ("the mean of Q(x) is x, as unbiased says" in laws) == compressor.unbiased
    check_compressor(compressor, 7, draws=50, seed=1)


def test_one_that_depends_on_the_problem_keeps_the_contract():
    check_compressor(LowRank(2), problem=WITH_LAYERS)


def test_every_compressor_is_tried():
    exported = [getattr(consensus.compression, name) for name in consensus.compression.__all__]
    classes = {kind for kind in exported if isinstance(kind, type) and issubclass(kind, Compressor)}
    assert classes - {Compressor, LowRank} == {type(one) for one in ALL}


@dataclass(frozen=True)
class Ternary(Compressor):
    """Right: the largest modulus with the entry's sign, with a probability of their quotient. Those below each break a law."""

    seed: int = 0

    unbiased = True

    def __repr__(self):
        return "Ternary()"

    def omega(self, parameters):
        return 2 - np.sqrt(parameters)

    def top(self, rows):
        return np.abs(rows).max(axis=1, keepdims=True)

    def kept(self, rows, agents, number):
        draws = [np.random.default_rng([self.seed, agent, number]).random(rows.shape[1]) for agent in agents]
        return np.stack(draws) * self.top(rows) < np.abs(rows)

    def pack(self, rows, agents, number, columns=20):
        values = np.where(self.kept(rows, agents, number), np.sign(rows) * self.top(rows), 0).astype(rows.dtype)
        places = np.tile(np.arange(rows.shape[1], dtype=np.int32), (len(rows), 1))
        return Sparse(values[:, :columns].copy(), places[:, :columns].copy(), rows.shape[1])


def _written(self, rows, agents, number):
    rows[0] = 0
    return Ternary.pack(self, rows, agents, number)


@dataclass(frozen=True)
class Bare:
    """A message of rows as they are that has no ``of``."""

    rows: np.ndarray

    arrays = property(lambda self: (self.rows,))
    bytes = numbers = property(lambda self: np.full(len(self.rows), 8))

    def unpack(self):
        return self.rows


@dataclass(frozen=True)
class Message(Bare):
    """One whose bytes are no whole numbers."""

    bytes = property(lambda self: np.full(len(self.rows), 2.5))

    def of(self, rows):
        return replace(self, rows=rows)


def _turned(rows):  # by a right angle
    return np.stack([-rows[:, 1::2], rows[:, ::2]], axis=2).reshape(rows.shape)


def _normalised(self, rows, agents, number):
    with np.errstate(invalid="ignore"):
        return Message(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _memory(self, rows, agents, number):
    MEMORY.append(number)
    return Ternary.pack(self, rows, agents, len(MEMORY))


MEMORY = []
FAULTS_OF_COMPRESSORS = {
    r"the mean of .* as unbiased says": {"kept": lambda self, rows, *_: np.abs(rows) > 0.5},
    r"the mean of Q\(x\) is x, as unbiased says": {
        "pack": lambda self, rows, *where: Ternary.pack(self, (rows + 0.5 * _turned(rows)).astype(rows.dtype), *where)
    },
    r"the mean of .* as unbiased says: found 0\.08": {
        "kept": lambda self, rows, agents, number: Ternary.kept(self, rows, agents, 0)  # the same draw for all messages
    },
    r"the mean of <Q\(x\), x> / \|x\|\^2 is 1": {
        "pack": lambda self, rows, *where: Ternary.pack(self, (0.9 * rows).astype(rows.dtype), *where)
    },
    r"the mean of \|Q\(x\) - x\|\^2 is at most": {"omega": lambda self, parameters: 0.5},
    "omega is a number, at most 1: found 1.5": {"omega": lambda self, parameters: 1.5},
    "the same row, agent and number give the same message": {"pack": _memory},
    "a block of agents sends the messages that it sends among all": {"top": lambda self, rows: np.abs(rows).max(keepdims=True)},
    "pack leaves the rows as they are": {"pack": _written},
    "all messages have arrays of the same dtypes and shapes": {
        "pack": lambda self, rows, agents, number: Ternary.pack(self, rows, agents, number, 10 + number % 2)
    },
    r"a message has arrays, bytes, numbers, of and unpack: Bare lacks \['of'\]": {"pack": lambda self, rows, *_: Bare(rows)},
    "bytes are whole numbers of each row: found float64": {"pack": lambda self, rows, *_: Message(rows)},
    "unpacked rows are finite: found .* row 3 is of zeros": {"pack": _normalised},
    "a row of zeros stays so": {"pack": lambda self, rows, *_: Message(rows + 1)},
    "unpack returns rows in the dtype": {"pack": lambda self, rows, *_: Message(rows.astype(np.float16))},
}


def test_a_compressor_that_is_broken_below_was_whole():
    check_compressor(Ternary())


@pytest.mark.parametrize("law", FAULTS_OF_COMPRESSORS)
def test_what_is_broken_in_a_compressor_is_named(law):
    with pytest.raises(AssertionError, match=rf"^Ternary\(\): {law}"):
        check_compressor(type("Broken", (Ternary,), FAULTS_OF_COMPRESSORS[law])())


def test_arguments_are_checked():
    with pytest.raises(TypeError, match=r"^compressor must be a consensus.compression.Compressor; got 3"):
        check_compressor(3)
