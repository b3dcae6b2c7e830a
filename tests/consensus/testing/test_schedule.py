"""Every schedule keeps the contract; of wrong ones the broken law is named."""

from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies
from consensus.testing import check_schedule
from tests.helpers.every_schedule import DIRECTED, UNDIRECTED

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
