"""An experiment's section of the report: its tables, the settings and the environment of its runs."""

import math
from html import escape
from urllib.parse import quote

from experiments.report.runs import tally

BUTTONS = [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]]  # none that shares data
CONFIG = {"responsive": True, "displaylogo": False, "modeBarButtons": BUTTONS, "doubleClick": "reset"}


def section(name, about, runs, tables, figure):
    """An experiment's part of the page."""
    diverged = sum(run.reason.startswith("diverged") for run in runs)
    seeds = sorted({run.settings["seed"] for run in runs if "seed" in run.settings})
    facts = [
        f"{len(runs)} runs",
        f"seeds {', '.join(map(str, seeds))}" if seeds else "",
        f"{diverged} diverged" if diverged else "",
    ]
    parts = [f"<h2>{escape(name)}</h2>", f"<p>{escape(about)}</p>", f'<p class="facts">{"; ".join(filter(None, facts))}</p>']
    drawn = "No run has a quantity to draw."
    if figure is not None:
        drawn = figure.to_html(CONFIG, include_plotlyjs=False, full_html=False, div_id=f"plot-{anchor(name)}")
    parts.append(f'<div class="plot">{drawn}</div>')
    parts += [_table(title, lines) for title, lines in tables.items() if lines]
    parts.append(_details("Settings of the runs", [run.settings | run.config for run in runs]))
    parts.append(_details("Environment of the runs", [run.environment for run in runs]))
    return "\n".join([f'<section id="{anchor(name)}" aria-label="{escape(name)}">', *parts, "</section>"])


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
    counts = {name: tally(records, name) for name in {name: None for record in records for name in record}}
    differ = [name for name in counts if len(counts[name]) > 1]
    summary = f"{title}: {'they differ in ' + ', '.join(differ) if differ else 'the same in all'}"
    entries = "".join(_entry(name, counts[name]) for name in sorted(counts, key=differ.__contains__))
    return f"<details><summary>{escape(summary)}</summary><dl>{entries}</dl></details>"


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


def anchor(name):
    return quote(name, safe="")
