"""Robust aggregation: definitions agent by agent, attacks that it withstands, and that honest agents are what is measured."""

import warnings
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes, StackedNetwork
from consensus.robust import IPM, NNA, NNM, Attack, Bucketing, CSPlus, Dissensus, SignFlip
from consensus.solvers import DGD, SONATA, AdaptiveNEXT, Gossip, GradientTracking, PushPull
from consensus.surrogates import FullLinearization
from tests.helpers.byzantine import AGENTS, BYZANTINE, NETWORKS, RULES, aggregated, mixed, rows
from tests.helpers.three_of_twenty import OTHERS, THREE, case, honest_optimum
from tests.helpers.turns import in_turn, with_slow

every = pytest.mark.parametrize("rule", RULES)


def defined(rule, weights, x, b):
    """The papers' definitions, for one agent after the other."""
    heard = [np.flatnonzero(row) for row in weights]
    return np.array([aggregated(rule, weights[i, who], x[who], b, own=list(who).index(i)) for i, who in enumerate(heard)])


@every
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("b", [0.03, 0.1, 0.17, 0.3, 0.45])
def test_they_are_what_the_papers_define(rule, name, b):
    x, schedule = rows(), NETWORKS[name]
    for round in range(2):
        expected = defined(rule, schedule.weights(schedule.key(round)).toarray(), x, b)
        np.testing.assert_allclose(mixed(rule(DGD(0.1), b), schedule, x, round), expected, rtol=0, atol=1e-12)
        assert b < 0.3 or not np.allclose(expected, schedule.weights(schedule.key(round)) @ x, atol=1e-3)


def test_nearest_neighbours_on_a_complete_graph_are_the_mean_of_the_nearest():
    x, network = rows(), topologies.Static(topologies.complete(AGENTS), weights=topologies.max_degree)
    nearest = [np.argsort(((x - own) ** 2).sum(axis=1))[: AGENTS - 3] for own in x]
    expected = [x[few].mean(axis=0) for few in nearest]
    np.testing.assert_allclose(mixed(NNA(DGD(0.1), 3 / AGENTS), network, x), expected, rtol=0, atol=1e-14)


def worst(scale, seed=0):
    """Attack by random rows, from beside the attacked agent up to ``scale`` away from it."""

    def attack(messages, marked):
        rng = np.random.default_rng(seed)
        away = rng.standard_normal((np.count_nonzero(marked), messages.rows.shape[1]))
        return messages.own[messages.receivers[marked]] + scale ** rng.uniform(-1, 1, (len(away), 1)) * away

    return attack


@pytest.mark.parametrize("seed", range(20))
def test_byzantine_agents_move_an_agent_by_no_more_than_the_honest_messages_that_are_clipped(seed):
    x, network = rows(seed=seed), NETWORKS["equal weights"]
    weights, honest = network.weights(0).toarray(), np.setdiff1d(np.arange(AGENTS), BYZANTINE)
    among = weights[:, honest]
    b = weights[:, BYZANTINE][honest].sum(axis=1).max()
    found = mixed(Attack(CSPlus(DGD(0.1), b), BYZANTINE, worst(10.0, seed)), network, x)
    attacked = mixed(Attack(NNA(DGD(0.1), b), BYZANTINE, worst(10.0, seed)), network, x)
    bounds = []
    for i in honest:
        d = np.linalg.norm(x[honest] - x[i], axis=1)
        error = np.linalg.norm(found[i] - x[i] - among[i] @ (x[honest] - x[i]))
        order = np.argsort(-d)  # no more than the farthest honest weight 2b is clipped
        share = np.clip(2 * b - (among[i][order].cumsum() - among[i][order]), 0, among[i][order])
        bounds.append(error / (share @ d[order]))
        assert np.linalg.norm(attacked[i] - x[i]) <= (1 + 1e-12) * d[among[i] > 0].max()
    assert max(bounds) <= 1 + 1e-12
    assert max(bounds) > 0.2


def averaged(rule, attack, rounds=300, before=None, byzantine=(0, 9, 20)):
    """The honest rows (honest, P) of 28 agents after some exchanges under attack, and how far apart they were."""
    network = topologies.Static(topologies.random_regular(28, 16, seed=0), weights=topologies.max_degree)
    x = np.random.default_rng(3).standard_normal((28, 4))
    solver = Attack(DGD(0.1) if rule is None else rule(DGD(0.1), len(byzantine) / 17, before), byzantine, attack)
    away = [k for k in range(28) if k not in solver.byzantine]
    mean, spread = x[away].mean(axis=0), x[away].std(axis=0)
    for _ in range(rounds):
        x = mixed(solver, network, x)
    shift = np.linalg.norm(x[away].mean(axis=0) - mean) / np.linalg.norm(spread)
    return shift, np.linalg.norm(x[away].std(axis=0)) / np.linalg.norm(spread)


def far(messages, marked):
    return np.full((np.count_nonzero(marked), messages.rows.shape[1]), 100.0)


@pytest.mark.slow
@every
@pytest.mark.parametrize(
    ("before", "attack"), in_turn([None, NNM(), Bucketing(2)], [far, SignFlip(), IPM(), Dissensus(), worst(5.0)])
)
def test_honest_agents_agree_near_their_mean_under_attack(rule, attack, before):
    shift, spread = averaged(rule, attack, before=before, byzantine=(0, 9) if before == Bucketing(2) else (0, 9, 20))
    assert spread < 1e-6
    assert shift < 1


