"""One HTML page of a results folder: plots that answer to the pointer, tables, settings; it needs no network."""

import argparse
import csv
import json
import math
import sys
from collections import Counter, defaultdict
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple
from urllib.parse import quote

import matplotlib
import numpy as np

from consensus import plotting
from consensus.history import History
from experiments.__main__ import found

QUANTITIES = ("objective", "stationarity", "disagreement", "test_error")
AXES = ("exchanges", "round", "floats", "bytes", "seconds")
MOST = 320  # points of a run on the page
HERE = Path(__file__).parent


class Recorded(NamedTuple):
    """What a run's folder says: its name, the four JSON and CSV files, and the columns that the page can draw."""

    folder: str
    settings: dict
    config: dict
    environment: dict
    reason: str
    columns: dict


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m experiments.report", description=__doc__)
    parser.add_argument("folder", type=Path, help="of results, or of one experiment in it; report.html is written there")
    folder = parser.parse_args(arguments).folder
    if not folder.is_dir():
        sys.exit(f"error: there is no folder {folder}")
    folders = experiments_in(folder)
    if not folders:
        sys.exit(f"error: {folder} holds no experiment, a folder with 'runs' in it as `python -m experiments all` writes them")
    target = folder / "report.html"
    try:
        target.write_text(page(folders), encoding="utf-8")
    except OSError as error:
        sys.exit(f"error: cannot write {target} ({error.strerror})")
    print(f"report  {target}")


def experiments_in(folder):
    """The experiments' folders: ``folder`` itself if it is one, otherwise those in it."""
    return [path for path in (folder, *sorted(folder.iterdir())) if (path / "runs").is_dir()]


def page(folders):
    """The page on these experiments, as text."""
    about = {module.partition(".")[2]: line for module, line, _ in found(HERE.parent)}
    names = [folder.resolve().name for folder in folders]
    plots, sections = [], []
    for name, folder in zip(names, folders, strict=True):
        runs = list(read(folder))
        tables = {
            path.stem: _lines(path) for path in sorted(folder.glob("*.csv"), key=lambda path: (path.stem != "table", path))
        }
        plots.append(plot(runs, [cell for lines in tables.values() for line in lines for cell in line]))
        sections.append(section(name, about.get(name, ""), runs, tables, plots[-1]))
    links = "".join(f'<li><a href="#{_anchor(name)}">{escape(name)}</a></li>' for name in names)
    data = {"plots": plots, "labels": plotting.LABELS, "colours": plotting.COLOURS, "dashes": _dashes()}
    data["markers"] = plotting.MARKERS
    return Template((HERE / "page.html").read_text()).substitute(
        title=escape(f"Results: {', '.join(names)}"),
        links=links,
        sections="\n".join(sections),
        data=json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", r"\u003c"),
        script=(HERE / "report.js").read_text(),
    )


def read(folder):
    """The experiment's runs; those whose folder is damaged are left out, with a line that says so."""
    for path in sorted((folder / "runs").glob("[!.]*")):
        try:
            config, environment, outcome = (
                json.loads((path / f"{name}.json").read_text()) for name in ("config", "environment", "outcome")
            )
            history, timing = (History.from_csv(path / f"{name}.csv") for name in ("history", "timing"))
            columns = {name: part[name] for part in (timing, history) for name in part if name in (*AXES, *QUANTITIES)}
            if len({len(column) for column in columns.values()}) > 1:
                raise ValueError("timing.csv has other rows than history.csv")
            settings = config.pop("settings")
            config = {f"{name} (in full)" if name in settings else name: value for name, value in config.items()}
            yield Recorded(path.name, settings, config, environment, outcome["reason"], _thin(columns))
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"left out: {path} ({error})", file=sys.stderr)


