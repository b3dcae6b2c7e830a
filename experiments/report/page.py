"""The page on some experiments, as text."""

import re
from html import escape
from pathlib import Path
from string import Template

from consensus import _extras
from experiments.__main__ import found
from experiments.report.plots import plot
from experiments.report.runs import read
from experiments.report.sections import anchor, section

get_plotlyjs = _extras.module("plotly.offline", "this script", "experiments").get_plotlyjs
HERE = Path(__file__).parent


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
