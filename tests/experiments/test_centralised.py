"""With and without a server: what grows with the agents, who is first on which cluster, and what the paper says of it."""

import csv

import numpy as np
import pytest

import consensus
from consensus.centralized import solve
from consensus.costs import Cluster, Load, load
from experiments import centralised, paper
from experiments.shared import clusters
from experiments.shared.studies import Outcome

MACHINE_AN_AGENT = [name for name, served in centralised.WITH.items() if served.compute is None]


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    shards = consensus.partition(rng.standard_normal((30, 3)), rng.standard_normal(30), agents=6, seed=0)
    return consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), shards, consensus.L2(0.1))


@pytest.mark.parametrize("name", MACHINE_AN_AGENT)
def test_what_grows_with_the_agents_is_what_was_sent_with_as_many(problem, name, forked, monkeypatch):
    made = problem, centralised.cases.neighbours(6), {"test": (np.zeros((2, 3)), np.zeros((2, 1)))}
    monkeypatch.setattr(centralised, "case", lambda *_: made)
    outcome = Outcome(*centralised.with_server(centralised.WITH[name].system, 0, "", 6, 3), made=lambda: made)
    until = centralised.busiest(name, outcome, -1)
    same = centralised.scaled(name, until, 6, problem.parameters, 8)
    np.testing.assert_array_equal(same.bytes, until.bytes)
    np.testing.assert_array_equal(same.adds, until.adds)
    more = centralised.scaled(name, until, 60, problem.parameters, 8)
    np.testing.assert_array_equal(more.bytes, 10 * until.bytes)
    np.testing.assert_array_equal(more.flops, until.flops)


def test_all_that_get_to_the_level_are_on_the_maps_and_without_a_server_their_load_stays(problem):
    made, outcomes = (problem, centralised.cases.neighbours(6), {}), {}
    for name, solver in centralised.WITHOUT.items():
        run = consensus.solve(*made[:2], solver, rounds=5)
        outcomes[name] = Outcome(run.history, run.w, made=lambda: made)
    level = min(outcome.history["objective"].min() for outcome in outcomes.values())
    (first,) = centralised.loads(outcomes, level)
    assert outcomes[first].history["objective"].min() == level
    assert centralised.loads(outcomes, 0.0) == {}
    there = centralised.loads(outcomes, np.inf)
    assert list(there) == list(centralised.WITHOUT)
    for name, until in there.items():
        assert centralised.scaled(name, until, 1000, problem.parameters, 8) is until


def test_a_tree_has_a_level_more_for_twice_the_agents(problem, forked):
    history = solve(problem, centralised.WITH["map-reduce"].system, rounds=3).history
    until = load(history, problem)
    for agents, levels in ((2, 1), (4, 2), (1024, 10)):
        found = centralised.scaled("map-reduce", until, agents, problem.parameters, 8)
        np.testing.assert_array_equal(found.bytes, levels * history["bytes_busiest"])
        np.testing.assert_array_equal(found.exchanges, 2 * levels * history["exchanges"])


def test_who_sends_less_is_first_on_slow_links_and_who_waits_less_where_messages_take_long():
    chatty, heavy = (Load(np.array([many]), np.array([size]), np.array([0.0]), 1) for many, size in ((1e4, 1e3), (1.0, 1e8)))
    winner = clusters.first([chatty, heavy])
    # They are equal where latency (1e4 - 1) = (1e8 - 1e3) / bandwidth.
    expected = clusters.LATENCIES[None] * 9999 > (1e8 - 1e3) / clusters.BANDWIDTHS[:, None]
    np.testing.assert_array_equal(winner, expected)
    shares = clusters.table({20: winner, 1000: np.zeros_like(winner)}, ["chatty", "heavy"]).rows
    assert shares[-1] == (1000, "chatty", 1.0)
    assert sum(share for agents, _, share in shares if agents == 20) == pytest.approx(1)


def test_adding_takes_a_machine_its_time():
    idle = Load(np.array([0]), np.array([0]), np.array([0.0]), 1, np.array([5e8]))
    assert Cluster(0, 1, clusters.SPEED, 0, clusters.ADDS).seconds(idle)[0] == pytest.approx(5e8 / clusters.ADDS)


def test_the_paper_names_who_needed_the_least(tmp_path):
    header = ["method", "compute", "serve", *centralised.NEAR]
    rows = [
        ("NEXT, partial", 10, 0, 7, 50, 30),
        ("AdaptiveNEXT", 10, 0, 8, "inf", "inf"),
        ("FedAvg", 10, 1, "inf", "inf", "inf"),
    ]
    maps = [(20, "FedAvg", 0.75), (20, "NEXT, partial", 0.25), (1000, "FedAvg", 1.0), (1000000, "NEXT, partial", 1.0)]
    split = [(1, 10, 1.0), (2, 6, 1.67)]
    for name, columns, lines in (
        ("table", header, rows),
        ("clusters", ("agents", "first", "part of the map"), maps),
        ("passes", ("workers", "ms a pass", "speed-up"), split),
    ):
        with open(tmp_path / f"{name}.csv", "w", newline="") as file:
            csv.writer(file).writerows([columns, *lines])
    found = paper._served(tmp_path)
    assert found["centralised.epochs.without"] == r"NEXT, partial (7\,epochs)"
    assert found["centralised.MB.with"] == "nobody"
    assert (found["centralised.few"], found["centralised.few.first"]) == ("20", r"FedAvg (75\,\%); NEXT, partial (25\,\%)")
    assert found["centralised.most"] == "1,000,000"
    assert (found["centralised.workers"], found["centralised.gain"], found["centralised.agents"]) == (2, "1.67", "10")
