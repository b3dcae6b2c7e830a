"""The report of a study: one HTML page."""

from __future__ import annotations

import base64
import contextlib
import html
import inspect
import io
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import consensus
from consensus.studies.frame import StudyTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from consensus.studies.study import Study

_STYLE = """
body {font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #111}
table {border-collapse: collapse; margin: 0.5rem 0 1.5rem; font-size: 0.9rem}
th, td {padding: 0.2rem 0.8rem 0.2rem 0; text-align: left; border-bottom: 1px solid #ddd; vertical-align: top}
pre {background: #f4f4f4; padding: 0.8rem; overflow-x: auto; font-size: 0.85rem}
img {max-width: 100%} div {overflow-x: auto}
"""


def page(study: Study) -> str:
    """Return the page of a study whose runs are all there."""
    study._plan.reported()  # or it says what is missing
    first = next(iter(study.solvers))
    runs = study.runs().reset_index()
    ended = runs[runs["ended"].str.startswith(("diverged", "failed"))]
    tuning = int((runs["for"] == "tuning").sum())
    parts = [
        f"<h1>{html.escape(study.measure.text)}</h1>",
        f"<p>{len(study.solvers)} solvers, {len(study.cells)} cases, {len(study.seeds)} seeds; {len(runs) - tuning} runs of at "
        f"most {study.rounds:,} rounds, and {tuning} for tuning on {len(study.tuning_seeds)} other seeds. Less is better.</p>",
        _table(study.table()),
        "<p>&gt; marks what was not reached within all rounds, or by a run that diverged or failed; how many of the seeds "
        "reached it is in brackets.</p>",
        _picture(
            study.plot("gap" if study.measure.column == "objective" else None),
            "medians with bands between the quartiles over seeds",
        ),
    ]
    try:
        profile: Any = study.profile().figure
        parts += [_picture(profile, "performance profile"), _table(study.differences(first))]
    except ValueError as error:  # a measure without ratios
        parts += [f"<p>{html.escape(str(error))}</p>"]
    if tuning:
        parts += ["<h2>Tuning</h2>", _table(study.grids())]
    if len(ended):
        shown = StudyTable.of(ended.drop(columns="file").to_dict("records"), ["solver"], "runs that diverged or failed")
        parts += ["<h2>Runs that diverged or failed</h2>", _table(shown)]
    parts += ["<h2>Settings</h2>", _pre("\n".join(_settings(study))), "<h2>Case</h2>", _pre(_source(study.case))]
    for name, function in {"Measure": study.measure.function, "Reference": study.reference}.items():
        parts += [f"<h2>{name}</h2>", _pre(_source(function))] if function else []
    parts += [
        "<h2>To repeat it</h2>",
        _pre(f"cd {shlex.quote(os.getcwd())}\n{shlex.join(['python', *sys.orig_argv[1:]])}"),
        "<h2>Versions and machine</h2>",
        _pre(_versions()),
    ]
    title = html.escape(study.measure.text)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>{"".join(parts)}</body></html>\n'
    )


def _settings(study: Study) -> list[str]:
    solvers = [f"{label}: {solver!r}" for label, solver in study.solvers.items()]
    over = [f"over {name}: {', '.join(map(str, values))}" for name, values in study.over.items()]
    seeds = [f"seeds: {study.seeds}", f"tuning seeds: {study.tuning_seeds}", f"rounds: {study.rounds}"]
    return [*solvers, *over, *seeds, f"folder: {study.folder}"]


def _source(case: object) -> str:
    try:
        return inspect.getsource(case)  # type: ignore[arg-type]  # the error is caught
    except (OSError, TypeError):
        return repr(case)


def _versions() -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        consensus.show_versions()
    return printed.getvalue()


def _pre(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def _table(table: StudyTable) -> str:
    return f"<div><p><b>{html.escape(table.caption)}</b></p>{table.to_html(border=0, float_format='{:.4g}'.format)}</div>"


def _picture(figure: Figure, what: str) -> str:
    import matplotlib.pyplot as plt

    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=150)
    plt.close(figure)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<p><img alt="{html.escape(what)}" src="data:image/png;base64,{data}"><br>{html.escape(what)}</p>'
