"""AdaptiveNEXT by gossip against tuned rivals: what the ratios mean, and that nothing that is cut short could have won."""

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.history import History
from consensus.problems import has_model
from consensus.solvers import DGD, ExactDiffusion
from experiments.untuned import __main__ as command
from experiments.untuned import cases, counting, default, drawn, gossip, rivals

CASE = cases.QUICK["gossip"][0]
INF = np.inf


def history(objective, exchanges, sent):
    made = History()
    for row in zip(objective, exchanges, sent, strict=True):
        made.append(dict(zip(("objective", "exchanges", "bytes"), row, strict=True)))
    return made


def outcome(exchanges, sent, total=INF, lowest=0.0):
    return counting.Outcome(np.array(exchanges, float), np.array(sent, float), lowest, total)


def test_exchanges_and_bytes_are_those_of_the_first_row_at_a_level_within_the_budget():
    run = history([9.0, 5.0, np.nan, 2.0, 3.0, 1.0], [0, 2, 4, 6, 8, 12], [0, 20, 50, 90, 100, 200])
    found = counting.measured(run, [5.0, 2.5, 1.0], 10)
    assert found.exchanges.tolist() == [2, 6, INF]
    assert found.bytes.tolist() == [20, 90, INF]
    assert (found.lowest, found.sent) == (2.0, 100.0)
    assert counting.measured(run, [5.0], 12).sent == 200.0
    assert counting.measured(run, [5.0], 13).sent == INF  # was stopped before: what it would have sent is not known


def test_a_run_that_leaves_a_level_again_is_there_when_it_stays():
    run = history([9.0, 1.0, 4.0, 2.0, np.nan, 2.0, 1.0], range(7), range(0, 70, 10))
    found = counting.measured(run, [5.0, 3.0, 0.5], 6, stays=True)
    assert found.exchanges.tolist() == [5, 5, INF]
    assert found.bytes.tolist() == [50, 50, INF]
    assert counting.measured(run, [5.0, 3.0], 6).exchanges.tolist() == [1, 1]


def test_who_misses_is_counted_with_all_exchanges_and_comes_after_who_does_not():
    own = outcome([10, 20, INF], [40, 80, INF], total=3000.0)
    found = {
        ("case", "a"): {(1.0,): outcome([20, 50, INF], [20, 60, INF], 500.0), (2.0,): outcome([40, 40, INF], [50, 50, INF])},
        ("case", "b"): {(1.0,): outcome([INF, INF, INF], [INF, INF, INF], 10.0)},
    }
    values, names = gossip.ratios(own, found, 1000)
    np.testing.assert_allclose(values, [[0.5, 0.5, 1.0], [2.0, 1.6, 300.0]], rtol=1e-15)
    assert names == ["a", "a", "none", "a", "a", "none"]
    found["case", "b"][2.0,] = outcome([INF, INF, 500], [INF, INF, 900])
    values, names = gossip.ratios(own, found, 1000)
    np.testing.assert_allclose(values[:, 2], [2.0, 3000 / 900], rtol=1e-15)
    assert names[2::3] == ["b", "b"]


def test_a_run_stops_when_it_cannot_be_better_at_any_level_and_goes_on_otherwise():
    stop = gossip.no_better(np.array([10, 50, INF]), [3.0, 2.0, 1.0])
    assert stop({"objective": 9.0, "exchanges": 900}) is None  # nobody reached the last level so far
    assert stop({"objective": 0.5, "exchanges": 901}) == "no better"  # it has reached all
    stop = gossip.no_better(np.array([10, 50, 90]), [3.0, 2.0, 1.0])
    assert stop({"objective": 2.5, "exchanges": 5}) is None
    assert stop({"objective": 2.5, "exchanges": 90}) is None
    assert stop({"objective": 2.5, "exchanges": 91}) == "no better"


def test_a_run_that_diverges_counts_up_to_there():
    double, single, network, start = cases.make(cases.QUICK["default"][0])
    goals = [0.0] * len(default.PARTS)
    found, _, solver = default.outcome(single, network, DGD(1e30), start, goals, 200)
    assert found.exchanges.tolist() == found.bytes.tolist() == [INF] * len(goals)
    assert solver == DGD(1e30)
    history, _ = counting.quiet(double, network, DGD(1e30), rounds=200, record_every=1)
    assert 0 < history["round"][-1] < 200


