"""Studies, tiny: their problems are what they say, and their tables have a row for every method."""

import argparse
import re
from functools import partial

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from scipy.optimize import minimize

import consensus
import topologies
from consensus.solvers import DGD, AdaptiveNEXT, AggregativeGT
from consensus.studies import Grid
from experiments import (
    compression,
    graphs,
    heterogeneity,
    language,
    merging,
    moving_target,
    personal,
    robots,
    stochastic,
    stragglers,
    tolerance,
)
from experiments.shared import slowed


def test_its_shards_are_alike_or_of_few_classes():
    largest = {}
    for concentration in heterogeneity.CONCENTRATIONS:
        problem, network, _ = heterogeneity.case(0, concentration)
        shards = problem.shards
        assert shards.agents == network.agents == 16
        counts = [np.bincount(shards.targets[k, :n, 0].astype(int), minlength=10) for k, n in enumerate(shards.sizes)]
        largest[concentration] = np.mean([np.sort(row)[-2:].sum() / row.sum() for row in counts])
    assert largest[100.0] < 0.35  # of two classes
    assert largest[0.05] > 0.8


@pytest.mark.slow
def test_a_tiny_version_has_a_row_for_every_method(tmp_path):
    found = heterogeneity.study(tmp_path, rounds=2, seeds=1, concentrations=[0.05]).run()
    shown = found.table().to_markdown()
    assert all(name in shown for name in heterogeneity.solvers())


# The merge of models: agents with few classes each err more than the mean of their models.


@pytest.mark.slow
def test_the_mean_of_the_models_errs_less_than_the_worst_of_them(monkeypatch):
    monkeypatch.setattr(merging, "SAMPLES", 1500)
    try:
        problem, network, options = merging.case(0, 0.05)
    except OSError as error:
        pytest.skip(f"MNIST cannot be fetched here: {error}")
    run = consensus.solve(problem, network, DGD(0.1, batch=16), rounds=100, **options)
    assert merging.error_of_the_mean(run) < merging.error_of_the_worst_agent(run) - 0.2


# Robots: the study's problem has the minimiser that CVXPY finds; a tiny study.


def test_robots_come_to_the_minimiser_of_all():
    problem, network, options = robots.case(0, "complete")
    intruders = -problem.gradients(np.zeros((robots.ROBOTS, 2)), np.zeros((robots.ROBOTS, 2)))[0]
    x = cp.Variable(intruders.shape)
    barycentre = cp.sum(x, axis=0) / robots.ROBOTS
    cost = (cp.sum_squares(x - intruders) + 4 * robots.ROBOTS * cp.sum_squares(barycentre)) / 2
    central = cp.Problem(cp.Minimize(cost), [cp.abs(x) <= 4])
    central.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    result = consensus.solve(problem, network, AggregativeGT(0.15), rounds=200, **{**options, "record_every": 200})
    np.testing.assert_allclose(result.w, x.value, atol=1e-5)
    assert result.history["objective"][-1] == pytest.approx(central.value, rel=1e-9)
    assert np.abs(x.value).max() > 3.99  # some of them reach the edge


@pytest.mark.slow
def test_robots_have_a_row_for_every_method(tmp_path):
    for measure in robots.MEASURES:
        found = robots.study(tmp_path, measure, rounds=30, seeds=2, tuning_seeds=1, graphs=["complete"]).run()
        assert all(name in found.table().to_markdown() for name in robots.solvers())
    assert len(robots.figure(found).axes) == 1


# The study of what solvers tolerate: its table, and its conditions.


def test_each_network_is_what_its_name_says():
    networks = {name: tolerance.case(0, name)[1] for name in tolerance.NETWORKS}
    kinds = [topologies.Static, topologies.LinkFailure, topologies.GilbertElliott, topologies.RandomActivation]
    assert list(map(type, networks.values())) == kinds
    whole = networks["as it is"].weights(0)
    for network in networks.values():
        matrix = network.weights(network.key(3)).toarray()
        np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=1e-12)
        assert not matrix[whole.toarray() == 0].any()


