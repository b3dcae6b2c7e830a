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
from plotly.offline import get_plotlyjs

from consensus import plotting
from consensus.history import History
from experiments.report import __main__ as report
from experiments.report import plots
from experiments.report.runs import MOST, Recorded
from experiments.shared.harness import Experiment
from experiments.shared.results import Outcome, Run
from experiments.shared.tables import Spread, Table

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NODE = shutil.which("node")
OPTIONS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
OPTIONS += " --virtual-time-budget=20000 --window-size=1000,1400 --dump-dom"
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
{
const all = query => [...document.querySelectorAll(query)], texts = query => all(query).map(node => node.textContent);
const graph = document.querySelector(".drawing"), ground = () => graph.querySelector(".nsewdrag"), seen = {};
const pause = time => new Promise(done => setTimeout(done, time));
const labels = () => texts(".hoverlayer text"), shown = () => all(".scatterlayer .js-line").length;
async function hover(line, part) {
  const path = all(".scatterlayer .js-line")[line], place = path.getPointAtLength(part * path.getTotalLength());
  const {x, y} = place.matrixTransform(path.getScreenCTM());
  ground().dispatchEvent(new MouseEvent("mousemove", {clientX: x, clientY: y, bubbles: true}));
  await pause(200);
  return labels();
}
async function choose(axis, name) {
  const select = all(".controls select").find(node => [...node.options].some(({value}) => value === name));
  select.value = name;
  select.dispatchEvent(new Event("change"));
  await pause(200);
}
async function click(node, times = 1) {
  for (let k = 0; k < times; k++) {
    for (const kind of ["mousedown", "mouseup", "click"]) node.dispatchEvent(new MouseEvent(kind, {bubbles: true}));
  }
  await pause(400);
}
async function press(key) {
  graph.dispatchEvent(new KeyboardEvent("keydown", {key}));
  await pause(200);
  return labels();
}
const name = number => all(".infolayer .legend .legendtoggle")[number], frame = () => graph.layout.yaxis.range;
async function visit() {
  await pause(400);
  seen.names = texts(".infolayer .legend .legendtext");
  seen.strokes = all(".scatterlayer .js-line").map(({style}) => style.stroke + style.strokeDasharray);
  seen.bands = all(".scatterlayer .js-fill").filter(node => node.getAttribute("d")).length;
  seen.titles = texts(".g-xtitle text, .g-ytitle text");
  seen.buttons = all(".modebar-btn").map(node => node.dataset.title);
  seen.log = texts(".xtick text");
  seen.frame = frame();
  seen.end = await hover(0, 1);
  ground().dispatchEvent(new MouseEvent("mouseout", {bubbles: true}));
  await pause(200);
  seen.left = labels().length;
  seen.keys = [await press("ArrowRight"), await press("ArrowRight"), await press("ArrowLeft")];
  await click(document.querySelector(".log-x"));
  seen.linear = texts(".xtick text");
  seen.pressed = document.querySelector(".log-x").getAttribute("aria-pressed");
  seen.start = await hover(0, 0);
  await click(name(1));
  seen.hidden = [shown(), graph.data.map(({visible}) => visible)];
  await choose("y", "disagreement");
  await choose("x", "seconds");
  seen.still = shown();
  await click(name(1));
  seen.again = shown();
  await click(document.querySelector(".log-x"));
  seen.other = await hover(0, 1);
  await click(name(2), 2);
  seen.alone = shown();
  for (const node of all(".switches button")) {
    await click(node);
    seen[node.textContent] = [shown(), texts(".annotation-text")];
  }
  seen.foreign = all("#x").length;
  seen.wide = document.documentElement.scrollWidth - innerWidth;
  seen.fetched = performance.getEntriesByType("resource").map(({name}) => name);
}
visit().catch(error => problems.push(String(error))).then(() => {
  seen.problems = problems;
  document.body.append(Object.assign(document.createElement("pre"), {id: "seen", textContent: JSON.stringify(seen)}));
});
}
</script>"""


def runs():
    """Three solvers, three repeats: one with many rows, one that diverges in two of them."""

    def make(solver, seed):
        def work(engine):
            history, random = History(), np.random.default_rng(seed)
            for row in range(ROWS[solver]):
                blown_up = 1e4**row if solver == FAILING else 1.0
                quantities = {
                    "objective": random.uniform(1, 2) / (row + 1) * blown_up,
                    "disagreement": random.uniform(0.5, 1.5),
                }
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
    end = page.rindex("</body>")
    copy = page[:end].replace("<style>", f"{WATCH}<style>", 1) + READER + page[end:]
    (folder / "page.html").write_text(copy)
    command = [CHROMIUM, *OPTIONS.split(), f"--user-data-dir={folder / 'profile'}", (folder / "page.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
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
    assert seen["fetched"] == []
    names = [f"{NEXT} (3 runs)", f"{ODD} (3 runs)", f"{FAILING} (3 runs, 2 diverged)"]
    assert [text.replace(" ", "") for text in seen["names"]] == [name.replace(" ", "") for name in names]  # broken into lines
    assert len(set(seen["strokes"])) == len(ROWS)
    assert seen["bands"] == len(ROWS)
    assert seen["titles"] == [plotting.LABELS["exchanges"], plotting.LABELS["objective"]]
    assert seen["foreign"] == 0
    assert seen["wide"] <= 0  # nothing sticks out of the page


def test_no_button_sends_data_away(seen):
    assert seen["buttons"] == ["Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"]


def test_pointing_at_a_curve_shows_its_numbers(seen):
    spread = last(NEXT, "objective")
    middle, low, high = (f"{value:.4g}" for value in spread)
    assert seen["end"][0] == f"exchanges with neighbours: {2 * ROWS[NEXT] - 2}"
    assert seen["end"][1] == f"{NEXT}: {middle} [{low}, {high}]"
    assert [line.split(": ")[0] for line in seen["end"][1:]] == [NEXT, ODD]  # the third has ended long before
    assert seen["left"] == 0


def test_the_arrow_keys_read_the_numbers(seen):
    assert [shown[0] for shown in seen["keys"]] == [f"exchanges with neighbours: {x}" for x in (2, 4, 2)]
    assert seen["keys"][0] == seen["keys"][2] != seen["keys"][1]


def test_the_axes_follow_the_buttons_and_the_choices(seen):
    assert {"10", "100", "1000"} <= set(seen["log"])
    assert {text.rstrip("0") for text in seen["log"]} <= {"1", "2", "5"}
    assert len(seen["linear"]) > 4
    steps = np.diff([float(text) for text in seen["linear"]])
    np.testing.assert_allclose(steps, steps[0], rtol=1e-9)
    assert seen["pressed"] == "false"
    assert seen["start"][0].endswith("neighbours: 0")  # which a logarithmic axis does not show
    assert seen["other"][0] == f"wall time in rounds [s]: {last(NEXT, 'seconds').middle}"
    assert seen["other"][1].startswith(f"{NEXT}: {last(NEXT, 'disagreement').middle:.4g} [")


def test_a_click_on_a_name_hides_a_curve_and_shows_it_again(seen):
    assert seen["hidden"] == [len(ROWS) - 1, [True, True, "legendonly", "legendonly", True, True]]
    assert seen["still"] == len(ROWS) - 1  # whatever is chosen
    assert seen["again"] == len(ROWS)
    assert seen["alone"] == 1
    assert seen["show all"] == [len(ROWS), []]
    assert seen["hide all"] == [0, ["no curve to show"]]


def test_a_curve_that_diverges_leaves_the_frame_to_the_others(seen):
    others = [run.work(None).history["objective"] for (solver, _), run in runs().items() if solver != FAILING]
    low, high = 10.0 ** np.array(seen["frame"])
    assert low < min(values[1:].min() for values in others)
    assert max(values[1:].max() for values in others) < high < 2 * max(values[1:].max() for values in others)


@pytest.mark.skipif(NODE is None, reason="there is no Node to run the page's script")
def test_which_curves_leave_the_frame():
    source = (Path(report.__file__).parent / "curves.js").read_text()
    curve = "ys => ({points: ys.map((y, x) => ({x, y, low: y, high: y}))})"
    cases = "[[[1, 0.5], [1, 1e290]], [[1, 0.5], [1, 900]], [[1, 0.5], [1, 9000, 9]], [[1, 0.5], [1, 2000]], [[1, 1e290]],"
    cases += "[[1, NaN, Infinity], [2, 3], [0, 9]]]"
    program = f"{source} console.log(JSON.stringify({cases}.map(runs => ends(runs.map({curve}), true))))"
    out = subprocess.run([NODE, "-e", program], capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == [[0.5, 1], [0.5, 900], [0.5, 9000], [0.5, 1], [1, 1e290], [1, 9]]


def test_curves_look_as_in_the_figures():
    look = plots.look()
    assert look["colours"] == plotting.COLOURS
    assert len(look["symbols"]) == len(set(look["symbols"])) == len(plotting.MARKERS)
    assert look["dashes"][0] == "solid"
    assert len(set(look["dashes"])) == len(plotting.DASHES)
    assert look["dashes"][-1] == "8px,1.6px,1.6px,1.6px,1.6px,1.6px"  # Matplotlib's lengths are in widths of the line, 1.6