@pytest.mark.slow
def test_cutting_runs_short_changes_no_best_point():
    _, single, network, start = cases.trained(CASE)
    goals = gossip.adaptive(CASE, 60)[1]
    family = rivals.of_gossip(single, network)["tracking, combine then adapt"]
    assert isinstance(rivals.of_gossip(single, network)["ExactDiffusion"].make(1.0), ExactDiffusion)
    best = np.full(3, INF)
    for point in [(1.0,), (2.0,), (4.0,), (0.5,)]:
        solver = family.make(*point)
        whole, short = (
            counting.measured(gossip.history_of(single, network, solver, start, 200, stop), goals, 200)
            for stop in (None, gossip.no_better(best, goals))
        )
        np.testing.assert_array_equal(np.minimum(best, whole.exchanges), np.minimum(best, short.exchanges))
        best = np.minimum(best, short.exchanges)
    assert (best < 200).all()


@pytest.mark.parametrize("case", [case for case in cases.GOSSIP if case.data != "wine"], ids=str)
def test_float32_problems_are_the_same_in_half_the_bytes_with_few_bits_on_static_networks_only(case):
    double, single, network, start = cases.trained(case)
    assert (double.dtype, single.dtype) == (np.float64, np.float32)
    assert network.agents == case.agents
    np.testing.assert_allclose(single.objective(start.astype(np.float32)), double.objective(start), rtol=1e-6)
    static = case.network in ("star", "small world", "torus", "ring", "random graph", "path")
    assert len(rivals.of_gossip_in_few_bits(single, network, "cta")) == (3 if static else 0)


@pytest.mark.slow
def test_the_quick_version_has_all_tables(capsys):
    command.main(["gossip", "--quick"])
    printed = capsys.readouterr().out
    titles = ("Over the best rival that sends float32", "4 or 6 bits", "all rivals missed")
    for text in (*titles, "| geometric mean", "SONATA", "LEAD, 6 bits"):
        assert text in printed
    assert "TreeLBFGS" not in printed
    command.main(["trees", "--cases", "1"])
    assert "| geometric mean" in capsys.readouterr().out


def test_the_default_is_compared_with_the_best_rival_and_a_miss_counts_as_all_exchanges():
    own = outcome([10, INF], [40, INF], total=4000.0)
    found = {"a": {(): outcome([20, 30], [10, 300], 400.0)}, "b": {(1.0,): outcome([INF, INF], [INF, INF], 500.0)}}
    expected = {"exchanges": [(0.5, "a"), (400 / 30, "a")], "bytes": [(4.0, "a"), (4000 / 300, "a")]}
    for what, values in expected.items():
        for part, (value, name) in enumerate(values):
            assert default.ratio(own, (80, found), what, part, 400) == (pytest.approx(value, rel=1e-15), name)
    assert default.ratio(own, (80, {"b": found["b"]}), "exchanges", 0, 400) == (10 / 80, "none")
    assert default.ratio(own, (80, {"b": found["b"]}), "bytes", 0, 400) == (40 / 500, "none")
    assert default.ratio(own, (80, {"b": found["b"]}), "bytes", 1, 400) is None  # nobody gets there
    assert default.ratio(own, (80, {}), "bytes", 0, 400) is None


@pytest.mark.parametrize(("costs", "network", "untuned", "bits"), [
    ("ridge", "path", {"EXTRA", "NIDS", "OPAPC"}, {"NEXT, full", "NEXT, partial", "tracking, atc", "LEAD"}),
    ("lasso", "path", {"PGEXTRA", "NIDS"}, {"NEXT, full", "NEXT, partial"}),
    ("MLP", "path", set(), {"NEXT, full", "NEXT, partial", "tracking, atc", "LEAD"}),
    ("quartic", "path", set(), {"NEXT, full", "tracking, atc", "LEAD"}),
    ("ridge", "lossy", set(), set()),
    ("quadratic", "directed", set(), set()),
])  # fmt: skip
def test_rivals_suit_costs_and_network(costs, network, untuned, bits):
    double, single, schedule, start = cases.make(cases.Case(costs, network, 6))
    assert (single.dtype == np.float32) == has_model(double)
    assert single.objective(start.astype(single.dtype)) == pytest.approx(double.objective(start), rel=1e-6)
    found = rivals.of_default(single, schedule, 1.0)
    done = {name: {point: outcome([1, 2], [3, 4]) for point in family.start()[:1]} for name, family in found["float"].items()}
    short = rivals.of_default_in_4_bits(single, schedule, 1.0, found["float"], done, default.merits)
    assert set(found["untuned"]) == untuned
    assert {name.rsplit(", ", 1)[0].rsplit(", tau", 1)[0] for name in short} == bits
    for family in found["float"].values():
        solver = family.make(*family.start()[0])
        assert type(solver).__name__ in {"NEXT", "SONATA", "PushDIGing", "GradientTracking", "EXTRA", "ExactDiffusion",
                                         "NIDS", "PGEXTRA", "KGT", "AutoGT"}  # fmt: skip