@pytest.mark.slow
def test_a_tiny_version_has_a_row_for_each_solver_and_dashes_where_one_cannot_be_wrapped(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tolerance, "EXCHANGES", 4)
    monkeypatch.setattr(tolerance, "SOLVERS", {name: tolerance.SOLVERS[name] for name in ("DGD", "EXTRA", "AdaptiveNEXT")})
    tolerance.main(["--seeds", "1", "--workers", "1", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    rows = {cells[0].strip(): cells[1:] for line in printed.splitlines() if (cells := line.split("|")[1:-1])}
    assert {"DGD", "EXTRA", "AdaptiveNEXT"} <= set(rows)
    assert [cell.strip() for cell in rows["AdaptiveNEXT"][-2:]] == ["–", "–"]
    assert len(rows["DGD"]) == len(tolerance.NETWORKS) + len(tolerance.NOISE)


# The moving target: minimisers and the best fixed point are those of the costs, regrets those by hand; a tiny study.


def test_its_minimisers_are_those_of_its_costs_and_the_fixed_point_is_the_best_in_hindsight():
    problem, _, _ = moving_target.case(0, 0.1)
    for round in (0, 7):
        moment = problem.at(round)
        gradient = moment.gradient(np.tile(moment.minimiser(), (problem.agents, 1))).sum(axis=0)
        np.testing.assert_allclose(gradient, 0, atol=1e-14)
    moments = [problem.at(round) for round in range(moving_target.ROUNDS + 1)]
    found = minimize(lambda w: sum(moment.objective(w) for moment in moments), np.zeros(problem.parameters), tol=1e-12)
    np.testing.assert_allclose(problem.comparator, found.x, atol=1e-6)


def test_regrets_a_round_are_those_by_hand():
    problem, network, options = moving_target.case(1, 0.1)
    visited = []
    result = consensus.solve(
        problem, network, DGD(0.4), rounds=5, callbacks=[lambda row: visited.append(row.w.mean(axis=0))], **options
    )
    moments = [problem.at(round) for round in range(6)]
    paid = [moment.objective(w) for moment, w in zip(moments, visited, strict=True)]
    own = np.mean([cost - moment.objective(moment.minimiser()) for cost, moment in zip(paid, moments, strict=True)])
    fixed = np.mean([cost - moment.objective(problem.comparator) for cost, moment in zip(paid, moments, strict=True)])
    np.testing.assert_allclose(moving_target.dynamic_regret_a_round(result), own, rtol=1e-12)
    np.testing.assert_allclose(moving_target.regret_a_round(result), fixed, rtol=1e-12)


@pytest.mark.slow
def test_a_tiny_version_has_a_row_for_every_method_and_a_figure(tmp_path):
    found = moving_target.study(tmp_path, rounds=4, seeds=2, tuning_seeds=1).run()
    shown = found.table().to_markdown()
    assert all(name in shown for name in moving_target.solvers())
    assert len(moving_target.figure(found).axes) == len(moving_target.SPEEDS)


# Models of agents of several kinds: each kind calls the classes by names of its own; a tiny study.


def test_agents_of_each_kind_call_the_classes_by_other_names(monkeypatch):
    problem, _, options = personal.case(0, 15, agents=6)
    monkeypatch.setattr(personal, "KINDS", 1)
    alike, _, tested = personal.case(0, 15, agents=6)
    shift = np.arange(6)[:, None, None] % 3
    for ours, theirs, size in ((problem.shards, alike.shards, 15), (options["test"], tested["test"], personal.TESTED)):
        assert ours.sizes.tolist() == 6 * [size]
        np.testing.assert_array_equal(ours.features, theirs.features)
        np.testing.assert_array_equal(ours.targets, (theirs.targets + shift) % 10)


@pytest.mark.slow
def test_own_models_have_a_row_for_every_method_and_a_figure(tmp_path, capsys):
    personal.main(["--quick", "--rounds", "3", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    for name in (*personal.BY_STRENGTH, personal.ALONE, personal.ONE, personal.BODY):
        assert printed.count(f"| {name} ") == len(personal.COLUMNS)
    assert (tmp_path / "personal.png").stat().st_size > 10_000


# Compressed messages: every method is tuned, and has the start that it is measured by; a tiny study.


@pytest.mark.parametrize("compressor", compression.COMPRESSORS)
def test_every_method_is_tuned_and_lead_has_no_biased_messages(compressor):
    made = compression.solvers(compressor, 10)
    assert all(isinstance(solver, Grid) for solver in made.values())
    assert ("LEAD" in made) is (compressor == "4 bits")


@pytest.mark.slow
def test_a_tiny_version_has_a_row_for_every_method_at_every_level_and_four_figures(tmp_path, capsys):
    compression.main(["--quick", "--rounds", "3", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    for compressor in compression.COMPRESSORS:
        for name in compression.solvers(compressor, 3):
            assert f"| {name} " in printed
    for level in compression.LEVELS:
        assert printed.count(f"bytes to stationarity {level}: median [quartiles] of 1 seed") == len(compression.COMPRESSORS)
    assert len([path for path in (tmp_path / "compression").glob("*.png") if path.stat().st_size > 10_000]) == 4


# Graphs with few neighbours: they are what their page says; the figure's curves end at the table's values; a tiny study.


def test_each_graph_has_as_many_neighbours_in_a_round_as_its_page_says():
    made = graphs.networks(25, 0)
    few = {
        name: max(degree for round in range(30) for _, degree in nx.DiGraph(schedule.graph(round)).out_degree())
        for name, schedule in made.items()
    }
    assert few == {**dict.fromkeys(made, 1), "ring": 2, "exponential": 10, "base-3": 2}
    assert (made["base-2"].period, made["base-3"].period) == (9, 6)


@pytest.mark.slow
def test_a_tiny_version_has_a_row_for_every_graph_and_a_figure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(graphs, "DATA", "digits")
    graphs.main(["--quick", "--rounds", "3", "--seeds", "2", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    assert all(printed.count(f"| {name} ") == 3 for name in graphs.networks(6, 0))  # of the errors, the grids and the ends
    assert (tmp_path / "graphs" / "figure.png").stat().st_size > 10_000
    study = graphs.study(tmp_path / "graphs", 6, 3, 2)
    errors = study.values()["value"].groupby("network").quantile([0.25, 0.5, 0.75])
    for name, columns in graphs.quartiles(study).items():
        np.testing.assert_allclose(columns[graphs.ERROR][:, -1], errors[name], rtol=1e-12)
    ring, problem = graphs.quartiles(study)["ring"], study.case(0, "ring")[0]
    sent = (
        3 * 2 * 8 * problem.parameters
    )  # in three rounds to two neighbours; as much is received, and added at a quarter of the speed
    np.testing.assert_allclose(ring["bytes"][:, -1], 6 * sent, rtol=1e-12)
    samples = (
        3 * 32 * problem.shards.sizes.max() / problem.shards.sizes.mean()
    )  # of the largest shard, as many passes as on average
    seconds = 3 * 1e-2 + 2 * sent / 1e8 + (6 * samples * problem.parameters + 4 * sent / 8) / 1e10
    np.testing.assert_allclose(ring["seconds"][:, -1], seconds, rtol=1e-12)


# Batches: every rival of AdaptiveNEXT is tuned; a tiny study.


@pytest.mark.parametrize("kind", stochastic.KINDS)
def test_every_rival_of_adaptive_next_is_tuned(kind):
    assert all(isinstance(solver, Grid | AdaptiveNEXT) for solver in stochastic.solvers(kind, 10).values())


@pytest.mark.slow
def test_batches_have_a_row_for_every_method_by_every_measure_and_four_figures(tmp_path, capsys):
    stochastic.main(["--quick", "--rounds", "3", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    for kind in stochastic.KINDS:
        for name in stochastic.solvers(kind, 3):
            assert len(re.findall(rf"^\| {name} ", printed, re.M)) == 3
    assert printed.count(": median [quartiles] of 1 seed") == 3 * len(stochastic.KINDS)
    for across in stochastic.ACROSS:
        assert (tmp_path / "stochastic" / f"{across}.png").stat().st_size > 10_000


# A language model: what the first settings of each grid do, on three networks.


@pytest.mark.slow
def test_a_tiny_language_model_has_a_row_for_every_method(tmp_path, monkeypatch, capsys):
    jax = pytest.importorskip("jax")
    grids = language.solvers
    monkeypatch.setattr(
        language, "solvers", lambda *given: {name: grid.solver(grid.points()[0]) for name, grid in grids(*given).items()}
    )
    language.main(["--quick", "--output", str(tmp_path)])
    ends = capsys.readouterr().out.rpartition("objective")[2].splitlines()
    rows = {row.split("|")[1].strip(): row.split("|") for row in ends if row.count("|") > 5}
    assert {"D-PSGD", "AdamW by gossip", "NoLoCo", "DiLoCo with a server"} <= rows.keys()
    sent = {name: int(row[5].replace(",", "")) for name, row in rows.items() if name and name[0] in "ADN"}
    once = 4 * 4 * sum(part.size for part in jax.tree.leaves(language.start(0, 16, 1)))  # of four agents, in single precision
    # Four times to two neighbours; twice to one; twice to a server and back.
    assert sent == {"D-PSGD": 8 * once, "AdamW by gossip": 8 * once, "NoLoCo": 2 * once, "DiLoCo with a server": 4 * once}
    assert (tmp_path / "language" / "figure.png").stat().st_size > 10_000


# Stragglers: the least of the quadratics is SciPy's; seconds are those of the clock.


def test_the_least_of_the_quadratics_is_that_of_scipy():
    problem, _, options = slowed.case(0, slowed.SIMULATED, slowed.WITH, agents=4)
    found = minimize(problem.objective, options["start"], jac=problem.total_gradient, tol=1e-12)
    assert found.fun == pytest.approx(slowed.least(problem), abs=1e-12)


def test_seconds_are_counted_until_the_objective_stays_below_its_level(tmp_path):
    made = partial(slowed.case, clock=slowed.SIMULATED, name=slowed.WITH, agents=4)
    given, solver = argparse.Namespace(seeds=1, workers=1), slowed.GRIDS[slowed.WITH].solver((0.05,))
    levels = {"half": 0.5, "nothing": 1e-9}
    found = stragglers.compared(given, tmp_path / "study", made, {"NEXT": solver}, levels, 40, slowed.least)
    problem, network, options = made(0)
    history = consensus.solve(problem, network, solver, rounds=40, record_every=1, **options).history
    below = history["objective"] <= history["objective"][0] / 2
    first = np.flatnonzero(below)[0]
    assert 0 < first < 40
    assert below[first:].all()
    assert found["NEXT", "half"][0].tolist() == [history["clock"][first]]
    assert found["NEXT", "nothing"][0].tolist() == [np.inf]
