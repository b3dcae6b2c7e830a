"""Attacks: what Byzantine agents send, to whom, and its effect with and without robust mixing."""

import functools
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from byzantine import AGENTS, BYZANTINE, NETWORKS, RULES, mixed, rows
from ranks_on_threads import assert_bits_of_one_process

import consensus
import topologies
from consensus.engines import Processes, StackedNetwork
from consensus.robust import ALIE, IPM, NNM, Attack, CSPlus, Dissensus, SignFlip, flip_labels
from consensus.solvers import DGD, PushPull

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
        with pytest.raises(TypeError, match=r"byzantine must be agents' numbers, such as \[2, 5\]; got"):
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

THREE = (2, 11, 17)
OTHERS = np.setdiff1d(np.arange(20), THREE)
ATTACKS = {"sign flip": SignFlip(), "ALIE": ALIE(), "IPM": IPM(), "dissensus": Dissensus(), "label flip": None}


@functools.cache
def case(flipped=False, scheme="iid"):
    """Least squares on a random graph: the problem, the network, and the weight of three Byzantine agents."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 10))
    y = X @ rng.standard_normal(10) + rng.standard_normal(600)
    shards = consensus.partition(X, y, agents=20, scheme=scheme)
    shards = flip_labels(shards, THREE) if flipped else shards
    problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.01))
    graph = topologies.erdos_renyi(20, 0.7, seed=0)
    return problem, topologies.Static(graph, weights=topologies.max_degree), 3 / (1 + max(dict(graph.degree).values()))


def honest_optimum(scheme="iid"):
    """The minimum of the honest agents' own objective, by the normal equations on their data; and that objective."""
    shards = case(scheme=scheme)[0].shards.restrict(OTHERS)
    real = shards.weights > 0
    X, y = np.pad(shards.features[real], ((0, 0), (0, 1)), constant_values=1), shards.targets[real][:, 0]

    def objective(w):
        return np.mean((X @ w - y) ** 2) / 2 + 0.005 * w @ w

    return objective(np.linalg.solve(X.T @ X / len(X) + 0.01 * np.eye(11), X.T @ y / len(X))), objective


def excess(attack, rule, scheme="iid"):
    """The honest agents' objective above its minimum, at their own copies, on average; relative to the minimum."""
    problem, network, weight = case(attack == "label flip", scheme)
    solver = DGD(0.05) if rule is None else rule(DGD(0.05), weight)
    if ATTACKS[attack]:
        solver = Attack(solver, THREE, ATTACKS[attack])
    least, objective = honest_optimum(scheme)
    result = consensus.solve(problem, network, solver, rounds=150, record_every=150, start=np.zeros(11))
    return np.mean([objective(result.w[i]) for i in OTHERS]) / least - 1


@pytest.mark.parametrize("attack", ATTACKS)
def test_with_three_byzantine_agents_of_twenty_robust_methods_stay_within_a_twentieth_of_the_honest_optimum(attack):
    found = {rule.__name__: excess(attack, rule) for rule in RULES}
    assert max(found.values()) < 0.05, found
    if attack != "ALIE":  # which hides in a spread that is small where shards are alike
        assert excess(attack, None) > 0.05


@pytest.mark.parametrize("rule", RULES)
def test_where_agents_data_differ_alie_costs_robust_rules_more_than_plain_mixing_and_cruder_attacks_little(rule):
    """What docs/robust.md says of sorted shards, here of other targets at each agent."""
    mixed_first = functools.partial(rule, before=NNM())
    assert min(excess("ALIE", one, "sorted") for one in (rule, mixed_first)) > excess("ALIE", None, "sorted")
    for attack in ("sign flip", "IPM", "dissensus"):
        assert excess(attack, mixed_first, "sorted") < 0.1 < 3 < excess(attack, None, "sorted")


# Histories of runs with Byzantine agents ------------------------------------------------------------------------------


def honest_problem():
    """The problem of the honest agents alone: of shards of one size, so that A/H sum_i g_i is the mean over their samples."""
    shards = case()[0].shards.restrict(OTHERS)
    own = consensus.partition(shards.features.reshape(-1, 10), shards.targets.reshape(-1), agents=17)
    return consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), own, consensus.L2(0.01))


