"""Attacks on secure sums: what the root, the server, the next rank and the reader of an error get to know of one agent."""

import re
from pathlib import Path

import numpy as np
import pytest

import consensus
import topologies
from consensus.centralized import SCAFFOLD, FedAdam, FedAvg
from consensus.centralized import solve as federated
from consensus.privacy import SecureSums
from consensus.solvers import TreeLBFGS, TreeNewton
from tests.helpers.problems import problem

pytest.importorskip("cryptography")
AGENTS, SAMPLES = 7, 12
SOLVERS = {
    "TreeNewton": TreeNewton(columns=5, secure=SecureSums()),
    "TreeLBFGS": TreeLBFGS(secure=SecureSums()),
    "TreeLBFGS, float64": TreeLBFGS(rounded=False, secure=SecureSums()),
}


def owned(order, loss="squared"):
    """Agents with unlike data, in some order; each agent's have another scale."""
    rng = np.random.default_rng(3)
    X = [(1 + agent) * rng.standard_normal((SAMPLES, 3)) for agent in range(AGENTS)]
    y = [rng.standard_normal(SAMPLES) if loss == "squared" else rng.integers(0, 2, SAMPLES) for _ in range(AGENTS)]
    shards = consensus.Shards.from_list([(X[agent], y[agent].astype(float)) for agent in order])
    kind = consensus.SquaredLoss() if loss == "squared" else consensus.LogisticLoss()
    return consensus.Problem(consensus.MLP([3, 4, 1]), kind, shards, consensus.L2(0.05))


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize(("graph", "root"), [(topologies.star(AGENTS), 0), (topologies.path(AGENTS), 3)])
def test_whose_data_the_root_has_changes_no_bit(name, loss, graph, root):
    """All that goes down the tree is of sums: with other data at the root, and its own elsewhere, the run is the same."""
    swapped = list(range(AGENTS))
    swapped[root], swapped[-1] = swapped[-1], swapped[root]
    start = consensus.MLP([3, 4, 1]).init(np.random.default_rng(5))
    runs = [
        consensus.solve(owned(order, loss), graph, SOLVERS[name], rounds=12, start=start, record_every=1)
        for order in (list(range(AGENTS)), swapped)
    ]
    np.testing.assert_array_equal(runs[0].w, runs[1].w)
    for column in ("objective", "stationarity"):
        np.testing.assert_array_equal(runs[0].history[column], runs[1].history[column], err_msg=column)
    assert runs[0].history["objective"][-1] < runs[0].history["objective"][0]


def test_without_masks_the_roots_own_curvature_is_in_the_steps():
    """The same attack as above succeeds where nothing is promised."""
    swapped = [AGENTS - 1, *range(1, AGENTS - 1), 0]
    start = consensus.MLP([3, 4, 1]).init(np.random.default_rng(5))
    one, other = (
        consensus.solve(owned(order), topologies.star(AGENTS), TreeNewton(columns=5), rounds=3, start=start)
        for order in (list(range(AGENTS)), swapped)
    )
    assert abs(one.w - other.w).max() > 1e-3


@pytest.mark.parametrize("system", [FedAvg, SCAFFOLD, FedAdam])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_sums_of_drawn_clients_are_refused(system, share):
    """From sums over other clients in each round a server would compute each client's gradient, to 5 to 15 percent."""
    with pytest.raises(ValueError, match=rf"secure sums need all clients in every round.* got share={share:g}: give share=1.0"):
        system(0.05, share=share, secure=SecureSums())
    assert system(0.05, share=share).share == share
    ridge = problem("squared", consensus.L2(0.1))
    assert federated(ridge, system(0.05, share=1.0, secure=SecureSums()), rounds=2).rounds == 2  # the remedy


def test_the_differences_of_a_servers_sums_are_of_all_clients(monkeypatch):
    """The server's least squares over rounds, by whose clients' weights are in each sum, have one unknown: the sum."""
    from consensus.federated.base import Clients

    p, seen = owned(range(AGENTS)), []
    total = Clients.total

    def listening(self, rows, who, round, traffic):
        seen.append(np.isin(np.arange(AGENTS), who))
        return total(self, rows, who, round, traffic)

    monkeypatch.setattr(Clients, "total", listening)
    federated(p, FedAvg(0.01, local_steps=1, secure=SecureSums()), rounds=10)
    assert np.linalg.matrix_rank(np.array(seen, float)) == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, 2.0**21, -3.25e17, 8.123456789e6])
@pytest.mark.parametrize("bits", [40, 0])
def test_an_error_shows_no_number_of_an_agent(value, bits):
    sums, rows = SecureSums(bits), np.zeros((AGENTS, 3))
    rows[4, 1] = value * 2.0 ** (40 - bits)
    with pytest.raises(ValueError, match=r"^agent 4 has a number") as caught:
        sums.encode(rows, np.arange(AGENTS), AGENTS)
    digits = str(caught.value).replace("agent 4", "").replace(f"of {AGENTS} agents", "").replace(f"than {bits}", "")
    assert not any(character.isdigit() for character in digits)
    if "fewer bits" in str(caught.value) and abs(value) < 2**22:  # the remedy
        SecureSums(20).encode(rows, np.arange(AGENTS), AGENTS)
    assert ("fewer bits" in str(caught.value)) == (bits > 0 and np.isfinite(value))


@pytest.mark.parametrize("rounded", [True, False])
def test_the_remedy_of_too_large_gradients_works(rounded):
    p = owned(range(AGENTS))
    large = consensus.Problem(
        p.model,
        p.loss,
        consensus.Shards.from_list([(X, 1e5 * y[:, 0]) for X, y in zip(p.shards.features, p.shards.targets)]),
        p.regularizer,
    )
    with pytest.raises(
        ValueError, match=r"agent \d has a number that is too large for a secure sum of 7 agents: give SecureSums fewer"
    ):
        consensus.solve(large, topologies.ring(AGENTS), TreeLBFGS(rounded=rounded, secure=SecureSums(50)), rounds=3)
    few = TreeLBFGS(rounded=rounded, secure=SecureSums(20))
    assert consensus.solve(large, topologies.ring(AGENTS), few, rounds=3).rounds == 3


def test_the_page_of_promises_names_tests_that_exist():
    root = Path(__file__).parents[3]
    named = set(re.findall(r"`(test_\w+)`", (root / "docs/privacy.md").read_text()))
    written = "".join(path.read_text() for path in (root / "tests").rglob("test_*.py"))
    assert len(named) > 8
    assert not [name for name in named if f"def {name}(" not in written]


def test_what_tells_sums_of_some_agents_apart_is_refused():
    p, solver = owned(range(AGENTS)), TreeLBFGS(secure=SecureSums())
    with pytest.raises(ValueError, match="honest is a sum over some agents"):
        consensus.solve(p, topologies.ring(AGENTS), solver, rounds=1, honest=[0, 1, 2])
    with pytest.raises(ValueError, match="test sets of owners are recorded owner by owner"):
        consensus.solve(p, topologies.ring(AGENTS), solver, rounds=1, test=p.shards)