def _thin(columns):
    """At most ``MOST`` rows: half of them evenly, half dense at the start, where a logarithmic axis looks closely."""
    rows = len(next(iter(columns.values()), ()))
    if rows <= MOST:
        kept = slice(None)
    else:
        parts = np.linspace(0, rows - 1, MOST // 2), np.geomspace(1, rows, MOST // 2) - 1
        kept = np.unique(np.concatenate(parts).round().astype(int))
    return {name: column[kept] for name, column in columns.items()}


def plot(runs, words):
    """What the page's script draws of the runs.

    A curve is every run with the same settings but for the seed. The settings that vary are the plot's ``dimensions``: the
    reader fixes one at a value or shows all; at the start those are fixed of which every value comes with the same of the
    others. Where one solver was tried with several settings, the curves with most repeats are shown first. Values come in the
    order of ``words``, the cells of the tables. Columns that runs share are kept once, numbers with six digits.
    """
    curves, columns = defaultdict(list), {}
    for run, settings in zip(runs, _told_apart(runs), strict=True):
        if not run.columns.keys().isdisjoint(QUANTITIES):
            curves[tuple(sorted((name, json.dumps(value)) for name, value in settings.items()))].append(run)
    order = {word: number for number, word in reversed(list(enumerate(words)))}
    known = {name: None for run in runs for name in run.settings} | {name: None for key in curves for name, _ in key}
    dimensions = []
    for name in known:
        values = {dict(key).get(name, "null") for key in curves}
        if len(values) > 1 or (name == "solver" and values > {"null"}):
            dimensions.append((name, sorted(values, key=lambda value: _rank(json.loads(value), order))))
    names = [name for name, _ in dimensions]
    places = {key: tuple(values.index(dict(key).get(name, "null")) for name, values in dimensions) for key in curves}
    fixed = _fixed(names, set(places.values()))
    kin = {
        key: tuple(place[i] for i, name in enumerate(names) if name in fixed or name == "solver")
        for key, place in places.items()
    }
    most = {part: max(len(curves[key]) for key in curves if kin[key] == part) for part in set(kin.values())}
    drawn = []
    for key in sorted(curves, key=lambda key: (len(curves[key]) < most[kin[key]], places[key])):
        repeats = [
            {
                "folder": run.folder,
                "diverged": run.reason.startswith("diverged"),
                "columns": {name: columns.setdefault(_numbers(column), len(columns)) for name, column in run.columns.items()},
            }
            for run in curves[key]
        ]
        drawn.append({"place": places[key], "shown": len(repeats) == most[kin[key]], "runs": repeats})
    there = {name for runs in curves.values() for run in runs for name in run.columns}
    return {
        "dimensions": [
            {"name": name, "values": [_word(name, json.loads(value)) for value in values], "fixed": name in fixed}
            for name, values in dimensions
        ],
        "curves": drawn,
        "columns": list(columns),
        "x": [name for name in AXES if name in there],
        "y": [name for name in QUANTITIES if name in there],
    }


def _told_apart(runs):
    """The settings of each run without the seed; with what else differs where runs have these and the seed in common."""
    curves = [{name: value for name, value in run.settings.items() if name != "seed"} for run in runs]
    alike, more = defaultdict(list), defaultdict(set)
    for run, settings in zip(runs, curves, strict=True):
        alike[json.dumps(settings), run.settings.get("seed")].append(run.config)
    for (key, _), configs in alike.items():
        more[key] |= {name for config in configs for name in config if len(_counts(configs, name)) > 1}
    return [
        settings | {name: run.config.get(name) for name in sorted(more[json.dumps(settings)])}
        for run, settings in zip(runs, curves, strict=True)
    ]


def _fixed(names, places):
    """The dimensions that the page begins with one value of: the data set, and what is crossed with all others."""
    fixed = set()
    for i, name in enumerate(names):
        others = defaultdict(set)
        for place in places:
            others[place[i]].add(place[:i] + place[i + 1 :])
        if name == "dataset" or (name != "solver" and all(part == others[0] for part in others.values())):
            fixed.add(name)
    return fixed - set(names[-1:]) if len(fixed) == len(names) else fixed


def _rank(value, order):
    number = value if isinstance(value, int | float) else math.inf
    return order.get(str(value), len(order)), number, str(value)


def _word(name, value):
    return "" if value is None else value if isinstance(value, str) else f"{name} {json.dumps(value)}"


def _numbers(column):
    return tuple(None if not math.isfinite(v) else v if isinstance(v, int) else float(f"{v:.6g}") for v in column.tolist())


def _dashes():
    """The line styles of :mod:`consensus.plotting` as lengths of dashes and gaps, in line widths."""
    named = {"-": (), "--": "lines.dashed_pattern", "-.": "lines.dashdot_pattern", ":": "lines.dotted_pattern"}
    patterns = (named[dash] if isinstance(dash, str) else dash[1] for dash in plotting.DASHES)
    return [matplotlib.rcParams[pattern] if isinstance(pattern, str) else pattern for pattern in patterns]


def section(name, about, runs, tables, drawn):
    """An experiment's part of the page."""
    diverged = sum(run.reason.startswith("diverged") for run in runs)
    seeds = sorted({run.settings["seed"] for run in runs if "seed" in run.settings})
    facts = [
        f"{len(runs)} runs",
        f"seeds {', '.join(map(str, seeds))}" if seeds else "",
        f"{diverged} diverged" if diverged else "",
    ]
    parts = [f"<h2>{escape(name)}</h2>", f"<p>{escape(about)}</p>", f'<p class="facts">{"; ".join(filter(None, facts))}</p>']
    parts.append('<div class="plot"></div>' if drawn["curves"] else '<div class="plot">No run has a quantity to draw.</div>')
    parts += [_table(title, lines) for title, lines in tables.items() if lines]
    parts.append(_details("Settings of the runs", [run.settings | run.config for run in runs]))
    parts.append(_details("Environment of the runs", [run.environment for run in runs]))
    return "\n".join([f'<section id="{_anchor(name)}" aria-label="{escape(name)}">', *parts, "</section>"])


def _lines(path):
    with open(path, newline="") as file:
        return [line for line in csv.reader(file) if line]


def _table(title, lines):
    """A table of numbers to four digits; the three columns of a spread become one, as in the Markdown."""
    header, *rows = lines
    spreads = [i for i, name in enumerate(header[:-2]) if header[i + 1] == f"{name}, smallest"]
    kept = [i for i in range(len(header)) if i - 1 not in spreads and i - 2 not in spreads]

    def cell(row, i):
        middle, *ends = (_shown(text) for text in row[i : i + 3 if i in spreads else i + 1])
        return middle if set(ends) <= {middle} else f"{middle} [{', '.join(ends)}]"

    tags = ['<td class="text">' if any(_number(row[i]) is None for row in rows) else "<td>" for i in kept]
    body = ["".join(f"{tag}{escape(cell(row, i))}</td>" for tag, i in zip(tags, kept)) for row in rows]
    head = "".join(f"{tag.replace('td', 'th')}{escape(header[i])}</th>" for tag, i in zip(tags, kept))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{row}</tr>' for row in body)}</tbody></table>"
    title = escape(title)
    return f'<h3>{title}.csv</h3>\n<div class="wide" tabindex="0" role="region" aria-label="{title}">{table}</div>'


def _number(text):
    """The number in a cell, NaN in an empty one; None in one with words."""
    try:
        return float(text or "nan")
    except ValueError:
        return None


def _shown(text):
    number = _number(text)
    if number is None or text.isdecimal():
        return text
    return f"{number:.{4 if abs(number) < 1000 else 6}g}" if math.isfinite(number) else "–" if math.isnan(number) else "never"


def _details(title, records):
    """A list that unfolds: what all runs have in common, then what differs with the numbers of runs."""
    counts = {name: _counts(records, name) for name in {name: None for record in records for name in record}}
    differ = [name for name in counts if len(counts[name]) > 1]
    summary = f"{title}: {'they differ in ' + ', '.join(differ) if differ else 'the same in all'}"
    entries = "".join(_entry(name, counts[name]) for name in sorted(counts, key=differ.__contains__))
    return f"<details><summary>{escape(summary)}</summary><dl>{entries}</dl></details>"


def _counts(records, name):
    """How many records have each value of ``name``, None where they have none."""
    values = (record.get(name) for record in records)
    return Counter(value if isinstance(value, str) else json.dumps(value) for value in values)


def _entry(name, counts):
    if len(counts) == 1:
        return f"<dt>{escape(name)}</dt><dd>{escape(next(iter(counts)))}</dd>"
    items = "".join(
        f"<li>{escape('not there' if value == 'null' else value)} <small>{number} runs</small></li>"
        for value, number in sorted(counts.items())
    )
    values = f"<ul>{items}</ul>"
    if len(counts) > 8:
        values = f"<details><summary>{len(counts)} values</summary>{values}</details>"
    return f"<dt>{escape(name)}</dt><dd>{values}</dd>"


def _anchor(name):
    return quote(name, safe="")


if __name__ == "__main__":
    main()
