"""A folder of results with one experiment, and its page."""

import pytest

from experiments.report import __main__ as report
from experiments.shared.harness import Experiment
from experiments.shared.tables import Spread, Table
from tests.helpers.report_cases import ROWS, runs


@pytest.fixture(scope="package")
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


@pytest.fixture(scope="package")
def page(folder):
    report.main([str(folder)])
    return (folder / "report.html").read_text()
