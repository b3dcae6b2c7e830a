"""The page on some experiments, as text."""

import re
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import quote

from consensus import _extras
from experiments.__main__ import found
from experiments.report.plots import plot
from experiments.report.runs import read, tally

get_plotlyjs = _extras.module("plotly.offline", "this script", "experiments").get_plotlyjs
HERE = Path(__file__).parent
BUTTONS = [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]]  # none that shares data
CONFIG = {"responsive": True, "displaylogo": False, "modeBarButtons": BUTTONS, "doubleClick": "reset"}


def page(folders):
    """The page on these experiments, as text."""
    about = {module.partition(".")[2]: line for module, line, _ in found(HERE.parent)}
    names = [folder.resolve().name for folder in folders]
    sections = []
    for name, folder in zip(names, folders, strict=True):
        runs = list(read(folder))
        paths = sorted(folder.glob("*.md"), key=lambda path: (path.stem != "table", path))
        tables = {path.stem: [_cells(line) for line in path.read_text().splitlines()] for path in paths}
        figure = plot(runs, [cell for lines in tables.values() for line in lines for cell in line])
        sections.append(section(name, about.get(name, ""), runs, tables, figure))
    links = "".join(f'<li><a href="#{anchor(name)}">{escape(name)}</a></li>' for name in names)
    return Template((HERE / "page.html").read_text()).substitute(
        title=escape(f"Results: {', '.join(names)}"),
        links=links,
        sections="\n".join(sections),
        plotly=get_plotlyjs().replace("</script", r"<\/script"),
    )


def _cells(line):
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


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
    parts += [_table(title, lines) for title, lines in tables.items()]
    parts.append(_details("Settings of the runs", [run.settings | run.config for run in runs]))
    parts.append(_details("Environment of the runs", [run.environment for run in runs]))
    return "\n".join([f'<section id="{anchor(name)}" aria-label="{escape(name)}">', *parts, "</section>"])


def _table(title, lines):
    """A table as its Markdown has it: the rows of cells, of which the second are the marks that align columns."""
    header, marks, *rows = lines
    kinds = [' class="text"' if mark.startswith(":") else "" for mark in marks]

    def row(tag, cells):
        shown = (f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return f"<tr>{''.join(shown)}</tr>"

    body, title = "".join(row("td", cells) for cells in rows), escape(title)
    table = f"<table><thead>{row('th', header)}</thead><tbody>{body}</tbody></table>"
    return f'<h3>{title}.md</h3>\n<div class="wide" tabindex="0" role="region" aria-label="{title}">{table}</div>'


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
