"""The table of the robustness experiment: what its numbers mean, and that an interrupted one goes on."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments import robustness
from experiments import robustness_cases as cases

CASE = ("diabetes", "ring", 10, "iid", 0)


def row(solver, ratios=(4.0, 2.0, 1.5), *, topology="ring", highest=1.0, end=0.5):
    """A row with these ratios after 50, 200 and 1000 exchanges."""
    after = np.interp(np.log(robustness.MARKS), np.log([50, 200, 1000]), ratios)
    found = dict(zip(robustness.FIELDS, (solver, "x", "diabetes", topology, 10, "iid", 0), strict=False))
    found |= {"optimum": 0.1, "start": 1.0, "highest": highest, "end": end, "exchanges": 1000, "floats": 1e6, "seconds": 1.0}
    return found | {f"at_{mark}": 0.1 * value for mark, value in zip(robustness.MARKS, after, strict=True)}


def test_means_are_geometric_and_worst_cases_named():
    rows = [row("A", (4.0, 2.0, 1.5)), row("A", (9.0, 8.0, 6.0), highest=1.06), row("B", (np.inf, np.inf, np.inf), end=np.inf)]
    lines = robustness.summary(rows, {"A": "x", "B": "x"}).csv().splitlines()
    found = dict(zip(lines[0].split(","), lines[1].split(","), strict=True))
    assert [float(found[name]) for name in ("at 50", "at 200", "at 1000")] == pytest.approx([6.0, 4.0, 3.0])
    assert [float(found[name]) for name in ("worst at 200", "worst at 1000")] == pytest.approx([8.0, 6.0])
    assert [found[name] for name in ("ever above", "ended above", "runs")] == ["1", "0", "2"]
    lost = dict(zip(lines[0].split(","), lines[2].split(","), strict=True))
    assert float(lost["at 1000"]) == pytest.approx(robustness.BLOWN_UP)
    assert lost["ended above"] == "1"


def test_the_figure_has_a_curve_a_solver_and_a_topology():
    rows = [row(solver, topology=topology) for solver in robustness.GRIDS for topology in cases.TOPOLOGIES]
    canvas = robustness.figure(rows, dict.fromkeys(robustness.GRIDS, "x"))
    names = [[text.get_text() for text in ax.get_legend().get_texts()] for ax in canvas.axes]
    assert names[0] == list(robustness.GRIDS)
    assert sorted(names[1]) == sorted(name.replace("_", " ") for name in cases.TOPOLOGIES)
    np.testing.assert_allclose(canvas.axes[0].get_lines()[0].get_ydata()[-1], 1.5)
    plt.close(canvas)


def test_a_run_is_what_solve_does_and_is_done_once(tmp_path, monkeypatch):
    monkeypatch.setattr(robustness, "MARKS", (10, 20))
    monkeypatch.setattr(robustness, "FIELDS", (*robustness.FIELDS[:14], "at_10", "at_20"))
    found = robustness.run(("DGD", "step 0.1", CASE))
    problem, network, start = cases.make(CASE)
    history = robustness.consensus.solve(problem, network, robustness.DGD(0.1), rounds=20, start=start).history
    assert [found["at_10"], found["at_20"]] == list(history["objective"][[10, 20]])
    assert found["highest"] == history["objective"].max()
    assert found["floats"] == history["floats"][-1]
    runs = robustness.Runs(tmp_path / "runs.csv", jobs=1)
    with open(runs.path, "a", newline="") as file:
        robustness.csv.DictWriter(file, robustness.FIELDS).writerow(found)
    again = robustness.Runs(tmp_path / "runs.csv", jobs=1).of([("DGD", "step 0.1", CASE)])
    assert again[0] == found


def test_the_optimum_is_that_of_all_data_in_one_place():
    problem, _, start = cases.make(CASE)
    best = cases.optimum(CASE)
    assert best < 0.3 * problem.objective(start)
    other = cases.optimum(("diabetes", "complete", 30, "sorted", 0))
    assert other == best
