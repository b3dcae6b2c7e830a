"""Attacks: what Byzantine agents send, to whom, and its effect with and without robust mixing."""

import functools

import numpy as np
import pytest

import consensus
from consensus.engines import StackedNetwork
from consensus.robust import ALIE, IPM, NNM, Attack, CSPlus, Dissensus, SignFlip, flip_labels
from consensus.solvers import DGD, PushPull
from tests.helpers.byzantine import AGENTS, BYZANTINE, NETWORKS, RULES, mixed, rows
from tests.helpers.ranks_on_threads import assert_bits_of_one_process
from tests.helpers.three_of_twenty import OTHERS, THREE, case, honest_optimum

HONEST = np.setdiff1d(np.arange(AGENTS), BYZANTINE)


def defined(attack, weights, x, i, j):
    """The row that the Byzantine agent ``j`` sends to the honest agent ``i``."""
    known = [k for k in HONEST if k == i or weights[i, k]]
    mean, deviation = x[known].mean(axis=0), x[known].std(axis=0)
    honest = sum(weights[i, k] * (x[k] - x[i]) for k in known)
    return {
        SignFlip(): -x[j],
        ALIE(0.7): mean - 0.7 * deviation,
        IPM(0.3): -0.3 * mean,
        Dissensus(1.2): x[i] - 1.2 * honest / weights[i, BYZANTINE].sum(),
    }[attack]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("attack", [SignFlip(), ALIE(0.7), IPM(0.3), Dissensus(1.2)], ids=repr)
def test_byzantine_agents_send_what_the_papers_define(attack, name):
    schedule, x = NETWORKS[name], 3 + rows()
    weights = schedule.weights(schedule.key(1)).toarray()
    told = np.array([[defined(attack, weights, x, i, j) if i in HONEST and j in BYZANTINE and weights[i, j] else x[j]
                      for j in range(AGENTS)] for i in range(AGENTS)])  # fmt: skip
    expected = np.einsum("ij,ijp->ip", weights, told)
    np.testing.assert_allclose(mixed(Attack(DGD(0.1), BYZANTINE, attack), schedule, x, round=1), expected, rtol=0, atol=1e-12)


def test_dissensus_of_one_undoes_plain_mixing():
    x = rows()
    after = mixed(Attack(DGD(0.1), BYZANTINE, Dissensus(1.0)), NETWORKS["metropolis"], x)
    np.testing.assert_allclose(after[HONEST], x[HONEST], rtol=0, atol=1e-14)


def test_an_attack_sends_no_more_messages():
    plain, network = (StackedNetwork(NETWORKS["changing"], np.float32) for _ in range(2))
    attacked = CSPlus(DGD(0.1), 0.1).around(Attack(DGD(0.1), BYZANTINE, IPM()).around(network))
    for round in range(3):
        plain.mix(round, rows(), rows(seed=1)[:, :2], beside=1)
        new = attacked.mix(round, rows(), rows(seed=1)[:, :2], beside=1)
    assert network.counts == plain.counts
    assert [(block.shape, block.dtype) for block in new] == [((AGENTS, 5), np.float32), ((AGENTS, 2), np.float32)]


def test_without_byzantine_agents_nothing_changes():
    x = rows()
    plain, attacked = (mixed(solver, NETWORKS["metropolis"], x) for solver in (DGD(0.1), Attack(DGD(0.1), [], SignFlip())))
    np.testing.assert_allclose(attacked, plain, rtol=0, atol=1e-15)


def constant(messages, marked, value):
    return np.full((marked.sum(), messages.rows.shape[1]), value)


