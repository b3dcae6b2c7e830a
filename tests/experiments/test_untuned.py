"""Solvers without settings against tuned rivals: what the ratios mean, and which rivals suit what."""

import functools

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import consensus
import topologies
from consensus.history import History
from consensus.problems import has_model
from consensus.solvers import DGD, Auto, ExactDiffusion
from consensus.studies import Grid
from experiments.untuned import __main__ as command
from experiments.untuned import cases, central, counting, drawn, rivals

INF = np.inf
PARTS = ["1%", "0.01%"]


def history(objective, exchanges, sent):
    made = History()
    for row in zip(objective, exchanges, sent, strict=True):
        made.append(dict(zip(("objective", "exchanges", "bytes"), row, strict=True)))
    return made


def needed(run, levels, most=INF, **options):
    found = counting.needed(run, dict(enumerate(levels)), most, options.get("stays", False))
    exchanges, sent = ([found[f"{what} to {k}"] for k in range(len(levels))] for what in ("exchanges", "bytes"))
    return exchanges, sent, found["lowest"], found["sent in full"]


def test_exchanges_and_bytes_are_those_of_the_first_row_at_a_level_within_the_budget():
    run = history([9.0, 5.0, np.nan, 2.0, 3.0, 1.0], [0, 2, 4, 6, 8, 12], [0, 20, 50, 90, 100, 200])
    assert needed(run, [5.0, 2.5, 1.0], 10) == ([2, 6, INF], [20, 90, INF], 2.0, 100.0)
    assert needed(run, [5.0], 12)[-1] == 200.0
    assert needed(run, [5.0], 13)[-1] == INF  # was stopped before: what it would have sent is not known


def test_a_run_that_leaves_a_level_again_is_there_when_it_stays():
    run = history([9.0, 1.0, 4.0, 2.0, np.nan, 2.0, 1.0], range(7), range(0, 70, 10))
    assert needed(run, [5.0, 3.0, 0.5], 6, stays=True)[:2] == ([5, 5, INF], [50, 50, INF])
    assert needed(run, [5.0, 3.0], 6)[0] == [1, 1]


def ran(rows):
    """What runs of solvers with settings need, of ``{(solver, setting): (exchanges, bytes)}``."""
    index = pd.MultiIndex.from_tuples(rows, names=["solver", "setting"])
    return pd.DataFrame([np.ravel(row) for row in rows.values()], index, counting.measures(PARTS), dtype=float)


def test_who_misses_is_counted_with_everything_and_comes_after_who_does_not():
    own = ran({("own", ""): ([10, INF], [40, INF])}).iloc[0]
    found = {("a", "1"): ([20, 50], [20, 60]), ("a", "2"): ([40, 40], [50, 50]), ("b", "1"): ([INF, INF], [INF, INF])}
    values, names = counting.over_best(own, ran(found), PARTS, [1000, 3000.0], [80, 10.0])
    np.testing.assert_allclose(values, [0.5, 1000 / 40, 2.0, 3000 / 50], rtol=1e-15)
    assert names.tolist() == ["a"] * 4
    values, names = counting.over_best(own, ran({("b", "1"): ([INF, INF], [INF, INF])}), PARTS, [1000, 3000.0], [80, 10.0])
    np.testing.assert_allclose(values, [10 / 80, 1000 / 80, 40 / 10, 3000 / 10], rtol=1e-15)
    assert names.tolist() == ["none"] * 4


def test_a_run_that_diverges_counts_up_to_there(tmp_path):
    make = functools.partial(cases.in_float32, cases.QUICK["default"][0])
    results, counts = command.settled(make, {"DGD": DGD(1e30)}, {"1%": 1e-9, "0.01%": 1e-11}, 200, tmp_path, 1)
    assert (counts.loc["DGD", ""][counting.measures(PARTS)] == INF).all()
    assert 0 < results["DGD", ""].history["round"][-1] < 200
    double, network, _ = cases.in_float64(cases.QUICK["default"][0])
    assert 0 < counting.quiet(double, network, DGD(1e30), rounds=200, record_every=1)[0]["round"][-1] < 200