def test_plain_mixing_follows_byzantine_agents():
    assert averaged(None, far)[0] > 50
    assert averaged(None, Dissensus(2.0), rounds=20)[1] > 10


@every
def test_rows_that_are_no_numbers_are_as_far_as_can_be(rule):
    x, network = rows(), NETWORKS["equal weights"]
    solver = rule(DGD(0.1), 0.2)
    huge = mixed(Attack(solver, [3], lambda messages, marked: np.full((marked.sum(), 5), 1e100)), network, x)
    for value in (np.nan, np.inf, -np.inf, 1e200):
        found = mixed(Attack(solver, [3], lambda messages, marked, v=value: np.full((marked.sum(), 5), v)), network, x)
        assert np.isfinite(found).all()
        if rule is NNA:
            np.testing.assert_array_equal(found, huge)


@every
@pytest.mark.parametrize("before", [None, NNM()])
def test_equal_messages_are_divided_by_no_distance(rule, before):
    x, schedule, solver = rows(), NETWORKS["equal weights"], rule(DGD(0.1), 0.2, before)
    x[1:] = x[0]
    with np.errstate(all="raise"):
        (found,) = solver.around(StackedNetwork(schedule, x.dtype)).mix(0, x)
    np.testing.assert_array_equal(found, mixed(solver, schedule, x))


@every
def test_arguments_that_are_refused(rule):
    for byzantine_weight in (-0.1, 1.0, np.nan, "some", None):
        with pytest.raises(ValueError, match=r"byzantine_weight must be a finite number >= 0 and < 1; got"):
            rule(DGD(0.1), byzantine_weight)
    with pytest.raises(TypeError, match=r"solver must be a Solver"):
        rule("DGD", 0.1)
    with pytest.raises(TypeError, match=r"AdaptiveNEXT finds its exchanges by itself"):
        rule(AdaptiveNEXT(), 0.1)
    for pushing in (SONATA(FullLinearization(1.0), 0.1), PushPull(0.1)):
        with pytest.raises(TypeError, match=rf"solver of {rule.__name__} must be one for doubly stochastic matrices"):
            rule(pushing, 0.1)
    robust, name = rule(DGD(0.1), 0.1), rule.__name__
    for outer in (Gossip, CSPlus):
        said = rf"cannot be {name}, which takes messages one by one: {name}\({outer.__name__}\(...\), ...\)"
        with pytest.raises(TypeError, match=said):
            outer(robust, 0)
    with pytest.raises(TypeError, match=rf"solver of {name} cannot be Attack"):
        rule(Attack(DGD(0.1), [1], SignFlip()), 0.1)


def squares():
    return consensus.Problem.from_functions(
        lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=AGENTS, parameters=5, regularizer=consensus.L2(0.1)
    )


@every
def test_who_tolerates_more_than_an_agent_hears_is_refused(rule):
    problem = squares()
    star = topologies.Static(topologies.star(AGENTS))  # all but the centre hear one agent, with a weight of 1 / 12
    most = 1 / 24 if rule is CSPlus else 1 / 12
    share = r"1/2 of the weight" if rule is CSPlus else "the weight"
    for byzantine_weight in (most, 0.5):
        with pytest.raises(
            ValueError, match=rf"byzantine_weight must be below {most:.4g}, {share} of the neighbours of agent 1"
        ):
            consensus.solve(problem, star, rule(DGD(0.1), byzantine_weight), rounds=1)
    assert problem.work.gradients == 0
    with pytest.warns(
        UserWarning, match=r"byzantine_weight=.* is less than one neighbour's weight: agent 0 gives agent 1 0.08333"
    ):
        consensus.solve(problem, star, rule(DGD(0.1), 0.99 * most), rounds=1)
    consensus.solve(problem, NETWORKS["changing"], rule(GradientTracking(0.1), 0.5), rounds=3)  # what is heard changes


@every
def test_a_weight_below_one_neighbours_is_warned_of_and_one_neighbours_is_not(rule):
    network = topologies.Static(topologies.complete(AGENTS))  # all weigh 1 / 12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for byzantine_weight in (0, 1 / 12, 3 / 12):
            consensus.solve(squares(), network, rule(DGD(0.01), byzantine_weight), rounds=1)
    with pytest.warns(
        UserWarning, match=r"byzantine_weight=0.08 is less than one neighbour's weight: agent 0 gives agent 1 0.08333"
    ):
        consensus.solve(squares(), network, rule(DGD(0.01), 0.08), rounds=1)


# What is measured are the honest agents.


HONEST = np.setdiff1d(np.arange(AGENTS), BYZANTINE)


def honest_problem():
    """The problem of the honest agents alone: of shards of one size, so that A/H sum_i g_i is the mean over their samples."""
    shards = case()[0].shards.restrict(OTHERS)
    own = consensus.partition(shards.features.reshape(-1, 10), shards.targets.reshape(-1), agents=17)
    return consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), own, consensus.L2(0.01))


@pytest.mark.parametrize("way", with_slow(["attack", "told", "processes"], "processes"))
def test_what_is_measured_is_of_the_honest_agents(way, forked):
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
    result = consensus.solve(
        problem, network, Attack(CSPlus(Rows(0.05), weight), [19, 18], SignFlip()), rounds=2, record_every=1
    )
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
