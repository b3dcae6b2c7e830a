"""Attacks: what Byzantine agents send, to whom, and its effect with and without robust mixing."""

import functools
import itertools

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import StackedNetwork
from consensus.robust import ALIE, IPM, NNA, NNM, Attack, Bucketing, CSPlus, Dissensus, SignFlip, flip_labels
from consensus.solvers import DGD, PushPull
from tests.helpers.byzantine import AGENTS, BYZANTINE, NETWORKS, RULES, aggregated, mixed, rows
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


# Nearest-neighbour mixing and bucketing: what their definitions say, agent by agent, and the laws that they keep.

every = pytest.mark.parametrize("rule", RULES)


def received(before, schedule, x, b=0.0, round=0):
    """What ``before`` hands to the rule."""
    kept, network = [], StackedNetwork(schedule, x.dtype)

    def rule(messages):
        kept.append(before(messages, b, np.arange(len(x)), round))
        return messages.own

    network.aggregate(round, rule, x)
    return kept[0]


def neighbourhoods(schedule, round):
    """For each agent itself and then its neighbours, and the weights that it gives them."""
    weights = schedule.weights(schedule.key(round)).toarray()
    for i, row in enumerate(weights):
        who = np.array([i, *(j for j in np.flatnonzero(row) if j != i)])
        yield i, who, row[who]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("b", [0.03, 0.1, 0.17, 0.3])
def test_nearest_neighbour_mixing_averages_around_every_message_that_an_agent_has(name, b):
    x, schedule = rows(), NETWORKS[name]
    for round in range(2):
        messages = received(NNM(), schedule, x, b, round)
        for i, who, weights in neighbourhoods(schedule, round):
            y = [aggregated(NNA, weights, x[who], b, own=k) for k in range(len(who))]
            found = np.array([messages.own[i], *messages.rows[messages.sources[messages.receivers == i]]])
            np.testing.assert_allclose(found, y, rtol=0, atol=1e-13)
            np.testing.assert_array_equal(messages.senders[messages.receivers == i], who[1:])