def test_runs_are_those_of_solve_at_all_settings_and_end_when_they_have_stayed(tmp_path):
    make = functools.partial(cases.in_float32, cases.Case("ridge", "path", 4))
    problem, network, start = make()
    goals = counting.levels(problem.objective(start), central.least(problem, start), (0.1, 0.01))
    grid = Grid(ExactDiffusion, step_size=[0.01, 0.02])
    results, counts = command.settled(make, {"ExactDiffusion": grid}, goals, 60, tmp_path, 1)
    assert len(results) > 3  # the grid grew
    for (_, setting), result in results.items():
        solver = rivals.at(grid, setting)
        assert repr(solver) == result.solver
        objective = result.history["objective"]
        whole = counting.quiet(problem, network, solver, start=start, rounds=60, record_every=1)[0]["objective"]
        np.testing.assert_array_equal(objective, whole[: len(objective)])
        there, lost = (objective[-10:] <= goals["1%"]).sum() == 10, objective[-1] > 1e3 * objective[0]
        assert len(objective) == 61 or there or lost
    assert counts["exchanges to 1%"].min() <= 50


@pytest.mark.parametrize("case", [case for case in cases.GOSSIP if case.data != "wine"], ids=str)
def test_float32_problems_are_the_same_in_half_the_bytes_with_few_bits_on_static_networks_only(case):
    double, single, network, start = cases.make(case)
    assert (double.dtype, single.dtype) == (np.float64, np.float32)
    assert network.agents == case.agents
    np.testing.assert_allclose(single.objective(start.astype(np.float32)), double.objective(start), rtol=1e-6)
    static = case.network in ("star", "small world", "torus", "ring", "random graph", "path")
    assert len(rivals.of_gossip_in_few_bits(single, network, "cta")) == (3 if static else 0)
    assert ("SONATA" in rivals.of_gossip(single, network)) == (case.network == "lossy directed")


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
    grids = {name: solver for name, solver in found["float"].items() if isinstance(solver, Grid)}
    settings = {name: [grid.shown(grid.points()[0])] for name, grid in grids.items()}
    short = rivals.of_default_in_4_bits(single, schedule, 1.0, found["float"], settings)
    assert set(found["untuned"]) == untuned
    assert {name.rsplit(", step", 1)[0].rsplit(", tau", 1)[0] for name in short} == bits
    for name, solver in found["float"].items():
        made = solver.solver(solver.points()[0]) if name in grids else solver
        assert type(made).__name__ in {"NEXT", "SONATA", "PushDIGing", "GradientTracking", "EXTRA", "ExactDiffusion",
                                       "NIDS", "PGEXTRA", "KGT", "AutoGT"}  # fmt: skip


def test_grids_end_at_their_bounds_and_settings_in_words_are_those_of_the_grid():
    grid = rivals.of_default(*cases.make(cases.Case("ridge", "path", 6))[1:3], 4.0)["float"]["NEXT, partial"]
    point = (3.16228e-3, 0.5)
    assert rivals.at(grid, grid.shown(point)) == grid.solver(point)
    tried = [(tau, step) for tau in (1e-6, 3.16228e-6) for step in (2**-4, 2**-3)]
    assert set(grid.beside((1e-6, 2**-4), tried)) == {(1e-6, 2**-3), (3.16228e-6, 2**-4)}


def test_the_least_objective_and_the_curvature_are_those_of_formulas():
    double, _, _, start = cases.make(cases.Case("quadratic", "path", 4, 1e3))
    H = np.array([[double.gradient(np.tile(e, (4, 1))) - double.gradient(np.zeros((4, 6)))] for e in np.eye(6)])[:, 0]
    H = H.transpose(1, 0, 2)  # of the agents' costs, which are quadratics
    w = np.linalg.solve(H.sum(axis=0), -double.total_gradient(np.zeros(6)))
    assert central.least(double, start) == pytest.approx(double.objective(w), rel=1e-9)
    assert central.lipschitz(double, start) == pytest.approx(4 * np.linalg.norm(H, 2, axis=(1, 2)).max(), rel=1e-3)
    lasso, *_ = cases.make(cases.Case("lasso", "path", 4))
    zero = np.zeros(lasso.parameters)
    low = central.least(lasso, zero)
    within = consensus.solve(lasso, topologies.complete(4), consensus.solvers.NIDS(), rounds=300)
    assert low == pytest.approx(lasso.objective(within.mean), rel=1e-6)


