"""Runs from a file of settings."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import consensus
from consensus import _checks, engines
from consensus.checkpoints import checkpoint as checkpoints
from consensus.cli.build import SOLVERS, WITHOUT_ROUNDS, attempt, make
from consensus.cli.config import Config, Key
from consensus.cli.report import figure, table
from consensus.cli.setting import Setting, setting
from consensus.engines import Engine
from consensus.errors import DivergenceError, Interrupted, RunError
from consensus.history import History
from consensus.solve import ENGINES
from consensus.solvers import Solver

TABLES = ("data", "engine", "model", "network", "output", "run", "solver")
RUN = ("rounds", "seed", "record_every", "tolerance", "exchanges", "seconds", "every", "stop", "keep", "metrics_on")
KINDS: dict[str, type[Engine]] = {name: getattr(engines, kind) for name, kind in ENGINES.items()}
LONGEST = 50  # characters of a file's name
Folder: TypeAlias = str | os.PathLike[str] | None


def run(config: Config, checkpoint: Folder = None, resume: Folder = None) -> dict[str, consensus.Result]:
    """Train a model over a network as a TOML file says; print a table, and write histories, results and a figure.

    Parameters
    ----------
    config : Config
        The settings.
    checkpoint : path, optional
        A folder, to which the state of every solver's run is written, every ``every`` rounds and at its end.
    resume : path, optional
        A folder of such checkpoints: solvers that have one there go on from it, the others begin.

    Returns
    -------
    dict of str to Result
        By the solvers' labels; those that diverged, or failed otherwise, are missing.

    Raises
    ------
    ConfigError
        If settings cannot be run; before any work.
    Interrupted
        On ctrl-C, after everything that was computed is written.

    Examples
    --------
    >>> import contextlib, io, os, pathlib, tempfile
    >>> from consensus.cli import Config, run
    >>> values = {"run": {"rounds": 20}, "data": {"name": "diabetes", "agents": 4}, "network": {"graph": "ring"}}
    >>> with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    ...     config = Config(pathlib.Path("mine.toml"), values | {"output": {"folder": folder}}, {})
    ...     results, files = run(config), sorted(os.listdir(folder))
    >>> list(results), files
    (['Auto'], ['auto.csv', 'auto.npz', 'mine.png'])
    """
    checkpoint = None if checkpoint is None else _checks.path("checkpoint", checkpoint)
    resume = None if resume is None else _checks.path("resume", resume)
    config.table((), TABLES)
    for name in ("init_method", "rank", "size"):
        if config.at(("engine", name)) is not None:
            trust = f"{name} cannot be in a file, whose writer would choose whom this process trusts"
            remedy = "start ranks by torchrun, srun or consensus-opt submit, which tell them where they meet"
            raise config.error(("engine", name), f"{trust}: {remedy}")
    engine = make(config, ("engine",), KINDS, **config.start) if config.at(("engine",)) else engines.Stacked()
    plan = _plan(config, engine, checkpoint, resume)
    if len(plan.solvers) > 1:  # else solve itself looks first
        _check(config, plan)
    problem, _, network = plan.setting
    folder, files = plan.folder, plan.files
    if engine.root:  # under MPI every rank comes here
        sizes = problem.shards.sizes
        print(
            f"{problem.agents} agents, {sizes.sum()} training samples of {config.at(('data', 'name'))} ({sizes.min()} to "
            f"{sizes.max()} each), {problem.parameters} parameters\n{network}\n"
        )

    results: dict[str, consensus.Result] = {}
    histories: dict[str, History] = {}
    ends = dict.fromkeys(plan.solvers, "not run")
    try:
        for label, (key, solver) in plan.solvers.items():  # all from the same start, which the seed draws
            try:
                arguments = plan.options | plan.places[label] | {"progress": True}
                results[label] = attempt(config, key, consensus.solve, problem, network, solver, **arguments)
                histories[label], ends[label] = results[label].history, "done"
            except Interrupted as stopped:
                ends[label] = "interrupted"
                if stopped.history.rows:
                    results[label], histories[label] = stopped.result, stopped.history
                raise
            except Exception as error:
                ends[label] = "diverged" if isinstance(error, DivergenceError) else "failed"
                history = getattr(error.__cause__ or error, "history", None)  # ours say which error they come from
                if history is not None and history.rows:
                    histories[label] = history
                if not isinstance(error, RunError):
                    raise
                if engine.root:  # the others may do better
                    print(f"{label}: {error}", file=sys.stderr)
            finally:  # at once: what comes later may end the whole process
                if engine.root and label in histories:
                    histories[label].to_csv(Path(folder, f"{files[label]}.csv"))
                    if label in results:
                        results[label].save(Path(folder, f"{files[label]}.npz"))
    finally:
        if engine.root and histories:
            print(table(histories, ends))
            path = Path(folder, f"{config.path.stem}.png")
            figure(histories).savefig(path, dpi=150)
            print(f"\nThe figure is in {path}, histories and results beside it.")
    return results


class _Plan(NamedTuple):
    """Requests of a file: the solvers, and by label the names of their files and the checkpoint arguments of ``solve``."""

    setting: Setting
    solvers: dict[str, tuple[Key, Solver | None]]
    options: dict[str, Any]
    folder: Path
    files: dict[str, str]
    places: dict[str, dict[str, Path]]


def check(config: Config, checkpoint: Folder = None, resume: Folder = None) -> int:
    """Raise the errors of :func:`run`, whatever the engine, without a run; make its folders. Return the number of agents."""
    config.table((), TABLES)
    plan = _plan(config, engines.Stacked(), checkpoint, resume)
    _check(config, plan)
    return plan.setting.problem.agents


def all_done(config: Config, results: Mapping[str, consensus.Result]) -> bool:
    """Return whether every solver of a file has a result."""
    return len(results) >= max(1, len(config.at(("solver",), [])))


def output(config: Config) -> Path:
    """Return the folder of a file's results."""
    folder = config.table(("output",), ("folder",)).get("folder", f"results/{config.path.stem}")
    if not isinstance(folder, str):
        raise config.error(("output", "folder"), f"folder must be a text, the path of a folder; got {folder!r}")
    return _checks.path("folder", folder)


