"""The runs in an experiment's folder, as the report shows them."""

import json
import sys
from collections import Counter
from typing import NamedTuple

import numpy as np

from consensus.history import History

QUANTITIES = ("objective", "stationarity", "disagreement", "test_error")
AXES = ("exchanges", "round", "epochs", "floats", "bytes", "seconds")
MOST = 320  # points of a run on the page


class Recorded(NamedTuple):
    """Contents of a run's folder: its name, the four JSON and CSV files, and the columns that the page can draw."""

    folder: str
    settings: dict
    config: dict
    environment: dict
    reason: str
    columns: dict


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


def tally(records, name):
    """Return the number of records with each value of ``name``, None for those without one."""
    values = (record.get(name) for record in records)
    return Counter(value if isinstance(value, str) else json.dumps(value) for value in values)