@pytest.mark.slow
def test_the_quick_version_has_all_tables_and_runs_nothing_twice(capsys, tmp_path):
    arguments = ["--quick", "--cases", "1", "--workers", "1", "--output", str(tmp_path)]
    command.main(["gossip", *arguments])
    printed = capsys.readouterr().out
    titles = ("Over the best rival that sends float32", "4 or 6 bits", "all rivals missed")
    for text in (*titles, "| geometric mean", "NEXT"):
        assert text in printed
    assert "TreeLBFGS" not in printed
    done = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    command.main(["gossip", *arguments])
    assert capsys.readouterr().out == printed
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")} == done
    command.main(["trees", *arguments])
    assert "('geometric mean', 'TreeNewton')" in capsys.readouterr().out


@pytest.mark.slow
def test_the_quick_version_compares_the_default(capsys, tmp_path):
    command.main(["default", "--quick", "--workers", "1", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    for text in ("exchanges to 1%, 4 bits", "| AdaptiveNEXT", "| bytes to 0.01%, untuned", "within 1.5"):
        assert text in printed
    assert "TreeLBFGS" not in printed


def test_drawn_problems_are_those_of_their_number_and_of_all_kinds():
    some = [drawn.problem_of(3, number) for number in range(12)]
    for number, (problem, network, start) in enumerate(some):
        again, same, _ = drawn.problem_of(3, number)
        assert np.array_equal(again.shards.features, problem.shards.features)
        assert same == network
        assert topologies.spectral_gap(network.weights(network.key(0))) > 0
        assert problem.strong_convexity().min() > 0 or problem.regularizer.weight > 0
        assert 6 <= problem.agents <= 52
        assert start.shape == (problem.parameters,)
    assert len({str(problem.loss) for problem, *_ in some}) == 3
    for kind in drawn.KINDS:
        found = drawn.graph(kind, 12, np.random.default_rng(0))
        assert len(found) >= 10
        assert nx.is_connected(found)


def test_the_table_of_drawn_problems_counts_what_the_default_takes(monkeypatch, tmp_path):
    """Each method has the exchanges that the test says, so that ratios are known by hand."""
    counts = {"Auto": [10, 60], "EXTRA": [20, 30], "NIDS": [8, INF], "OPAPC": [INF, INF]}

    def settled(make, solvers, goals, most, folder, workers):
        problem, network, _ = make()
        result = consensus.solve(problem, network, Auto(), rounds=1)
        results = {(name, ""): type("Result", (), {"solver": repr(result.solver)}) for name in solvers}
        return pd.Series(results), ran({(name, ""): (counts[name], counts[name]) for name in solvers})

    monkeypatch.setattr(command, "settled", settled)

    def last_row(count):
        return command.drawn([(5, number) for number in range(count)], 800, tmp_path, 1)["Drawn"].loc["all"]

    np.testing.assert_allclose(last_row(3), [6, np.sqrt(10 / 8 * 2), 0.0, 2.0])
    counts["NIDS"] = [INF, INF]
    counts["EXTRA"] = counts["Auto"] = [5, INF]
    assert last_row(2).tolist() == [2, 1.0, 1.0, 1.0]  # who does not get there, and none does, is no run


def test_the_command_prints_drawn_problems(capsys, tmp_path):
    command.main(["drawn", "--cases", "1", "--seed", "5", "--quick", "--workers", "1", "--output", str(tmp_path)])
    assert "| all" in capsys.readouterr().out
