"""The report: one page that needs nothing else and holds the recorded numbers."""

import csv
import html
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from plotly.offline import get_plotlyjs

from consensus import plotting
from experiments.report import __main__ as report
from experiments.report import plots
from experiments.report.runs import MOST, Recorded, read
from tests.helpers.report_cases import FAILING, ODD, ROWS, SEEDS


def columns(path):
    """A CSV file's columns, without this package's reader."""
    with open(path, newline="") as file:
        header, *rows = csv.reader(line for line in file if not line.startswith("#"))
    return dict(zip(header, np.array(rows, dtype=float).T, strict=True))


@pytest.mark.slow
def test_the_page_needs_nothing_else(page):
    assert page.count(get_plotlyjs()) == 1
    rest = page.replace(get_plotlyjs(), "")
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\bsrc=|<link", rest.split("<section")[0])
    assert "http" not in rest.replace("http-equiv", "")


def chosen(figure, menu, label):
    """The traces after a choice in a menu: the bands and the lines."""
    (button,) = (button for button in figure.layout.updatemenus[menu].buttons if button.label == label)
    data, title = button.args
    (axis,) = title
    figure.update_layout({axis.replace(".", "_"): title[axis]})
    for name, columns in data.items():
        for trace, column in zip(figure.data, columns, strict=True):
            trace[name] = column
    return figure.data[::2], figure.data[1::2]


def test_the_plot_shows_the_recorded_numbers(folder):
    """The median and the range of the repeats at every round that is kept; the first round is the row's number."""
    figure = plots.plot(list(read(folder / "trial")), list(ROWS))
    recorded = {solver: [] for solver in ROWS}
    for path in (folder / "trial" / "runs").iterdir():
        solver = json.loads((path / "config.json").read_text())["settings"]["solver"]
        recorded[solver].append(columns(path / "history.csv") | columns(path / "timing.csv"))
    for quantity, axis in (("disagreement", "seconds"), ("objective", "exchanges")):
        chosen(figure, 1, plotting.LABELS[axis])
        bands, lines = chosen(figure, 0, plotting.LABELS[quantity])
        for band, line, (solver, repeats) in zip(bands, lines, recorded.items(), strict=True):
            assert line.name.replace("<br>", " ").startswith(html.escape(solver, quote=False))
            rows = np.rint(np.array(line.x) / repeats[0][axis][1]).astype(int)
            assert (rows[0], rows[-1]) == (0, ROWS[solver] - 1)
            assert len(rows) == ROWS[solver] or 200 < len(rows) <= MOST
            ys = np.array([repeat[quantity][rows] for repeat in repeats])
            if solver == FAILING and quantity == "objective":
                continue  # it leaves the frame
            spread = np.median(ys, axis=0), ys.min(axis=0), ys.max(axis=0)
            np.testing.assert_allclose(line.y, spread[0], rtol=5e-6)
            np.testing.assert_allclose(line.customdata, np.transpose(spread), rtol=5e-6)
            np.testing.assert_allclose(band.y, [*spread[2], *spread[1][::-1]], rtol=5e-6)
            assert [*band.x] == [*line.x, *line.x[::-1]]


def test_a_repeat_that_diverged_counts_as_infinite_from_there_on():
    def recorded(rounds, reason="done"):
        values = {"round": np.arange(rounds), "exchanges": 2 * np.arange(rounds), "objective": np.arange(rounds) + 1.0}
        return Recorded("", {"solver": "DGD"}, {}, {}, reason, values)

    table = plots.points([recorded(6), recorded(8), recorded(3, "diverged in round 3")])
    assert table.index.tolist() == table["exchanges", "median"].div(2).tolist() == [0, 1, 2, 3, 4, 5]
    assert table["objective", "median"].tolist() == [1, 2, 3, 4, 5, 6]
    assert table["objective", "max"].tolist() == [1, 2, 3, *[np.inf] * 3]


@pytest.mark.parametrize(("columns", "top"), [
    ([[1, 0.5], [1, 1e290]], 1), ([[1, 0.5], [1, 900]], np.inf), ([[1, 0.5], [1, 9000, 9]], np.inf), ([[1, 0.5], [1, 2000]], 1),
    ([[1, 1e290]], np.inf), ([[1, np.nan, np.inf], [2, 3], [0, 9]], np.inf),
])  # fmt: skip
def test_which_curves_leave_the_frame(columns, top):
    assert plots.highest([np.array(column, float) for column in columns]) == top


