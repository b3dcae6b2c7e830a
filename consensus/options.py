"""The options of a run: budget, records, callbacks, checkpoints."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from consensus import _checks
from consensus._arrays.digest import digest
from consensus.engines.base import Engine
from consensus.observe import RoundInfo
from consensus.observe.callbacks import checked_callbacks
from consensus.observe.measure import checked_metrics
from consensus.observe.protocols import Method
from consensus.observe.recorder import ALWAYS, ASKED_FOR
from consensus.observe.stopping import EarlyStopping, StopRule, checked_column
from consensus.problems import BaseProblem
from consensus.problems.held_out import OwnedTest
from consensus.problems.minibatches import Minibatches, as_minibatches
from consensus.solvers.defaults import SolverDefaults

_OF_ONE_RANK = ("callbacks", "metrics", "progress", "test", "honest", "recorded")  # not compared with other ranks' as they are


@dataclass(frozen=True, kw_only=True)
class Record:
    """The rows that a run records, for ``record=`` of :func:`consensus.solve` and :func:`consensus.centralized.solve`.

    Each field is the keyword of :func:`consensus.solve` in parentheses, which describes it.

    Parameters
    ----------
    every : int or float, optional
        Rounds between two rows of the history, or their part of all rounds so far (``record_every``).
    metrics : mapping of str to callable, optional
        More columns (``metrics``).
    test : (X, y), dataset or Shards, optional
        For columns of test errors (``test``).
    agents : bool
        Whether to record U at every agent's own copy, too (``agent_objectives``).
    samples : int or Minibatches, optional
        Samples of each agent that objectives are estimated by (``metrics_on``).
    honest : sequence of int or str, optional
        The agents that are measured (``honest``).
    best : str, optional
        A column whose least value says which point to keep as ``result.best`` (``keep``).
    gather : bool
        On ranks, whether every rank's result holds all agents' ``w`` (``gather``).

    Raises
    ------
    ValueError, TypeError
        If a field is out of range.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.solvers import EXTRA
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=5, parameters=3)
    >>> record = consensus.Record(every=10, best="objective")
    >>> result = consensus.solve(problem, topologies.ring(5), EXTRA(0.1), rounds=30, record=record)
    >>> result.history["round"], result.best.round
    (array([ 0, 10, 20, 30]), 10)
    """

    every: float | None = None
    metrics: Mapping[str, Callable[[np.ndarray], float]] | None = None
    test: Any = None
    agents: bool = False
    samples: int | Minibatches | None = None
    honest: Sequence[int | str] | None = None
    best: str | None = None
    gather: bool = True

    def __post_init__(self) -> None:
        if self.every is not None:
            _distance("every", self.every)
        _checks.flag("agents", self.agents)
        _checks.flag("gather", self.gather)
        if self.samples is not None:
            as_minibatches(self.samples, "samples")


def _distance(name: str, value: object) -> float:
    """Return the distance of two rows: a number of rounds, or the part below one of those done."""
    if isinstance(value, float) and 0 < value < 1:
        return value
    try:
        return _checks.count(name, value)
    except ValueError as error:
        raise ValueError(f"{error}; or a part of the rounds so far, such as 0.01") from None


_ALIASES = {"every": "record_every", "agents": "agent_objectives", "samples": "metrics_on", "best": "keep"}
_IN_RECORD = {_ALIASES.get(one.name, one.name): one.name for one in fields(Record)}  # what a Record calls keywords of solve


@dataclass(frozen=True)
class Checkpoint:
    """The file that a run is saved in, for ``checkpoint=`` of :func:`consensus.solve` and :func:`consensus.centralized.solve`.

    Parameters
    ----------
    path : path
        The file.
    every : int
        Rounds between two checkpoints; there is one at the end, too.

    Raises
    ------
    ValueError, TypeError
        If a field is out of range.

    Examples
    --------
    >>> import os, tempfile, consensus, topologies
    >>> from consensus.solvers import EXTRA
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=5, parameters=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = consensus.Checkpoint(os.path.join(folder, "run"), every=10)
    ...     first = consensus.solve(problem, topologies.ring(5), EXTRA(0.1), rounds=15, checkpoint=saved)
    ...     result = consensus.solve(problem, topologies.ring(5), EXTRA(0.1), rounds=30, resume=saved.path)
    >>> result.rounds
    30
    """

    path: str | os.PathLike[str]
    every: int = 50

    def __post_init__(self) -> None:
        _checks.path("path", self.path)
        _checks.count("every", self.every)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a run: its end, its records and its files; parameters and errors are those of :func:`consensus.solve`."""

    rounds: int
    record_every: float | None = None
    tolerance: float | None = None
    exchanges: int | None = None
    seconds: float | None = None
    callbacks: Sequence[Callable[[RoundInfo], str | None]] = ()
    metrics: Mapping[str, Callable[[np.ndarray], float]] | None = None
    progress: bool = False
    checkpoint: str | os.PathLike[str] | None = None
    every: int = 50
    resume: str | os.PathLike[str] | None = None
    gather: bool = True
    test: Any = None
    agent_objectives: bool = False
    metrics_on: Any = None
    honest: Sequence[int | str] | None = None
    stop: Any = None
    keep: str | None = None
    recorded: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the options among the arguments of a function, which may have those of a record or a checkpoint as one.

        TypeError is raised for an argument that is given twice, alone and as a field of a record or a checkpoint.
        """
        defaults = {field.name: field.default for field in fields(cls)}
        record, checkpoint = given["record"], given["checkpoint"]
        given = {name: given[name] for name in defaults if name in given}
        if record is not None:
            if not isinstance(record, Record):
                raise TypeError(f"record must be a consensus.Record, such as Record(every=10); got {_checks.shown(record)}")
            for keyword, name in _IN_RECORD.items():
                if given.get(keyword, defaults[keyword]) is not defaults[keyword]:
                    raise TypeError(
                        f"{keyword} beside record= is its field {name}: write record=consensus.Record({name}=..., ...)"
                    )
            given |= {keyword: getattr(record, name) for keyword, name in _IN_RECORD.items()} | {"recorded": True}
        if isinstance(checkpoint, Checkpoint):
            if given["every"] != defaults["every"]:
                remedy = f"write checkpoint=consensus.Checkpoint(path, every={given['every']!r})"
                raise TypeError(f"every beside a Checkpoint is a field of it: {remedy}")
            given |= {"every": checkpoint.every, "checkpoint": checkpoint.path}
        return cls(**given)

    def called(self, keyword: str) -> str:
        """Return what the user calls the option of a keyword of :func:`consensus.solve`."""
        return f"{_IN_RECORD[keyword]} of record" if self.recorded and keyword in _IN_RECORD else keyword

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {"rounds": _checks.count("rounds", self.rounds, least=0)}
        checked |= {"every": _checks.count("every", self.every)}
        if self.record_every is not None:
            checked["record_every"] = _distance("record_every", self.record_every)
        checked |= {name: _checks.flag(name, getattr(self, name)) for name in ("progress", "gather", "agent_objectives")}
        for name in ("tolerance", "seconds"):
            checked[name] = _checks.optional_number(name, getattr(self, name), above=0)
        if self.exchanges is not None:
            checked["exchanges"] = _checks.count("exchanges", self.exchanges)
        stop = self.stop if isinstance(self.stop, list | tuple) else [] if self.stop is None else [self.stop]
        checked["stop"] = tuple(rule for rule in stop if not callable(rule))
        for rule in checked["stop"]:
            StopRule.parse(rule)
        checked["callbacks"] = checked_callbacks(self.callbacks) + checked_callbacks([rule for rule in stop if callable(rule)])
        early = [callback.column for callback in checked["callbacks"] if isinstance(callback, EarlyStopping)]
        checked["keep"] = self.keep if self.keep is not None or not early else early[0]
        for name in ("checkpoint", "resume"):
            if getattr(self, name) is not None:
                checked[name] = _checks.path(name, getattr(self, name))
        if self.metrics_on is not None:
            checked["metrics_on"] = as_minibatches(self.metrics_on, "metrics_on")
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def check_writable(self) -> None:
        """Raise ``ValueError`` if the checkpoint cannot be written; a missing folder is made."""
        if self.checkpoint is None:
            return
        path = Path(self.checkpoint)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise ValueError(f"checkpoint must be a file in a folder that can be written to; got {path} ({error})") from error
        if path.is_dir():
            raise ValueError(f"checkpoint must be a file; got the folder {path}")

    def fitted(self, problem: BaseProblem, method: Method) -> Self:
        """Return these options, checked against ``problem`` and the columns of ``method``: test set, metrics, stop and keep."""
        test = None if self.test is None else problem.test_set(self.test)
        metrics = checked_metrics(self.metrics, (*ALWAYS, *ASKED_FOR, *method.history_columns))
        errors = () if test is None else ("test_error", "test_error_worst")
        columns = (*ALWAYS, *errors, *method.history_columns, *problem.columns, *metrics)
        tested = "record=consensus.Record(test=(X, y))" if self.recorded else "test=(X, y)"
        if self.metrics_on is not None:
            try:
                self.metrics_on.check(problem)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{self.called('metrics_on')} does not fit: {error}") from error
        for rule in self.rules:
            checked_column("stop", rule.column, columns, tested)
        early = [("EarlyStopping", one.column) for one in self.callbacks if isinstance(one, EarlyStopping)]
        for name, column in early if self.keep is None else [*early, (self.called("keep"), self.keep)]:
            checked_column(name, column, columns, tested)
            if problem.moves and column == "objective":
                raise ValueError(f"{name} compares objectives, and costs of {problem} move: take tracking_error, with optimum=")
        return replace(self, test=test, metrics=metrics)

    @property
    def rules(self) -> tuple[StopRule, ...]:
        return tuple(map(StopRule.parse, self.stop))

    def identity(self, engine: Engine) -> dict[str, str | None]:
        """Return what identifies the records of a run: digests of its test set and metrics, and what samples they are of.

        Test sets of owners are those of all processes of ``engine``; metrics are those of the process that calls them.
        """
        test = self.test
        if test is not None:
            own = test.digests()
            test = digest(*(engine.allgather(own) if isinstance(test, OwnedTest) else own))
        functions = engine.broadcast(lambda: {name: digest(function) for name, function in (self.metrics or {}).items()})
        asked = {"test set": test} | {f"metric {name}": found for name, found in functions.items()}
        return asked | {"metrics_on": None if self.metrics_on is None else str(self.metrics_on)}

    @property
    def each(self) -> bool:
        """True if callbacks other than early stopping, or bounds, act in each round: ``record_every`` is no whole number."""
        users = [one for one in self.callbacks if not isinstance(one, EarlyStopping)]
        bounds = (self.tolerance, self.exchanges, self.seconds)
        return not isinstance(self.record_every, int) and (
            bool(users or self.stop) or any(bound is not None for bound in bounds)
        )

    def check_hidden(self, solver: SolverDefaults, several: bool) -> None:
        """Raise ``ValueError`` if these options need what a solver hides; ``several`` processes may be of different owners."""
        name, owned = type(solver).__name__, isinstance(self.test, OwnedTest)
        if owned and (secure := solver.secure) is not None:
            raise ValueError(f"test sets of owners are recorded owner by owner, which secure={secure} hides: give none")
        if not (several and solver.secret):
            return
        rules = [("stop", rule.column) for rule in self.rules] + [(self.called("keep"), self.keep)]
        given = {"tolerance": self.tolerance, "agent_objectives": self.agent_objectives, "test": owned}
        needed = [self.called(name) for name, value in given.items() if value]
        needed += [argument for argument, column in rules if column in ("objective", "stationarity")]
        if needed:
            raise ValueError(
                f"{name} on several processes records nothing of their data, no objective and no stationarity, and the "
                f"argument {needed[0]} needs it: leave it out; test=(X, y), which all of them have, gives a column test_error"
            )

    @property
    def compared(self) -> dict[str, object]:
        """The options that must be equal in all processes that call :func:`consensus.solve` together."""
        kind = None if self.test is None else "test sets of owners" if isinstance(self.test, OwnedTest) else "a test set"
        given = {"metrics": list(self.metrics or ()), "test": kind}
        if self.test is not None and not isinstance(self.test, OwnedTest):
            given["test set"] = self.test.digests()
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _OF_ONE_RANK} | given