def test_the_least_objective_and_the_curvature_are_those_of_formulas():
    double, _, _, start = cases.make(cases.Case("quadratic", "path", 4, 1e3))
    H = np.array([[double.gradient(np.tile(e, (4, 1))) - double.gradient(np.zeros((4, 6)))] for e in np.eye(6)])[:, 0]
    H = H.transpose(1, 0, 2)  # of the agents' costs, which are quadratics
    w = np.linalg.solve(H.sum(axis=0), -double.total_gradient(np.zeros(6)))
    assert default.least(double, start) == pytest.approx(double.objective(w), rel=1e-9)
    assert default.lipschitz(double, start) == pytest.approx(4 * np.linalg.norm(H, 2, axis=(1, 2)).max(), rel=1e-3)
    lasso, *_ = cases.make(cases.Case("lasso", "path", 4))
    zero = np.zeros(lasso.parameters)
    low = default.least(lasso, zero)
    within = consensus.solve(lasso, topologies.complete(4), consensus.solvers.NIDS(), rounds=300)
    assert low == pytest.approx(lasso.objective(within.mean), rel=1e-6)


@pytest.mark.slow
def test_the_quick_version_compares_the_default(capsys):
    command.main(["default", "--quick"])
    printed = capsys.readouterr().out
    for text in ("exchanges to 1.00%, 4 bits", "| AdaptiveNEXT", "| bytes to 0.01%, untuned", "within 1.5"):
        assert text in printed
    assert "TreeLBFGS" not in printed


def test_drawn_problems_are_those_of_their_number_and_of_all_kinds():
    some = [drawn.drawn(3, number) for number in range(12)]
    for number, (problem, network) in enumerate(some):
        again, same = drawn.drawn(3, number)
        assert np.array_equal(again.shards.features, problem.shards.features)
        assert same == network
        assert topologies.spectral_gap(network.weights(network.key(0))) > 0
        assert problem.strong_convexity().min() > 0 or problem.regularizer.weight > 0
        assert 6 <= problem.agents <= 52
    assert len({str(problem.loss) for problem, _ in some}) == 3
    for kind in drawn.KINDS:
        found = drawn.graph(kind, 12, np.random.default_rng(0))
        assert len(found) >= 10
        assert nx.is_connected(found)


def test_the_table_of_drawn_problems_counts_what_the_default_takes(monkeypatch):
    """Each method has the exchanges that the test says, so that ratios are known by hand."""
    counts = {"Auto": [10, 60], "EXTRA": [20, 30], "NIDS": [8, INF], "OPAPC": [INF, INF]}

    def outcome_of(problem, network, solver, start, goals, most):
        ran = solver.prepared(problem, network) if type(solver).__name__ == "Auto" else solver
        return outcome(counts[type(solver).__name__], [1, 1]), 1.0, ran

    monkeypatch.setattr(drawn, "outcome", outcome_of)
    table = drawn.run(3, 5)
    assert tuple(table.rows[-1][:2]) == ("all", 6)
    np.testing.assert_allclose(table.rows[-1][2:], [np.sqrt(10 / 8 * 2), 0.0, 2.0])
    counts["NIDS"] = [INF, INF]
    counts["EXTRA"] = counts["Auto"] = [5, INF]
    assert tuple(drawn.run(2, 5).rows[-1])[1:] == (2, 1.0, 1.0, 1.0)  # who does not get there, and none does, is no run


def test_the_command_prints_drawn_problems(capsys):
    command.main(["drawn", "--cases", "1", "--seed", "5", "--quick"])
    assert "| all" in capsys.readouterr().out
