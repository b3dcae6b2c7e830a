"""Masked sums: exact in fixed point, whatever the tree; every message but the total is uniform; who drops out is named."""

import hashlib
import os
import signal
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.stats import chi2

import consensus
import topologies
from consensus.engines import Processes, StackedNetwork
from consensus.errors import WorkerError
from consensus.privacy import SecureSums, masks
from consensus.solvers import TreeLBFGS, TreeNewton
from consensus.trees.masked_tree import MaskedTree
from tests.helpers.problems import GRAPH, problem

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tests.helpers.refusals import refusals

AGENTS = len(GRAPH)
TREES = {"random": GRAPH, "path": topologies.path(AGENTS), "star": topologies.star(AGENTS)}
RIDGE = problem("squared", consensus.L2(0.1), scheme="sizes")


class Seeded:
    """Private keys that are the same in every test, so that masks are."""

    def __init__(self):
        self.made = 0

    def generate(self):
        self.made += 1
        return X25519PrivateKey.from_private_bytes(hashlib.sha256(b"key %d" % self.made).digest())


@pytest.fixture
def seeded(monkeypatch):
    from cryptography.hazmat.primitives.asymmetric import x25519

    monkeypatch.setattr(x25519, "X25519PrivateKey", Seeded())


class Listening(StackedNetwork):
    """A network that keeps the integers that agents send to each other, and the last whole rows."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.sent, self.totals = [], []

    def _gather(self, plan, blocks):
        if blocks[0].dtype == np.uint64:
            self.sent.append(np.asarray(blocks[0])[plan.copies > 0])
        return super()._gather(plan, blocks)


def tree(graph, kind=StackedNetwork, sums=None):
    network = kind(topologies.Static(graph), np.dtype(float))
    return network, network.tree.secured(sums or SecureSums(), first=True)


def by_hand(rows, bits):
    """The sum of the rows in fixed point, in Python's integers, as the nearest float64."""
    codes = [[int(np.rint(value * 2.0**bits)) for value in row] for row in rows]
    return np.array([float(sum(column)) / 2.0**bits for column in zip(*codes)])


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("bits", [0, 20, 40, 52])
def test_the_sum_is_that_of_the_numbers_in_fixed_point_to_the_bit(name, bits):
    rng, sums = np.random.default_rng(0), SecureSums(bits)
    _, secured = tree(TREES[name], sums=sums)
    assert isinstance(secured, MaskedTree)
    for scale in (1e-12, 1.0, 0.9 * 2.0 ** (63 - bits) / AGENTS):
        rows = scale * rng.uniform(-1, 1, (AGENTS, 50))
        found = secured.reduce(rows)
        np.testing.assert_array_equal(found[secured.root], by_hand(rows, bits))
        assert not found[np.arange(AGENTS) != secured.root].any()
        np.testing.assert_array_equal(secured.broadcast(found), np.tile(by_hand(rows, bits), (AGENTS, 1)))


def byte_statistic(messages):
    """Pearson's statistic of the 256 bytes in messages of uint64."""
    counts = np.bincount(np.concatenate([message.ravel() for message in messages]).view(np.uint8), minlength=256)
    return (np.square(counts - counts.mean()) / counts.mean()).sum()


@pytest.mark.parametrize("name", TREES)
def test_every_message_on_the_way_up_is_uniform(name, seeded):
    rng = np.random.default_rng(0)
    network, secured = tree(TREES[name], Listening)
    network.sent.clear()  # of public keys
    rows = [rng.standard_normal((AGENTS, 2000)) for _ in range(20)]
    for row in rows:
        secured.reduce(row)
    assert byte_statistic(network.sent) < chi2.ppf(0.999, 255)
    codes = [SecureSums().encode(row, np.arange(AGENTS), AGENTS) for row in rows]
    assert byte_statistic(codes) > 100 * chi2.ppf(0.999, 255)  # what travels without masks
    if name == "star":  # each leaf sends its own number, hidden
        sent = np.concatenate([message.ravel() for message in network.sent]).astype(float)
        leaves = [agent for agent in range(AGENTS) if agent != secured.root]
        own = np.concatenate([row[leaves].ravel() for row in rows])
        assert len(sent) == len(own)
        assert abs(np.corrcoef(sent, own)[0, 1]) < 4 / np.sqrt(len(own))


def test_without_one_agents_message_the_rest_says_nothing(seeded):
    made = masks.Masks(range(AGENTS))
    made.agree(made.public)
    drawn = made.drawn(3, 100_000)
    assert not drawn.sum(axis=0).any()
    for missing in range(AGENTS):
        rest = np.delete(drawn, missing, axis=0).sum(axis=0)
        assert byte_statistic([rest]) < chi2.ppf(0.9999, 255)
    assert not np.array_equal(drawn, made.drawn(4, 100_000))


