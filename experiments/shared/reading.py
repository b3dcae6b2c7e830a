"""Tables and options of finished experiments, as they were written."""

import csv
import itertools
import json


def rows(path):
    """The rows of a CSV file as dictionaries of text."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def grouped(path, by="data set"):
    """Rows with the same text in the column ``by``, one after another: (text, rows)."""
    return ((name, list(group)) for name, group in itertools.groupby(rows(path), key=lambda row: row[by]))


def options(folder):
    """The options with which an experiment was run."""
    return json.loads((folder / "about.json").read_text())["options"]
