"""The table of the robustness experiment: what its numbers mean, and that an interrupted one goes on."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest

from consensus.history import History
from experiments.robustness import __main__ as command
from experiments.robustness import cases, results, runs
from experiments.shared import tuning

CASE = ("diabetes", "ring", 10, "iid", 0)


def row(solver, ratios=(4.0, 2.0, 1.5), *, setting="x", topology="ring", highest=1.0, end=0.5, sent=1e9, at_bytes=3.0):
    """A row with these ratios after 50, 200 and 1000 exchanges, and one at all numbers of bytes."""
    after = np.interp(np.log(results.MARKS), np.log([50, 200, 1000]), ratios)
    found = dict(zip(runs.FIELDS, (solver, setting, "diabetes", topology, 10, "iid", 0), strict=False))
    found |= {"optimum": 0.1, "start": 1.0, "highest": highest, "end": end, "exchanges": 1000, "bytes": sent}
    found |= {f"at_{mark}": 0.1 * value for mark, value in zip(results.MARKS, after, strict=True)}
    return found | {f"at_{mark}_bytes": 0.1 * at_bytes for mark in results.BYTES}


def history(objective, exchanges, sent):
    made = History()
    for number, values in enumerate(zip(objective, exchanges, sent, strict=True)):
        made.append({"round": number, **dict(zip(("objective", "exchanges", "bytes"), values, strict=True))})
    return made


def measured(**rows):
    """What tables take: the same rows by every measure."""
    return {solver: dict.fromkeys(results.MEASURES, own) for solver, own in rows.items()}


class Tried:
    """Stands in for runs of DGD: small steps are better late, large ones early."""

    def of(self, wanted):
        return [self.ran(key[0], step) for key, (step,), _ in wanted]

    def ran(self, solver, step):
        *ratios, at_bytes = [abs(math.log2(step / best)) + 1 for best in (0.8, 0.4, 0.1, 0.2)]
        return row(solver, ratios, setting=str(step), at_bytes=at_bytes)


def test_means_are_geometric_and_worst_cases_named():
    rows = [row("A", (4.0, 2.0, 1.5)), row("A", (9.0, 8.0, 6.0), highest=1.06), row("B", (np.inf, np.inf, np.inf), end=np.inf)]
    done, settings = measured(A=rows[:2], B=rows[2:]), {"A": "x", "B": "x"}
    lines = results.summary(done, settings).csv().splitlines()
    found = dict(zip(lines[0].split(","), lines[1].split(","), strict=True))
    assert [float(found[name]) for name in ("at 50", "at 200", "at 1000")] == pytest.approx([6.0, 4.0, 3.0])
    assert [float(found[name]) for name in ("worst at 200", "worst at 1000")] == pytest.approx([8.0, 6.0])
    assert [found[name] for name in ("ever above", "ended above", "runs")] == ["1", "0", "2"]
    lost = dict(zip(lines[0].split(","), lines[2].split(","), strict=True))
    assert float(lost["at 1000"]) == pytest.approx(results.BLOWN_UP)
    assert lost["ended above"] == "1"


def test_settings_are_chosen_by_each_measure_and_lie_inside():
    found, families = runs.tuned(Tried(), ["DGD"], [CASE, CASE])
    assert {key[0] for key in found} == {"DGD"}
    best = tuning.best(found, ("DGD", "constant"), results.merits)
    assert {mark: best[mark] for mark in results.SHOWN} == {50: (0.8,), 200: (0.4,), 1000: (0.1,)}
    assert set(found["DGD", "constant"]) == {(0.05,), (0.1,), (0.2,), (0.4,), (0.8,), (1.6,)}
    assert {line[-1] for line in tuning.grids(found, families, results.merits, ("solver", "steps")).rows} == {"yes"}


def test_a_column_is_of_the_setting_that_is_best_by_it():
    rows = {mark: [row("A", (9.0, 9.0, 9.0))] for mark in results.MEASURES}
    rows |= {50: [row("A", (1.0, 9.0, 9.0))], 1000: [row("A", (9.0, 9.0, 3.0), highest=2.0)]}
    (line,) = results.summary({"A": rows}, {"A": "x"}).rows
    assert line[2:5] == pytest.approx((1.0, 9.0, 3.0))
    assert line[7] == 1  # ever above, at the setting of the last column


def test_settings_are_chosen_on_all_data_topologies_sizes_and_shards():
    panel, tuning, _ = cases.panels((10, 30), (0, 1, 2))
    assert set(tuning) <= set(panel)
    assert {case[:2] for case in tuning} == {case[:2] for case in panel}
    for size in (10, 30):
        for scheme in ("iid", "sorted"):
            some = [case for case in tuning if case[2:4] == (size, scheme)]
            assert len(some) >= 6
            assert {case[0] for case in some} == set(cases.DATASETS)
            assert {case[1] for case in some} == set(cases.TOPOLOGIES)


def test_rivals_have_falling_steps_and_tracking_both_orders():
    for solver in ("gradient tracking", "DGD", "NEXT full", "NEXT partial"):
        settings = [family.make(*family.start()[0]) for family in runs.SOLVERS[solver]]
        assert {isinstance(setting.step_size, runs.Diminishing) for setting in settings} == {True, False}
    tracking = [family.make(0.1) for family in runs.SOLVERS["gradient tracking"]]
    assert {setting.order for setting in tracking} == {"atc", "cta"}


def test_at_equal_cost_the_last_round_that_had_cost_no_more_counts():
    run = history([8.0, 4.0, 2.0, 1.0], [0, 300, 600, 1000], [0, 10**5, 2 * 10**6, 5 * 10**7])
    found = runs.measured(run)
    assert [found[f"at_{sent}_bytes"] for sent in (10**5, 10**6, 10**7, 10**8, 10**9)] == [4.0, 4.0, 2.0, 1.0, 1.0]
    assert [found[f"at_{mark}"] for mark in (200, 300, 1000)] == [8.0, 4.0, 1.0]
    assert (found["bytes"], found["exchanges"], found["start"], found["end"]) == (5 * 10**7, 1000, 8.0, 1.0)
    lost = runs.measured(history([8.0, 4.0, 9.0], [0, 1, 2], [0, 10**5, 10**6]))  # it diverged
    assert [lost[f"at_{sent}_bytes"] for sent in (10**5, 10**6, 10**7)] == [4.0, 9.0, np.inf]


def test_runs_that_never_sent_so_many_bytes_are_counted_beside():
    ended, lost = row("A", sent=10**7, at_bytes=2.0), row("A", sent=10**6, at_bytes=np.inf)
    lines = results.at_equal_bytes(measured(A=[row("A", at_bytes=4.5), ended, lost, lost])).csv().splitlines()
    found = dict(zip(lines[0].split(","), lines[1].split(","), strict=True))
    assert float(found["at 1e+08 bytes"]) == pytest.approx((4.5 * 2 * results.BLOWN_UP**2) ** 0.25)
    assert [float(found[f"ended before 1e+0{power}"]) for power in (6, 7, 8, 9)] == [0, 0, 0.25, 0.25]


def test_runs_of_another_version_are_refused(tmp_path, capsys):
    (tmp_path / "runs.csv").write_text("solver,setting,floats\n")
    with pytest.raises(SystemExit, match=r"error: .*runs\.csv is of another version.*take another --output"):
        command.main(["--quick", "--output", str(tmp_path)])


def test_the_figure_has_a_curve_a_solver_and_a_topology():
    done = measured(**{solver: [row(solver, topology=topology) for topology in cases.TOPOLOGIES] for solver in runs.SOLVERS})
    canvas = results.figure(done)
    names = [[text.get_text() for text in canvas.axes[k].get_legend().get_texts()] for k in (0, 2)]
    assert names[0] == [line.get_label() for line in canvas.axes[1].get_lines()[: len(runs.SOLVERS)]] == list(runs.SOLVERS)
    assert sorted(names[1]) == sorted(name.replace("_", " ") for name in cases.TOPOLOGIES)
    np.testing.assert_allclose(canvas.axes[0].get_lines()[0].get_ydata()[-1], 1.5)
    np.testing.assert_allclose(canvas.axes[1].get_lines()[0].get_ydata(), 3.0)
    drawn = [(line.get_color(), str(line.get_linestyle()), line.get_marker()) for line in canvas.axes[0].get_lines()]
    assert len(set(drawn[: len(runs.SOLVERS)])) == len(runs.SOLVERS)
    plt.close(canvas)


@pytest.mark.slow
def test_a_run_is_what_solve_does_and_is_done_once(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "MARKS", (10, 20))
    monkeypatch.setattr(runs, "BYTES", (10**5,))
    monkeypatch.setattr(runs, "FIELDS", (*runs.FIELDS[:13], "at_10", "at_20", "at_100000_bytes"))
    task = (("DGD", "constant"), (0.1,), CASE)
    found = runs.run(task)
    problem, network, start = cases.make(CASE)
    history = runs.consensus.solve(problem, network, runs.DGD(0.1), rounds=20, start=start, record_every=1).history
    assert [found["at_10"], found["at_20"]] == list(history["objective"][[10, 20]])
    assert found["highest"] == history["objective"].max()
    assert found["at_100000_bytes"] == history["objective"][history["bytes"] <= 10**5][-1]
    assert found["bytes"] == history["bytes"][-1]
    kept = runs.Runs(tmp_path / "runs.csv", jobs=1)
    with open(kept.path, "a", newline="") as file:
        runs.csv.DictWriter(file, runs.FIELDS).writerow(found)
    again = runs.Runs(tmp_path / "runs.csv", jobs=1).of([task])
    assert again[0] == found


def test_adaptive_next_is_broken_down_by_what_differs():
    rows = [row("AdaptiveNEXT", (4.0, 2.0, 1.5)), row("AdaptiveNEXT", (9.0, 8.0, 6.0), topology="erdos_renyi")]
    lines = [line.split(",") for line in results.breakdown(rows).csv().splitlines()[1:]]
    means = {line[0]: float(line[1]) for line in lines}
    assert means == pytest.approx({"diabetes": 6.0, "ring": 4.0, "erdos renyi": 9.0, "10 agents": 6.0, "iid": 6.0})


@pytest.mark.slow
def test_the_optimum_is_that_of_all_data_in_one_place():
    problem, _, start = cases.make(CASE)
    best = cases.optimum(CASE)
    assert best < 0.3 * problem.objective(start)
    other = cases.optimum(("diabetes", "complete", 30, "sorted", 0))
    assert other == best