def test_both_ends_of_a_pair_draw_the_same_mask_from_each_others_public_keys():
    apart = [masks.Masks([agent]) for agent in range(3)]
    public = np.concatenate([one.public for one in apart])
    for one in apart:
        one.agree(public)
    assert not sum(one.drawn(0, 64) for one in apart).any()
    others = masks.Masks([0])  # another private key: a stranger who has heard everything
    others.agree(public)
    assert sum(one.drawn(0, 64) for one in (others, *apart[1:])).any()


@pytest.mark.parametrize("solver", [TreeLBFGS, TreeNewton])
def test_masks_change_nothing(solver, monkeypatch):
    p = problem("logistic", consensus.L2(0.1), scheme="sizes")
    plain, masked = (consensus.solve(p, GRAPH, solver(secure=secure), rounds=40) for secure in (None, SecureSums()))
    assert masked.history["stationarity"][-1] < 1e-6
    np.testing.assert_allclose(masked.w, plain.w, atol=1e-5)
    # Public keys go up and down, and what the root would guess of its own data is not sent.
    assert masked.history["messages"][-1] == plain.history["messages"][-1] + (2 - 1) * (AGENTS - 1)
    monkeypatch.setattr(masks.Masks, "drawn", lambda self, number, count: np.zeros((AGENTS, count), np.uint64))
    bare = consensus.solve(p, GRAPH, solver(secure=SecureSums()), rounds=40)
    np.testing.assert_array_equal(bare.w, masked.w)


@pytest.mark.parametrize("solver", [TreeLBFGS, TreeNewton])
def test_the_history_is_of_sums_in_fixed_point(solver):
    found = consensus.solve(RIDGE, GRAPH, solver(secure=SecureSums(30)), rounds=3, record_every=1)
    costs, gradients = RIDGE.value_and_gradient(found.w)
    w, r = found.w[0], RIDGE.regularizer
    assert found.history["objective"][-1] == by_hand(costs[:, None], 30)[0] + r.value(w)
    step = w - by_hand(gradients, 30)
    assert found.history["stationarity"][-1] == np.linalg.norm(w - r.prox(step, 1.0))


def test_the_tree_does_not_matter_to_the_last_bit():
    runs = [consensus.solve(RIDGE, graph, TreeLBFGS(rounded=False, secure=SecureSums()), rounds=20) for graph in TREES.values()]
    roots = {topologies.metropolis(graph).nnz for graph in TREES.values()}
    assert len(roots) > 1
    for other in runs[1:]:
        np.testing.assert_array_equal(other.w, runs[0].w)


def test_bytes_are_those_that_are_sent():
    network, secured = tree(topologies.path(AGENTS))
    keys = 32 * AGENTS * 2 * (AGENTS - 1)
    assert network.bytes == keys
    secured.reduce(np.zeros((AGENTS, 10)))
    assert network.bytes == keys + 80 * (AGENTS - 1)
    assert network.traffic.sum() == 2 * network.bytes


# What is refused, and who drops out


@pytest.mark.parametrize(("value", "words"), [
    (np.nan, "agent 4 has a number for a secure sum that is NaN or infinite"),
    (2.0**21, "agent 4 has a number that is too large for a secure sum of 6 agents: give SecureSums fewer bits than 40"),
])  # fmt: skip
def test_a_number_that_does_not_fit_names_its_agent(value, words):
    rows = np.zeros((AGENTS, 3))
    rows[4, 1] = value
    with pytest.raises(ValueError, match=words):
        tree(GRAPH)[1].reduce(rows)


@dataclass(frozen=True)
class DropsOut(TreeLBFGS):
    """In its fifth round the process with agent ``leaver`` is killed."""

    leaver: int = field(default=4, repr=False)

    def step(self, problem, network, state):
        if state.round == 4 and self.leaver in problem.rows:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(problem, network, state)


def test_who_drops_out_is_named(forked):
    solver = DropsOut(secure=SecureSums())
    with pytest.raises(WorkerError, match=r"worker 2 \(agents 4 to 5\)") as caught:
        consensus.solve(RIDGE, GRAPH, solver, rounds=20, record_every=1, engine=Processes(3))
    assert caught.value.history["round"].tolist() == [0, 1, 2, 3, 4]


test_refusals = refusals(
    *((lambda odd=odd: SecureSums(odd), (TypeError, ValueError), "bits must be") for odd in (-1, 61, 0.5)),
    (lambda: TreeLBFGS(secure=True), TypeError, "secure must be"),
    (lambda: TreeNewton(secure=40), TypeError, "secure must be"),
)