def test_text_is_escaped(page):
    class Reader(HTMLParser):
        ids, cells = (), ()

        def handle_starttag(self, tag, attributes):
            self.ids += tuple(value for name, value in attributes if name == "id")

        def handle_data(self, data):
            self.cells += (data.strip(),)

    reader = Reader()
    reader.feed(page.replace(get_plotlyjs(), ""))
    assert reader.ids == ("trial", "plot-trial")
    assert {ODD, "exchanges, <least>", "10 [5, never]", "0.12", "1.1"} <= set(reader.cells)
    assert {"<0>", "<1>", "<2>"} <= set(reader.cells)  # of the settings in which the runs differ
    assert "Settings of the runs: they differ in solver, seed, start" in reader.cells
    assert "Environment of the runs: the same in all" in reader.cells


@pytest.mark.slow
def test_one_experiment_s_folder_gets_its_own_page(folder, page):
    report.main([str(folder / "trial")])
    assert (folder / "trial" / "report.html").read_text() == page
    (folder / "trial" / "report.html").unlink()


def recorded(rounds=10, **settings):
    columns = {"round": np.arange(2), "objective": np.ones(2)}
    return Recorded("", {"seed": 0, **settings}, {"rounds": rounds}, {}, "done", columns)


def test_runs_of_equal_settings_are_told_apart():
    runs = [recorded(10, solver="NEXT"), recorded(20, solver="NEXT"), recorded(10, solver="DGD")]
    assert [curve.name for curve in plots.curves(runs, ["NEXT", "DGD"])] == ["NEXT, rounds 10", "NEXT, rounds 20", "DGD"]
    assert [curve.name for curve in plots.curves([recorded()], [])] == ["all runs"]


def test_the_settings_with_most_repeats_are_shown_first():
    done = [("b", 0), ("b", 1), ("a", 0)]
    runs = [recorded(solver=solver, setting=solver + name, seed=seed) for solver in ("one", "two") for name, seed in done]
    assert [(len(curve.runs), curve.shown) for curve in plots.curves(runs, [])] == [(2, True)] * 2 + [(1, False)] * 2
    figure = plots.plot(runs, [])
    assert [trace.visible for trace in figure.data] == [True] * 4 + ["legendonly"] * 4


def test_data_sets_are_seen_one_at_a_time():
    runs = [recorded(solver=solver, dataset=name) for name in ("wine", "iris") for solver in ("NEXT", "DGD")]
    figure = plots.plot(runs, ["NEXT", "DGD", "wine", "iris"])
    (menu,) = (menu for menu in figure.layout.updatemenus if menu.buttons[0].label == "wine")
    assert [button.label for button in menu.buttons] == ["wine", "iris"]
    assert menu.buttons[1].args[0]["visible"] == [False, False, True, True] * 2
    assert [trace.visible for trace in figure.data] == [True, True, False, False] * 2
    assert [trace.name for trace in figure.data[1::2]] == ["NEXT (1 run)"] * 2 + ["DGD (1 run)"] * 2


def test_a_damaged_run_is_left_out_with_a_line_and_a_study_without(folder, tmp_path, capsys):
    (tmp_path / "study" / "runs").mkdir(parents=True)
    (tmp_path / "study" / "study.json").write_text("{}")
    (tmp_path / "study" / "runs" / "0123456789abcdef.npz").touch()
    shutil.copytree(folder / "trial", tmp_path / "trial")
    first, second = sorted((tmp_path / "trial" / "runs").iterdir())[:2]
    (first / "history.csv").unlink()
    (second / "config.json").write_text("{")
    report.main([str(tmp_path)])
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" (")[0] for line in lines] == [f"left out: {first}", f"left out: {second}"]
    assert f"{len(ROWS) * len(SEEDS) - 2} runs" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["missing", "empty", "file"])
def test_a_wrong_folder_gets_one_clear_line(wrong, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "experiments.report", str(tmp_path / wrong)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert str(tmp_path / wrong) in line


def test_curves_look_as_in_the_figures():
    looks = [plots.look(index) for index in range(len(plotting.DASHES))]
    assert [plots.look(index)["line"]["color"] for index in range(len(plotting.COLORS))] == list(plotting.COLORS)
    assert len({plots.look(index)["marker"]["symbol"] for index in range(len(plotting.MARKERS))}) == len(plotting.MARKERS)
    dashes = [look["line"]["dash"] for look in looks]
    assert dashes[0] == "solid"
    assert len(set(dashes)) == len(dashes)
    assert "8px,1.6px,1.6px,1.6px,1.6px,1.6px" in dashes  # Matplotlib's lengths are in widths of the line, 1.6
