"""The table of the robustness experiment: what its numbers mean, on which cases settings are chosen."""

import numpy as np
import pandas as pd
import pytest

import consensus
from consensus.solvers import AutoGT
from experiments import robustness
from experiments.robustness import DATASETS, MARKS, PANEL, TOPOLOGIES, TUNING

HERE = PANEL.index(("diabetes", "ring", 10, "sorted"))


def panel(seed):
    return PANEL[seed % len(PANEL)]


def test_settings_are_chosen_on_all_data_topologies_sizes_and_shards_of_other_draws():
    seeds, tuning = robustness.seeds_of([0, 1, 2], [10, 30])
    assert len(seeds) == len(set(seeds)) == 300
    assert {seed // len(PANEL) for seed in tuning} == {TUNING}
    assert {panel(seed)[:2] for seed in tuning} == {(data, graph) for data in DATASETS for graph in TOPOLOGIES}
    for size in (10, 30):
        for scheme in ("iid", "sorted"):
            some = [panel(seed) for seed in tuning if panel(seed)[2:] == (size, scheme)]
            assert len(some) >= 6
            assert {case[0] for case in some} == set(DATASETS)
            assert {case[1] for case in some} == set(TOPOLOGIES)
    assert {panel(seed)[2] for seed in robustness.seeds_of([4], [30])[0]} == {30}


def test_rivals_have_falling_steps_and_tracking_both_orders():
    for name in ("gradient tracking", "DGD", "NEXT full", "NEXT partial"):
        grid = robustness.SOLVERS[name]
        steps = {type(grid.solver(point).step_size) for point in grid.points()}
        assert steps == {float, consensus.step_sizes.Diminishing}
    tracking = robustness.SOLVERS["gradient tracking"]
    assert {tracking.solver(point).order for point in tracking.points()} == {"atc", "cta"}


@pytest.mark.slow
def test_histories_have_the_objective_over_what_all_data_in_one_place_give():
    problem, network, options = robustness.case(HERE, exchanges=5)
    history = consensus.solve(problem, network, AutoGT(), rounds=5, **options).history
    best = robustness.optimum("diabetes", 0)
    np.testing.assert_array_equal(history["over_optimum"], history["objective"] / best)
    assert best < 0.3 * problem.objective(options["start"])
    assert problem.agents == network.agents == 10


class Valued:
    """Stands in for a study: two solvers in two cases."""

    def __init__(self, factor):
        rows = [("A", HERE, 4.0), ("A", HERE + 1, 9.0), ("B", HERE, 1e9), ("B", HERE + 1, np.inf)]
        index = pd.MultiIndex.from_tuples([(1000, *row[:2]) for row in rows], names=["exchanges", "solver", "seed"])
        self.frame = pd.DataFrame({"value": [factor * row[2] for row in rows], "missed": False}, index)

    def values(self):
        return self.frame


def test_means_are_geometric_and_worst_cases_named():
    made = robustness.tables({mark: Valued(1 + number) for number, mark in enumerate(MARKS)})
    whole, parts = made["robustness"], made["breakdown"]
    np.testing.assert_allclose(whole.loc["A", [f"at {mark}" for mark in MARKS]], 6.0 * np.arange(1, 8), rtol=1e-12)
    assert whole.loc["A", "worst at 1000 exchanges"] == 27
    np.testing.assert_allclose(whole.loc["B"].drop("cases").astype(float), robustness.BLOWN_UP, rtol=1e-12)
    assert whole["cases"].tolist() == [2, 2]
    assert parts["cases"].groupby(level=0).sum().tolist() == 4 * [2]
    shown = dict(zip(parts.index, parts["at 50 exchanges"], strict=True))
    after = panel(HERE + 1)
    assert shown["data", "diabetes"] == pytest.approx(6.0)
    assert shown["agents", 10] == pytest.approx(4.0)
    assert shown["agents", after[2]] == pytest.approx(9.0)
    assert shown["shards", after[3]] == pytest.approx(9.0)


@pytest.mark.slow
def test_the_quick_version_writes_tables_figures_and_goes_on(tmp_path, capsys):
    command = ["--quick", "--output", str(tmp_path), "--jobs", "1", "--solvers", "AdaptiveNEXT", "DGD"]
    robustness.main(command)
    printed = capsys.readouterr().out
    names = {"robustness", "breakdown", "grids"}
    assert {path.stem for path in tmp_path.glob("*.csv")} == names == {path.stem for path in tmp_path.glob("*.md")}
    assert (tmp_path / "exchanges.pdf").read_bytes().startswith(b"%PDF")
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()}
    robustness.main(command)
    assert capsys.readouterr().out == printed
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()} == done
