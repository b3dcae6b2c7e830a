"""The report: one page that needs nothing else, holds the recorded numbers, and does what a reader asks of it."""

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

from consensus.history import History
from experiments.report import __main__ as report
from experiments.shared.harness import Experiment
from experiments.shared.results import Outcome, Run
from experiments.shared.tables import Spread, Table

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NODE = shutil.which("node")
OPTIONS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
NEXT, ODD, FAILING = "NEXT", 'a <b id="x">solver</b></script> & more', "DGD"
ROWS = {NEXT: 40, ODD: 1000, FAILING: 5}
SEEDS = (0, 1, 2)
WATCH = """<script>
const problems = [];
window.addEventListener("error", event => problems.push(event.message));
document.addEventListener("securitypolicyviolation", event => problems.push(event.violatedDirective));
for (const kind of ["error", "warn"]) console[kind] = (...words) => problems.push(words.join(" "));
</script>"""
READER = """<script>
const all = query => [...document.querySelectorAll(query)], texts = query => all(query).map(node => node.textContent);
const canvas = document.querySelector(".drawing"), legend = number => all(".legend button")[number], seen = {};
function hover(line, part) {
  const path = all(".line")[line], place = path.getPointAtLength(part * path.getTotalLength());
  const {left, top} = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: left + place.x, clientY: top + place.y}));
  return texts(".tip div");
}
function choose(axis, name) {
  const select = all(".controls select").find(node => [...node.options].some(({value}) => value === name));
  select.value = name;
  select.dispatchEvent(new Event("change"));
}
seen.names = texts(".legend .name");
seen.notes = texts(".legend small");
seen.strokes = all(".line").map(path => path.getAttribute("stroke") + path.getAttribute("stroke-dasharray"));
seen.bands = all(".band").length;
seen.end = hover(0, 1);
canvas.dispatchEvent(new PointerEvent("pointerleave"));
seen.left = document.querySelector(".tip").hidden;
canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}));
seen.keys = texts(".tip div").length;
seen.log = texts(".tick-x");
document.querySelector(".log-x").click();
seen.linear = texts(".tick-x");
seen.pressed = document.querySelector(".log-x").getAttribute("aria-pressed");
seen.start = hover(0, 0);
seen.focused = (legend(1).focus(), legend(1).click(), document.activeElement === legend(1));
seen.hidden = [all(".line").length, legend(1).getAttribute("aria-pressed")];
legend(1).click();
seen.again = all(".line").length;
choose("y", "disagreement");
choose("x", "seconds");
seen.other = hover(0, 1);
seen.foreign = all("#x").length;
seen.wide = document.documentElement.scrollWidth - innerWidth;
seen.problems = problems;
document.title = "done";
document.body.append(Object.assign(document.createElement("pre"), {id: "seen", textContent: JSON.stringify(seen)}));
</script>"""