@pytest.mark.parametrize("way", ["attack", "told", "processes"])
def test_what_is_measured_is_of_the_honest_agents(way):
    problem, network, weight = case(flipped=way == "told")
    solver, seen = CSPlus(DGD(0.05), weight), []
    more = {"honest": OTHERS[::-1]} if way == "told" else {"engine": Processes(3)} if way == "processes" else {}
    if way != "told":
        solver = Attack(solver, THREE, SignFlip())
    X, y = np.random.default_rng(3).standard_normal((9, 10)), np.arange(9.0)
    result = consensus.solve(
        problem, network, solver, rounds=5, test=(X, y), metrics={"norm": np.linalg.norm}, agent_objectives=True,
        callbacks=[lambda row: seen.append(row.mean)], **more,
    )  # fmt: skip
    own, last, theirs = result.w[OTHERS], result.history.last(), honest_problem()
    mean, objective = own.mean(axis=0), honest_optimum()[1]
    for found in (result.mean, seen[-1]):
        np.testing.assert_allclose(found, mean, rtol=1e-12)
    expected = {
        "objective": objective(mean),
        "stationarity": np.linalg.norm(theirs.gradient(np.tile(mean, (17, 1))).sum(axis=0) + 0.01 * mean),
        "disagreement": np.sqrt(np.square(own - mean).sum(axis=1).mean()),
        "test_error": np.square(X @ mean[:-1] + mean[-1] - y).mean(),
        "test_error_worst": np.square(own[:, :-1] @ X.T + own[:, -1:] - y).mean(axis=1).max(),
        "norm": np.linalg.norm(mean),
        "agent_objective": [objective(w) for w in own],
    }
    for name, value in expected.items():
        if name == "stationarity":  # prox of the regularizer at w - grad G: w - prox(w - g) = (g + 0.01 w) / 1.01
            value = value / 1.01
        np.testing.assert_allclose(last[name], value, rtol=1e-10, err_msg=name)
    np.testing.assert_array_equal(result.honest, OTHERS)
    assert last["messages"] == 5 * 2 * network.graph(0).number_of_edges()  # all that are sent


def test_a_solvers_own_columns_are_of_the_honest_agents_and_a_file_keeps_who_they_are(tmp_path):
    class Rows(DGD):
        history_columns: ClassVar = {"first": np.max}

        def report(self, state):
            return np.arange(20.0)[:, None]

    problem, network, weight = case()
    result = consensus.solve(problem, network, Attack(CSPlus(Rows(0.05), weight), [19, 18], SignFlip()), rounds=2)
    assert result.history["first"].tolist() == [17.0] * 3
    result.save(tmp_path / "run.npz")
    again = consensus.load(tmp_path / "run.npz")
    np.testing.assert_array_equal(again.honest, np.arange(18))
    np.testing.assert_array_equal(again.mean, result.mean)
    with pytest.raises(ValueError, match="all agents whose rows are here are Byzantine"):
        _ = replace(result, w=result.w[18:], honest=np.arange(0)).mean


def test_whom_a_run_measures_is_checked_and_known_to_its_checkpoint(tmp_path):
    problem, network, _ = case()
    for honest, kind in (([], TypeError), ("all", TypeError), ([0.5], TypeError), ([3, 3], ValueError), ([20], ValueError)):
        with pytest.raises(kind, match=r"honest must be (agents' numbers|different agents among 0 .. 19)"):
            consensus.solve(problem, network, DGD(0.05), rounds=1, honest=honest)
    options = {"rounds": 2, "checkpoint": tmp_path / "run"}
    consensus.solve(problem, network, DGD(0.05), honest=OTHERS, **options)
    with pytest.raises(ValueError, match=r"is a checkpoint of another run: honest"):
        consensus.solve(problem, network, DGD(0.05), resume=tmp_path / "run", rounds=3)
    assert consensus.solve(problem, network, DGD(0.05), rounds=1, honest=range(20)).honest is None


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("attack", [SignFlip(), ALIE(), Dissensus()], ids=repr)
def test_byzantine_agents_are_the_same_agents_wherever_blocks_begin(attack, size):
    problem, network, weight = case()
    assert_bits_of_one_process(problem, network, Attack(CSPlus(DGD(0.05), weight), THREE, attack), size, rounds=2)