def begun(config: Config, checkpoint: Path) -> bool:
    """Return whether any of a file's solvers has a checkpoint in a folder."""
    return any(Path(checkpoint, f"{file}.ckpt").is_file() for file in _files(_solvers(config)).values())


def _plan(config: Config, engine: Engine, checkpoint: Folder, resume: Folder) -> _Plan:
    options = dict(config.table(("run",), RUN))
    if "rounds" not in options:
        raise config.error(("run",), "[run] needs rounds = the number of rounds at most")
    attempt(config, ("run",), _checks.count, "rounds", options["rounds"])
    seed = options.setdefault("seed", 0)
    solvers = _solvers(config)
    files, folder = _files(solvers), output(config)
    where = setting(config, seed)
    options |= {"engine": engine, "test": where.test}
    resumed = engine.broadcast(lambda: _resumed(config, folder, files, checkpoint, resume))
    places = _places(files, checkpoint, resume, resumed)  # no rank tells another one a path
    return _Plan(where, solvers, options, folder, files, places)


def labelled(config: Config) -> dict[str, Key]:
    """Return the keys of a file's solvers by label."""
    listed = config.at(("solver",), [])
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise config.error(("solver",), "solvers are tables [[solver]], with two brackets: there may be several")
    found: dict[str, Key] = {}
    for index, one in enumerate(listed):
        key = ("solver", index)
        if "kind" not in one:
            raise config.error(key, '[[solver]] needs a kind, such as kind = "NEXT"; without any [[solver]] Auto runs')
        label = one.get("label", one["kind"])
        if not (isinstance(label, str) and label.strip() and label.isprintable()):
            raise config.error((*key, "label"), f"label must be a text of one line, such as 'NEXT, tau = 1'; got {label!r}")
        if label in found:
            raise config.error(key, f"there is a solver labelled {label!r} already: give this one another label")
        found[label] = key
    return found


def _solvers(config: Config, known: Mapping[str, type] = SOLVERS) -> dict[str, tuple[Key, Solver | None]]:
    """Return ``{label: (key, solver)}``; the default of :func:`consensus.solve` if the file has none."""
    found = {label: (key, make(config, key, known)) for label, key in labelled(config).items()}
    return found or {"Auto": (("run",), None)}


def solver_of(config: Config) -> tuple[Key, Solver | None]:
    """Return the key and the only solver of a file, which may be one without rounds; None if it has none."""
    found = list(_solvers(config, SOLVERS | WITHOUT_ROUNDS).values())
    if len(found) > 1:
        raise config.error(("solver", 1), "peers run one solver: leave all [[solver]] but one away")
    return found[0]


def _files(labels: Iterable[str]) -> dict[str, str]:
    """Return a file name for every label: its letters and digits, and a number if another label has them, too."""
    names: dict[str, str] = {}
    for label in labels:
        plain = re.sub(r"[^\w.-]+", "-", label.lower().replace(",", ""))[:LONGEST].strip("-.") or "solver"
        name, number = plain, 1
        while name in names.values():
            number += 1
            name = f"{plain}-{number}"
        names[label] = name
    return names


def _resumed(config: Config, folder: Path, files: dict[str, str], checkpoint: Folder, resume: Folder) -> list[str]:
    """Make all folders, which must be writable; return the labels of solvers that have a checkpoint to be resumed."""
    for name, place, key in (("folder", folder, ("output", "folder")), ("checkpoint", checkpoint, ())):
        try:
            if place is not None:
                Path(place).mkdir(parents=True, exist_ok=True)
                tempfile.TemporaryFile(dir=place).close()
        except OSError as error:
            raise config.error(key, f"{name} must be a folder that can be written, not {place}: {error.strerror}") from error
    if resume is None:
        return []
    there = {label: Path(resume, f"{files[label]}.ckpt") for label in files}
    found = [label for label, path in there.items() if path.is_file()]
    if not found:
        raise config.error((), f"{resume} has no checkpoint of {', '.join(files)}: it would be {next(iter(there.values()))}")
    return found


def _places(files: dict[str, str], checkpoint: Folder, resume: Folder, resumed: Sequence[str]) -> dict[str, dict[str, Path]]:
    """Return ``{label: arguments}`` for checkpoints."""
    named = {"checkpoint": (checkpoint, files), "resume": (resume, resumed)}
    return {
        label: {
            name: Path(folder, f"{file}.ckpt")
            for name, (folder, labels) in named.items()
            if folder is not None and label in labels
        }
        for label, file in files.items()
    }


def _check(config: Config, plan: _Plan) -> None:
    """Raise the errors of ``solve`` for any of the solvers before the first one runs, by runs of no rounds."""
    for label, (key, solver) in plan.solvers.items():
        resume = plan.places[label].get("resume")
        with warnings.catch_warnings(), suppress(RunError):  # these are the run's own
            warnings.simplefilter("ignore")
            rounds = attempt(config, key, checkpoints.read, resume).round if resume else 0
            arguments = plan.options | {"rounds": rounds, "resume": resume}
            if plan.options["engine"].size == 1:
                arguments["engine"] = "stacked"
            attempt(config, key, consensus.solve, plan.setting.problem, plan.setting.network, solver, **arguments)