def runs():
    """Three solvers, three repeats: one with many rows, one that diverges in two of them."""

    def make(solver, seed):
        def work(engine):
            history, random = History(), np.random.default_rng(seed)
            for row in range(ROWS[solver]):
                quantities = {"objective": random.uniform(1, 2) / (row + 1), "disagreement": random.uniform(0.5, 1.5)}
                clock = {"exchanges": 2 * row, "floats": 100 * row, "bytes": 800 * row, "seconds": 0.25 * row}
                history.append({"round": row, **quantities, **clock})
            failed = solver == FAILING and seed > 0
            return Outcome(history, np.zeros((0 if failed else 2, 3)), "diverged in round 4" if failed else "done")

        settings = {"dataset": "diabetes", "solver": solver, "seed": seed}
        return Run(settings, {"rounds": 10, "start": f"<{seed}>"}, work)

    return {(solver, seed): make(solver, seed) for solver in ROWS for seed in SEEDS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of results with one experiment."""
    folder = tmp_path_factory.mktemp("results")
    trial = Experiment("trial", "A trial.", ["--output", str(folder)], datasets=["diabetes"])
    trial.run(runs())
    table = Table({"solver": "", "exchanges, <least>": ".0f", "gap": ".2g"})
    for number, solver in enumerate(ROWS):
        table.add(solver, Spread(10.0, 5.0, float("inf")), 0.12345678 + number)
    trial.table(table)
    return folder


@pytest.fixture(scope="module")
def page(folder):
    report.main([str(folder)])
    return (folder / "report.html").read_text()


@pytest.fixture(scope="module")
def seen(page, tmp_path_factory):
    """What a reader in a browser finds who does what ``READER`` says."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium to open the page in")
    folder = tmp_path_factory.mktemp("browser")
    copy = page.replace("<style>", f"{WATCH}<style>", 1).replace("</body>", f"{READER}</body>")
    (folder / "page.html").write_text(copy)
    options = [*OPTIONS.split(), f"--user-data-dir={folder / 'profile'}", "--window-size=1000,1400", "--dump-dom"]
    done = subprocess.run([CHROMIUM, *options, (folder / "page.html").as_uri()], capture_output=True, text=True, timeout=60)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr
    return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def embedded(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def columns(path):
    """A CSV file's columns, without this package's reader."""
    with open(path, newline="") as file:
        header, *rows = csv.reader(file)
    return dict(zip(header, np.array(rows, dtype=float).T, strict=True))


def last(solver, name):
    """The spread of the last values of all repeats of ``solver``."""
    return Spread.of(run.work(None).history[name][-1] for (which, _), run in runs().items() if which == solver)


def test_the_page_needs_nothing_else(page):
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\bsrc=|<link", page.split("<section")[0])
    assert "http" not in page.replace("http-equiv", "")


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
        assert len(rows) == len(recorded["round"]) or 200 < len(rows) <= report.MOST
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
    reader.feed(page)
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
        return report.Recorded("", {"seed": 0, **settings}, {"rounds": rounds}, {}, "done", {"objective": np.ones(2)})

    plot = report.plot([recorded(10, solver="NEXT"), recorded(20, solver="NEXT"), recorded(10, solver="DGD")], ["NEXT", "DGD"])
    assert [(part["name"], part["values"]) for part in plot["dimensions"]] == [
        ("solver", ["NEXT", "DGD"]),
        ("rounds", ["rounds 10", "rounds 20", ""]),
    ]
    assert [curve["place"] for curve in plot["curves"]] == [(0, 0), (0, 1), (1, 2)]
    assert report.plot([recorded(10)], [])["curves"]


def test_the_settings_with_most_repeats_are_shown_first():
    done = [("b", 0), ("b", 1), ("a", 0)]
    runs = [
        report.Recorded(
            "", {"solver": solver, "setting": solver + name, "seed": seed}, {}, {}, "done", {"objective": np.ones(1)}
        )
        for solver in ("one", "two")
        for name, seed in done
    ]
    plot = report.plot(runs, [])
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


def test_a_browser_draws_every_solver_without_an_error(seen):
    assert seen["problems"] == []
    assert sorted(seen["names"]) == sorted(ROWS)
    assert seen["notes"] == [" 3 runs", " 3 runs", " 3 runs, 2 diverged"]
    assert len(set(seen["strokes"])) == len(ROWS)
    assert seen["bands"] == len(ROWS)
    assert seen["foreign"] == 0
    assert seen["wide"] <= 0  # nothing sticks out of the page


def test_pointing_at_a_curve_shows_its_numbers(seen):
    spread = last(NEXT, "objective")
    middle, low, high = (f"{value:.4g}" for value in spread)
    assert seen["end"][0] == f"exchanges with neighbours: {2 * ROWS[NEXT] - 2}"
    assert seen["end"][1] == f"{NEXT}: {middle} [{low}, {high}]"
    assert len(seen["end"]) == 1 + len(ROWS)
    assert seen["left"]
    assert seen["keys"] == 1 + len(ROWS)


def test_the_axes_follow_the_buttons_and_the_choices(seen):
    assert seen["log"] == ["10", "100", "1000"]
    assert len(seen["linear"]) > 4
    steps = np.diff([float(text) for text in seen["linear"]])
    np.testing.assert_allclose(steps, steps[0], rtol=1e-9)
    assert seen["pressed"] == "false"
    assert seen["start"][0].endswith("neighbours: 0")  # which a logarithmic axis does not show
    assert seen["other"][0] == f"wall time in rounds [s]: {last(NEXT, 'seconds').middle}"
    assert seen["other"][1].startswith(f"{NEXT}: {last(NEXT, 'disagreement').middle:.4g} [")


def test_a_click_in_the_legend_hides_a_curve_and_shows_it_again(seen):
    assert seen["hidden"] == [len(ROWS) - 1, "false"]
    assert seen["again"] == len(ROWS)
    assert seen["focused"]


@pytest.mark.skipif(NODE is None, reason="there is no Node to run the page's script")
def test_a_curve_that_diverges_leaves_the_frame_to_the_others():
    script = (Path(report.__file__).parent / "report.js").read_text()
    source = script[script.index("function highest") : script.index("const within")]
    curve = "ys => ({seen: ys.map((y, x) => ({x, y, low: y, high: y}))})"
    cases = "[[[1, 0.5], [1, 1e290]], [[1, 0.5], [1, 900]], [[1, 1e290]], [[1, NaN, Infinity], [2, 3]]]"
    program = f"{source} console.log(JSON.stringify({cases}.map(runs => String(highest(runs.map({curve}))))))"
    out = subprocess.run([NODE, "-e", program], capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == ["10", "Infinity", "Infinity", "Infinity"]