@every
@pytest.mark.parametrize("b", [0.05, 0.2, 0.27])
def test_averages_of_nearest_rows_are_aggregated_by_the_rule(rule, b):
    # With other weights the rules jump where rows are equally far, and averages of the same rows are.
    x, schedule, expected = rows(), NETWORKS["equal weights"], []
    for _, who, weights in neighbourhoods(schedule, 0):
        y = np.array([aggregated(NNA, weights, x[who], b, own=k) for k in range(len(who))])
        expected.append(aggregated(rule, weights, y, b))
    np.testing.assert_allclose(mixed(rule(DGD(0.1), b, NNM()), schedule, x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("agents", "attackers"), [(8, 1), (12, 1), (12, 3), (20, 2)])
def test_averages_of_nearest_rows_have_less_bias_and_variance_together(agents, attackers):
    """``mean_S |y - xbar|^2 <= 8 f / (n - f) mean_S |x - xbar|^2`` for all S of n - f rows, whatever the others are."""
    network, found = topologies.Static(topologies.complete(agents), weights=topologies.max_degree), []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((agents, 4))
        x[:attackers] = x[attackers:].mean(axis=0) + 10 ** rng.uniform(-1, 2) * rng.standard_normal((attackers, 4))
        messages = received(NNM(), network, x, attackers / agents)
        assert (messages.receivers[: agents - 1] == 0).all()
        y = np.concatenate([messages.own[:1], messages.rows[: agents - 1]])  # what the first agent has, in the order of x
        for few in itertools.islice(itertools.combinations(range(agents), agents - attackers), 500):
            some = np.array(few)
            mean = x[some].mean(axis=0)
            before, after = (np.square(z[some] - mean).sum(axis=1).mean() for z in (x, y))
            found.append(after / before)
    bound = 8 * attackers / (agents - attackers)
    assert max(found) <= bound * (1 + 1e-12)
    assert max(found) > bound / 10  # so that the bound says something


def test_averages_do_not_depend_on_how_many_are_worked_at_a_time(monkeypatch):
    x = np.random.default_rng(0).standard_normal((AGENTS, 700)).astype(np.float32)
    whole = received(NNM(), NETWORKS["metropolis"], x, 0.1)
    monkeypatch.setattr("consensus._arrays.parallel.CHUNK_BYTES", 1)
    monkeypatch.setattr("consensus._arrays.parallel._WORTH_BYTES", 1)
    np.testing.assert_array_equal(received(NNM(), NETWORKS["metropolis"], x, 0.1).rows, whole.rows)


def test_mixing_draws_honest_rows_together_and_undoes_what_one_far_byzantine_agent_sends():
    network = topologies.Static(topologies.complete(AGENTS), weights=topologies.max_degree)
    x = rows()
    x[4] = 1e6
    messages = received(NNM(), network, x, 1 / AGENTS)
    honest = np.delete(np.arange(AGENTS), 4)
    np.testing.assert_allclose(messages.own[honest], np.tile(x[honest].mean(axis=0), (AGENTS - 1, 1)), atol=1e-9)


@every
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("size", [2, 3])
def test_bucketing_averages_random_messages_and_leaves_the_own_row(rule, name, size):
    x, schedule, b = rows(), NETWORKS[name], 0.1
    for round in range(2):
        expected = []
        for i, who, weights in neighbourhoods(schedule, round):
            rng = np.random.Generator(np.random.Philox(key=[7, i], counter=[0, 0, 2, round]))
            order = 1 + np.argsort(rng.random(len(who) - 1))
            buckets = [order[first : first + size] for first in range(0, len(order), size)]
            means = [np.average(x[who[few]], axis=0, weights=weights[few]) for few in buckets]
            total = np.array([weights[0], *(weights[few].sum() for few in buckets)])
            expected.append(aggregated(rule, total, np.array([x[i], *means]), size * b))
        found = mixed(rule(DGD(0.1), b, Bucketing(size, seed=7)), schedule, x, round)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_means_of_buckets_have_the_variance_of_samples_without_replacement(size):
    agents = 13  # of whom everyone hears twelve
    network, x = topologies.Static(topologies.complete(agents)), np.random.default_rng(0).random(agents)
    variances, orders = [], set()
    for round in range(400):
        messages = received(Bucketing(size), network, x[:, None], round=round)
        means = messages.rows[:, 0].reshape(agents, 12 // size)
        np.testing.assert_allclose(means.mean(axis=1), (x.sum() - x) / 12)
        np.testing.assert_allclose(messages.weights, size / agents)
        variances.append(means.var(axis=1))
        orders |= {tuple(row) for row in means}
    expected = np.array([np.delete(x, i).var() for i in range(agents)]) * (12 - size) / (size * 11)
    off = (np.mean(variances, axis=0) - expected) / (np.std(variances, axis=0) / 20)
    assert np.abs(off).max() < 4  # standard errors
    assert len(orders) > 0.95 * 400 * agents  # every agent and round has its own


def test_a_byzantine_agent_spoils_one_bucket():
    network, x = NETWORKS["equal weights"], rows()
    x[3] = np.nan
    messages = received(Bucketing(3), network, x)
    spoilt = np.bincount(messages.receivers, np.isnan(messages.rows[:, 0]) * messages.weights, minlength=AGENTS)
    assert spoilt.max() <= 3 * network.weights(0).toarray()[:, 3].max() * (1 + 1e-12)
    assert np.isfinite(mixed(CSPlus(DGD(0.1), 0.1, Bucketing(2)), network, x)[np.arange(AGENTS) != 3]).all()
    assert np.isfinite(mixed(CSPlus(DGD(0.1), 0.1, NNM()), network, x)[np.arange(AGENTS) != 3]).all()


@every
@pytest.mark.parametrize("before", [NNM(), Bucketing(2)], ids=repr)
def test_blocks_of_agents_and_agents_without_neighbours_are_as_ever(rule, before):
    x, lone = rows().astype(np.float32), topologies.Static(np.zeros((AGENTS, AGENTS)))
    robust = rule(DGD(0.1), 0.1, before)
    np.testing.assert_array_equal(mixed(robust, lone, x), x)
    assert mixed(robust, NETWORKS["metropolis"], x).dtype == np.float32
    nobody = mixed(rule(DGD(0.1), 0, before), NETWORKS["metropolis"], x)
    np.testing.assert_allclose(nobody, NETWORKS["metropolis"].weights(0) @ x, rtol=0, atol=1e-5)


def test_arguments_that_are_refused():
    for before in (NNM, "NNM", lambda messages: messages):
        with pytest.raises(TypeError, match=r"before must be a pre-aggregation, such as NNM\(\) or Bucketing\(2\); got"):
            CSPlus(DGD(0.1), 0.1, before)
    for size in (1, 2.5, None):
        with pytest.raises(ValueError, match=r"size of Bucketing must be a whole number >= 2; got"):
            Bucketing(size)
    with pytest.raises(ValueError, match=r"seed of Bucketing must be a whole number >= 0; got -1"):
        Bucketing(2, seed=-1)
    with pytest.raises(ValueError, match=r"byzantine_weight must be a finite number >= 0 and < 0.5; got 0.5"):
        NNA(DGD(0.1), 0.5, Bucketing(2))
    problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=AGENTS, parameters=1)
    network = topologies.Static(topologies.complete(AGENTS))
    for b in (0.23, 0.3):  # 11 / 12 are messages, and 4 b would be clipped
        with pytest.raises(
            ValueError, match=r"byzantine_weight must be below 0.2292, 1/4 of the weight of the neighbours of agent 0"
        ):
            consensus.solve(problem, network, Attack(CSPlus(DGD(0.1), b, Bucketing(2)), [1], lambda *_: None), rounds=1)
