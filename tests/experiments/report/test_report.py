"""The report: one page that needs nothing else and holds the recorded numbers."""

import csv
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
from report_cases import ODD, ROWS, SEEDS

from consensus import plotting
from experiments.report import __main__ as report
from experiments.report import plots
from experiments.report.runs import MOST, Recorded


def embedded(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def columns(path):
    """A CSV file's columns, without this package's reader."""
    with open(path, newline="") as file:
        header, *rows = csv.reader(line for line in file if not line.startswith("#"))
    return dict(zip(header, np.array(rows, dtype=float).T, strict=True))


def test_the_page_needs_nothing_else(page):
    assert page.count(get_plotlyjs()) == 1
    rest = page.replace(get_plotlyjs(), "")
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\bsrc=|<link", rest.split("<section")[0])
    assert "http" not in rest.replace("http-equiv", "")


def test_the_page_holds_the_recorded_numbers(folder, page):
    (plot,) = embedded(page)["plots"]
    assert plot["x"] == ["exchanges", "round", "floats", "bytes", "seconds"]
    assert plot["y"] == ["objective", "disagreement"]
    drawn = {run["folder"]: run for curve in plot["curves"] for run in curve["runs"]}
    folders = list((folder / "trial" / "runs").iterdir())
    assert {path.name for path in folders} == set(drawn)
    for path in folders:
        recorded = columns(path / "history.csv") | columns(path / "timing.csv")
        here = {name: np.array(plot["columns"][number]) for name, number in drawn[path.name]["columns"].items()}
        rows = here["round"].astype(int)  # the round is the row's number
        assert len(rows) == len(recorded["round"]) or 200 < len(rows) <= MOST
        assert (rows[0], rows[-1]) == (0, len(recorded["round"]) - 1)
        for name in (*plot["x"], *plot["y"]):
            np.testing.assert_allclose(here[name], recorded[name][rows], rtol=5e-6)


def test_text_is_escaped(page):
    class Reader(HTMLParser):
        ids, cells = (), ()

        def handle_starttag(self, tag, attributes):
            self.ids += tuple(value for name, value in attributes if name == "id")

        def handle_data(self, data):
            self.cells += (data.strip(),)

    reader = Reader()
    reader.feed(page.replace(get_plotlyjs(), ""))
    assert reader.ids == ("trial", "data")
    assert {ODD, "exchanges, <least>", "10 [5, never]", "0.1235"} <= set(reader.cells)
    assert {"<0>", "<1>", "<2>"} <= set(reader.cells)  # of the settings in which the runs differ
    assert "Settings of the runs: they differ in solver, seed, start" in reader.cells
    assert "Environment of the runs: the same in all" in reader.cells


def test_one_experiment_s_folder_gets_its_own_page(folder, page):
    report.main([str(folder / "trial")])
    assert (folder / "trial" / "report.html").read_text() == page
    (folder / "trial" / "report.html").unlink()


def test_runs_of_equal_settings_are_told_apart():
    def recorded(rounds, **settings):
        return Recorded("", {"seed": 0, **settings}, {"rounds": rounds}, {}, "done", {"objective": np.ones(2)})

    plot = plots.plot([recorded(10, solver="NEXT"), recorded(20, solver="NEXT"), recorded(10, solver="DGD")], ["NEXT", "DGD"])
    assert [(part["name"], part["values"]) for part in plot["dimensions"]] == [
        ("solver", ["NEXT", "DGD"]),
        ("rounds", ["rounds 10", "rounds 20", ""]),
    ]
    assert [curve["place"] for curve in plot["curves"]] == [(0, 0), (0, 1), (1, 2)]
    assert plots.plot([recorded(10)], [])["curves"]


def test_the_settings_with_most_repeats_are_shown_first():
    done = [("b", 0), ("b", 1), ("a", 0)]
    runs = [
        Recorded("", {"solver": solver, "setting": solver + name, "seed": seed}, {}, {}, "done", {"objective": np.ones(1)})
        for solver in ("one", "two")
        for name, seed in done
    ]
    plot = plots.plot(runs, [])
    assert [(len(curve["runs"]), curve["shown"]) for curve in plot["curves"]] == [(2, True)] * 2 + [(1, False)] * 2


def test_a_damaged_run_is_left_out_with_a_line(folder, tmp_path, capsys):
    shutil.copytree(folder / "trial", tmp_path / "trial")
    first, second = sorted((tmp_path / "trial" / "runs").iterdir())[:2]
    (first / "history.csv").unlink()
    (second / "config.json").write_text("{")
    report.main([str(tmp_path)])
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" (")[0] for line in lines] == [f"left out: {first}", f"left out: {second}"]
    (plot,) = embedded((tmp_path / "report.html").read_text())["plots"]
    assert sum(len(curve["runs"]) for curve in plot["curves"]) == len(ROWS) * len(SEEDS) - 2


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
    look = plots.look()
    assert look["colours"] == plotting.COLOURS
    assert len(look["symbols"]) == len(set(look["symbols"])) == len(plotting.MARKERS)
    assert look["dashes"][0] == "solid"
    assert len(set(look["dashes"])) == len(plotting.DASHES)
    assert look["dashes"][-1] == "8px,1.6px,1.6px,1.6px,1.6px,1.6px"  # Matplotlib's lengths are in widths of the line, 1.6
