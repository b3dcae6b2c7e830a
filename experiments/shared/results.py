"""Runs and their folders: what is there, and was done with the same settings, is not done again."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import consensus
from consensus.history import History

RECORDS = 300  # rows of a history, about
WALL_CLOCK = "seconds"  # how the columns begin that no two runs share


class Outcome(NamedTuple):
    """Result of a run: its history, the final iterates w (agents, P), why it ended, and the run."""

    history: History
    w: np.ndarray
    reason: str = "done"
    run: Any = None

    @property
    def diverged(self):
        """True if the run ended before its time; ``w`` is then empty."""
        return len(self.w) == 0

    @property
    def problem(self):
        """What it is on."""
        return self.run.case.problem


@dataclass(frozen=True, eq=False)
class Run:
    """One run of an experiment: ``work`` takes an engine, does the run and returns its Outcome.

    ``settings`` are what tells it from the experiment's other runs, for readers: strings and numbers by name. They make its
    folder's name. ``config`` is whatever else its result depends on, as JSON has it. An equal config is an equal run: neither
    the engine nor the number of workers belong there, for they change no result.
    ``case`` and ``network`` are what it is on, if it is on some.
    """

    settings: dict
    config: dict
    work: Callable
    case: Any = None
    network: Any = None

    @property
    def identity(self):
        """The settings and the config as they are read back from ``config.json``."""
        return json.loads(json.dumps({"settings": self.settings, **self.config}))

    @property
    def folder(self):
        """Name of its folder: readable, and another one for any other config."""
        words = (value if isinstance(value, str) else f"{name} {value}" for name, value in self.settings.items())
        readable = re.sub(r"[^a-z0-9.]+", "-", " ".join(words).lower()).strip("-.")
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()
        return f"{readable[:120]}-{digest[:8]}"


def complete(folder, run):
    """Return whether ``folder`` holds this run. Folders get their names last, so that there are no halves."""
    try:
        return json.loads((folder / run.folder / "config.json").read_text()) == run.identity
    except (FileNotFoundError, json.JSONDecodeError):
        return False


def load(folder, run):
    """The outcome of a complete run."""
    folder = folder / run.folder
    history = History()
    timing = History.from_csv(folder / "timing.csv")
    rest = History.from_csv(folder / "history.csv")
    for row, clock in zip(_rows(rest), _rows(timing), strict=True):
        history.append(row | clock)
    with np.load(folder / "iterates.npz") as arrays:
        w = arrays["w"]
    return Outcome(history, w, json.loads((folder / "outcome.json").read_text())["reason"], run)


def save(folder, run, outcome, environment):
    """Write a run's folder: to another name first, so that it is complete as soon as it is there.

    ``config.json`` holds every setting, ``environment.json`` where it was done, ``history.csv`` what was recorded but for wall
    time, which is in ``timing.csv``, ``iterates.npz`` the final iterates ``w``, ``outcome.json`` why the run ended.
    """
    final, part = folder / run.folder, folder / f".{run.folder}.part"
    shutil.rmtree(part, ignore_errors=True)  # left by a run that was killed
    part.mkdir(parents=True)
    _write_json(part / "config.json", run.identity)
    _write_json(part / "environment.json", environment)
    _write_json(part / "outcome.json", {"reason": outcome.reason})
    _write_csv(part / "history.csv", _rows(outcome.history, lambda name: not name.startswith(WALL_CLOCK)))
    _write_csv(part / "timing.csv", _rows(outcome.history, lambda name: name == "round" or name.startswith(WALL_CLOCK)))
    np.savez(part / "iterates.npz", w=outcome.w)
    shutil.rmtree(final, ignore_errors=True)  # of another config, or damaged
    os.replace(part, final)


def training(settings, case, network, solver, *, rounds, seed, exchanges=None, records=RECORDS, engine=None, **more):
    """A run of ``consensus.solve`` on a Case, whose start is that of ``seed``; the history gets about ``records`` rows.

    The solver's settings must show when it is printed; a function among them shows by its name only. With ``exchanges`` it ends
    with the first recorded round after so many. An ``engine`` of its own, such as a simulated clock, belongs to its config;
    ``metrics_on`` and ``metrics`` are options of ``consensus.solve``.
    """
    start = case.problem.model.init(np.random.default_rng(seed))
    every = max(1, rounds // records)
    config = {"rounds": rounds, "exchanges": exchanges, "record_every": every, **case.identity(start, network, solver)}
    config |= {name: value if name == "metrics_on" else list(value) for name, value in more.items() if value is not None}
    config |= {"engine": repr(engine)} if engine else {}

    def work(usual):
        options = {"start": start, "engine": engine or usual, "record_every": every, "test": case.test, **more}
        try:
            result = consensus.solve(case.problem, network, solver, rounds=rounds, exchanges=exchanges, **options)
        except consensus.DivergenceError as error:
            return Outcome(error.history, np.empty((0, case.problem.parameters)), f"diverged in round {error.round}")
        return Outcome(result.history, result.w, result.reason)

    return Run(settings, config, work, case, network)


def _rows(history, wanted=lambda name: True):
    """The rows of a history as dictionaries, of the ``wanted`` columns only."""
    rows = map(history.row, range(history.rows))
    return [{name: value for name, value in row.items() if wanted(name)} for row in rows]


def _write_csv(path, rows):
    part = History()
    for row in rows:
        part.append(row)
    part.to_csv(path)


def _write_json(path, content):
    path.write_text(json.dumps(content, indent=2) + "\n")
