"""Tables: the same numbers in all three formats."""

import csv
import doctest
import io
import math
import re

import numpy as np
import pytest

import consensus
import topologies
from consensus.solvers import DGD
from experiments.shared import tables
from experiments.shared.cases import case
from experiments.shared.studies import Outcome
from experiments.shared.tables import Spread, Table, own_objectives

FORMATS = {"data set": "", "exchanges": ".0f", "error": ".3g", "stationarity": ".1e", "lost, %": ".0%"}
ROWS = [
    ("kin8nm", Spread(35.0, 30.0, math.inf), 0.123456, 1.23e-5, 0.5),
    ("a_b & c%", Spread(7.0, 7.0, 7.0), None, 4.5e10, 0.25),
    ("wine", 12.0, math.nan, math.inf, 0.0),
]


@pytest.fixture
def table():
    table = Table(FORMATS, seeds=5)
    for row in ROWS:
        table.add(*row)
    return table


def shown(value, form):
    """A CSV cell as the other formats show it."""
    if value in ("", "nan"):
        return "–"
    if value == "inf":
        return "never"
    return format(float(value), form) if form else value


def test_csv_holds_the_numbers_in_full(table):
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    assert [float(row["exchanges, largest"]) for row in rows] == [math.inf, 7.0, 12.0]
    assert float(rows[0]["error"]) == 0.123456
    assert rows[1]["error"] == ""
    assert rows[1]["data set"] == "a_b & c%"
    assert [row["seeds"] for row in rows] == ["5", "5", "5"]


def test_markdown_shows_what_csv_holds(table):
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    caption, _, header, rule, *lines = table.markdown().splitlines()
    assert caption == "median [smallest, largest] of 5 seeds"
    assert [cell.strip() for cell in header.strip("|").split("|")] == list(FORMATS)
    assert len({len(line) for line in (header, rule, *lines)}) == 1  # aligned
    for row, line in zip(rows, lines, strict=True):
        cells = dict(zip(FORMATS, [cell.strip() for cell in line.strip("|").split("|")], strict=True))
        for name, form in FORMATS.items():
            middle = shown(row[name], form)
            if name == "exchanges" and row[name] != row["exchanges, largest"]:
                middle += f" [{shown(row['exchanges, smallest'], form)}, {shown(row['exchanges, largest'], form)}]"
            assert cells[name] == middle


def test_latex_shows_what_markdown_shows(table):
    lines = table.latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrr}"
    assert [lines[1], lines[3], lines[-3], lines[-1]] == [r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}"]
    assert lines[-2] == r"\multicolumn{5}{l}{\footnotesize median [smallest, largest] of 5 seeds} \\"
    shown = table.markdown().splitlines()[2:]
    plain = [[cell.strip() for cell in line.strip("|").replace(" & ", " + ").split("|")] for line in shown]
    for line, expected in zip([lines[2], *lines[4:-3]], [plain[0], *plain[2:]], strict=True):
        assert line.endswith(r" \\")
        text = line[:-3].replace(r" \& ", " + ")
        text = re.sub(r"\$(\S+) \\times 10\^\{(-?\d+)\}\$", lambda m: f"{m[1]}e{int(m[2]):+03d}", text)
        assert [cell.replace("--", "–").replace("\\", "") for cell in text.split(" & ")] == expected


def test_rows_of_another_length_are_errors_and_repeats_that_never_got_there_infinite(table):
    with pytest.raises(ValueError, match="5 cells"):
        table.add("boston", 1.0)
    without = Table({"a": "", "b": "d"})
    assert without.csv() == "a,b\n"
    assert without.markdown().startswith("| a")  # nothing in it is over seeds
    assert Spread.of([3, math.inf, 1]) == (3.0, 1.0, math.inf)
    assert Spread.of([5, 2, 4, 9]) == (4.5, 2.0, 9.0)
    assert doctest.testmod(tables).failed == 0


def test_the_agents_own_copies_are_what_solve_records():
    shared, ring = case("diabetes", 5, 0, hidden=2, scheme="sorted"), topologies.ring(5)
    start = shared.problem.model.init(np.random.default_rng(0))
    recorded = consensus.solve(shared.problem, ring, DGD(0.3), rounds=20, start=start, agent_objectives=True)
    own = recorded.history["agent_objective"][-1]
    assert own.max() > 1.001 * recorded.history["objective"][-1]  # the mean is ahead of what any of them holds
    done = Outcome(recorded.history, recorded.w, made=lambda: (shared.problem, ring))
    mean, worst = (own_objectives([done, done], join) for join in (np.mean, np.max))
    np.testing.assert_allclose(mean, own.mean(), rtol=1e-12)
    np.testing.assert_allclose(worst, own.max(), rtol=1e-12)
    lost = Outcome(None, np.empty((0, 2)), "diverged in round 3")
    assert own_objectives([done, lost, lost], np.mean).middle == math.inf