def test_attacks_that_are_rejected():
    for byzantine in ([0, 0], [-1, 2]):
        with pytest.raises(ValueError, match=r"byzantine must be different agents, numbers from 0; got"):
            Attack(DGD(0.1), byzantine, SignFlip())
    for byzantine in ([0.5], "12", 3, [[1]], {1, 2}):
        with pytest.raises(TypeError, match=r"byzantine must be agents' numbers, such as \[2, 5\], or names; got"):
            Attack(DGD(0.1), byzantine, SignFlip())
    for attack in (SignFlip, "sign", None):
        with pytest.raises(TypeError, match=r"attack must be a function, or an object such as SignFlip\(\); got"):
            Attack(DGD(0.1), [1], attack)
    with pytest.raises(TypeError, match=r"solver of Attack must be one for doubly stochastic matrices"):
        Attack(PushPull(0.1), [1], SignFlip())
    for make in (IPM, Dissensus):
        with pytest.raises(ValueError, match=r"epsilon must be a finite number > 0; got 0"):
            make(0)
    with pytest.raises(ValueError, match=r"z must be a finite number; got nan"):
        ALIE(np.nan)
    problem, network, _ = case()
    with pytest.raises(ValueError, match=r"byzantine must be among 0 .. 19; got \[3, 20\]"):
        consensus.solve(problem, network, Attack(DGD(0.1), [20, 3], SignFlip()), rounds=1)
    with pytest.raises(ValueError, match=r"byzantine must leave an honest agent; got all of 0 .. 19"):
        consensus.solve(problem, network, Attack(DGD(0.1), range(20), SignFlip()), rounds=1)
    with pytest.raises(
        ValueError, match=r"attack must return the rows \(marked messages, P\) = \(\d+, 11\); got shape \(11,\)"
    ):
        consensus.solve(problem, network, Attack(DGD(0.1), [1], lambda messages, marked: messages.own[0]), rounds=1)
    for odd, kind in ((1j, "complex128"), (None, "object"), ("far", "<U3")):
        with pytest.raises(ValueError, match=rf"what attack returns must hold real numbers; got dtype {kind}"):
            consensus.solve(
                problem,
                network,
                Attack(DGD(0.1), [1], lambda messages, marked, odd=odd: constant(messages, marked, odd)),
                rounds=1,
            )
    with pytest.raises(TypeError, match=r"there is no network.average of it"):
        Attack(DGD(0.1), [1], SignFlip()).around(StackedNetwork(network, float)).average(0, np.ones((20, 1)))


def test_labels_are_flipped_of_byzantine_agents_alone():
    shards = consensus.partition(np.eye(7), np.arange(7) % 3, agents=3)
    found = flip_labels(shards, [1], classes=3)
    for agent in range(3):
        own = shards.targets[agent, : shards.sizes[agent]]
        expected = 2 - own if agent == 1 else own
        np.testing.assert_array_equal(found.targets[agent, : shards.sizes[agent]], expected)
    assert (found.targets[shards.weights == 0] == 0).all()
    np.testing.assert_array_equal(flip_labels(shards, [0, 2]).targets[[0, 2]], -shards.targets[[0, 2]])
    block = flip_labels(shards.restrict(slice(1, 3)), [1], classes=3)
    np.testing.assert_array_equal(block.targets, found.targets[1:])
    with pytest.raises(ValueError, match=r"byzantine must be among 0 .. 2; got \[3\]"):
        flip_labels(shards, [3])
    with pytest.raises(ValueError, match=r"targets must be classes 0 .. 1, as classes=2 says; got 2"):
        flip_labels(shards, [1], classes=2)


# Three Byzantine agents of twenty ---------------------------------------------------------------------------------------

ATTACKS = {"sign flip": SignFlip(), "ALIE": ALIE(), "IPM": IPM(), "dissensus": Dissensus(), "label flip": None}


def excess(attack, rule, scheme="iid"):
    """The honest agents' objective above its minimum, at their own copies, on average; relative to the minimum."""
    problem, network, weight = case(attack == "label flip", scheme)
    solver = DGD(0.05) if rule is None else rule(DGD(0.05), weight)
    if ATTACKS[attack]:
        solver = Attack(solver, THREE, ATTACKS[attack])
    least, objective = honest_optimum(scheme)
    result = consensus.solve(problem, network, solver, rounds=150, record_every=150, start=np.zeros(11))
    return np.mean([objective(result.w[i]) for i in OTHERS]) / least - 1


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_with_three_byzantine_agents_of_twenty_robust_methods_stay_within_a_twentieth_of_the_honest_optimum(attack):
    found = {rule.__name__: excess(attack, rule) for rule in RULES}
    assert max(found.values()) < 0.05, found
    if attack != "ALIE":  # which hides in a spread that is small where shards are alike
        assert excess(attack, None) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_where_agents_data_differ_alie_costs_robust_rules_more_than_plain_mixing_and_cruder_attacks_little(rule):
    """What docs/robust.md says of sorted shards, here of other targets at each agent."""
    mixed_first = functools.partial(rule, before=NNM())
    assert min(excess("ALIE", one, "sorted") for one in (rule, mixed_first)) > excess("ALIE", None, "sorted")
    for attack in ("sign flip", "IPM", "dissensus"):
        assert excess(attack, mixed_first, "sorted") < 0.1 < 3 < excess(attack, None, "sorted")


# Histories of runs with Byzantine agents ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("attack", [SignFlip(), ALIE(), Dissensus()], ids=repr)
def test_byzantine_agents_are_the_same_agents_wherever_blocks_begin(attack, size):
    problem, network, weight = case()
    assert_bits_of_one_process(problem, network, Attack(CSPlus(DGD(0.05), weight), THREE, attack), size, rounds=2)
