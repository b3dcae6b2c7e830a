"""The runs of a study: each is one file, made in this process or in a worker."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import json
import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import cloudpickle
import numpy as np
from joblib.externals.loky import ProcessPoolExecutor
from threadpoolctl import threadpool_limits

import consensus
from consensus import _arguments, _checks
from consensus._arrays.digest import digest
from consensus.checkpoints.checkpoint import of_matrices
from consensus.errors import DivergenceError, RunError
from consensus.history import History
from consensus.problems import BaseProblem
from consensus.result import Result
from consensus.solvers import Solver
from consensus.studies.folder import write
from consensus.studies.grid import named
from consensus.studies.measure import Outcome
from topologies.schedules import ScheduleLike

_OWN = ("problem", "network", "solver", "rounds", "checkpoint", "resume", "progress", "gather")  # of the study
_OPTIONS = tuple(name for name in inspect.signature(consensus.solve).parameters if name not in _OWN)
_APART = 0.01  # rows of a history, as a part of the rounds so far, unless a case says record_every: counts are as precise
_LIMITS = ("exchanges", "seconds")  # options that end a run
_NOT_COMPARED = (
    "start",
    "callbacks",
    "metrics",
    "stop",
    "record",
    "record.metrics",
    "engine",
)  # the start is compared by itself
_IDLE, _LOOK = 60, 0.5  # seconds after which a worker without a run ends; between two looks for the process that started it
_THREADS = [f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "NUMBA")] + [
    "VECLIB_MAXIMUM_THREADS"
]
_ENVIRONMENT = (MemoryError, OSError, consensus.WorkerError)  # errors of the machine: they end a study, and nothing is kept


class CaseError(RuntimeError):
    """The function of a study's cases raised an error, or returned something else: the message names the case and the seed.

    Examples
    --------
    >>> import tempfile
    >>> from consensus.solvers import EXTRA
    >>> from consensus.studies import CaseError, Study
    >>> def case(seed, data):
    ...     raise FileNotFoundError(f"no {data}")
    >>> study = Study(case, over={"data": ["a.csv"]}, seeds=2, solvers={"EXTRA": EXTRA()}, measure="exchanges to objective 1%",
    ...               rounds=10, folder=tempfile.mkdtemp())
    >>> try:
    ...     study.run()
    ... except CaseError as error:
    ...     print(error)
    case(seed=0, data='a.csv') raised FileNotFoundError: no a.csv
    """


class Job(NamedTuple):
    """A run: its place in the study, the solver, and the name of its file."""

    cell: int
    over: Mapping[str, Any]
    seed: int
    label: str
    setting: str
    solver: Solver
    tuning: bool
    name: str


class Made(NamedTuple):
    """The objects that a case returned."""

    problem: BaseProblem
    network: ScheduleLike
    options: dict[str, Any]


def called(case: Callable[..., Any], over: Mapping[str, Any], seed: int) -> Made:
    """Return what a case makes of a seed, checked."""
    shown = ", ".join([f"seed={seed}", *(f"{name}={_checks.shown(value)}" for name, value in over.items())])
    who = f"{named(case)}({shown})"
    try:
        with threadpool_limits(1):  # as in workers: other threads add up in another order
            found = case(seed, **over)
    except Exception as error:
        raise CaseError(f"{who} raised {type(error).__name__}: {error}") from error
    wanted = "a problem, a network and, if needed, a dictionary of options of consensus.solve"
    if not isinstance(found, tuple) or len(found) not in (2, 3):
        raise CaseError(f"{who} must return {wanted}; got {_checks.shown(found)}")
    options = found[2] if len(found) == 3 else {}
    try:
        problem, network = _checks.problem(found[0]), _arguments.schedule(found[1])
        if not isinstance(options, Mapping):
            raise TypeError(f"the options must be a dictionary, such as {{'test': (X, y)}}; got {_checks.shown(options)}")
    except (TypeError, ValueError) as error:
        raise CaseError(f"{who} must return {wanted}: {error}") from error
    for name in options:
        if name not in _OPTIONS:
            which = "is set by the study" if name in _OWN else "is none of consensus.solve"
            raise CaseError(f"{who} returns the option {name!r}, which {which}; there are {', '.join(_OPTIONS)}")
    if options.get("engine") in ("mpi", "torch"):
        raise CaseError(
            f"{who} returns engine={options['engine']!r}: a study runs on one machine, with 'stacked' or 'processes'"
        )
    if isinstance(options.get("seed"), np.random.Generator):
        raise CaseError(
            f"{who} returns a generator as seed, from which solvers would draw one after another: return a whole number"
        )
    return Made(problem, network, dict(options))


def _prints(made: Made, seed: int) -> dict[str, str]:
    """Return digests of what a case made of a seed, but for the functions among its options."""
    options = dict(made.options)
    if isinstance(options.get("record"), consensus.Record):
        options |= {f"record.{one.name}": getattr(options["record"], one.name) for one in fields(consensus.Record)}
    try:
        start = _arguments.start(made.problem, options.get("start"), options.get("seed", seed))
    except (TypeError, ValueError) as error:
        raise CaseError(f"the case returns a start that does not fit its problem: {error}") from error
    with threadpool_limits(1):
        return {
            "data": digest(*made.problem.digests()),
            "start": digest(start),
            "mixing matrices": of_matrices(made.network),
            "options": digest({name: value for name, value in options.items() if name not in _NOT_COMPARED}),
        }


def check_repeats(case: Callable[..., Any], over: Mapping[str, Any], seed: int, first: Made) -> None:
    """Raise ``CaseError`` if the case makes something else of the same seed: solvers would run on other data each."""
    found = [_prints(made, seed) for made in (first, called(case, over, seed))]
    if odd := [name for name, value in found[0].items() if value != found[1][name]]:
        raise CaseError(
            f"{named(case)} must return the same for the same seed; its {' and '.join(odd)} differ when it is called twice "
            f"with seed={seed}: draw by numpy.random.default_rng(seed), and give seed=seed to what draws"
        )


def case_file(folder: Path, over: Mapping[str, Any], seed: int) -> Path:
    """Return the file of a study's folder that says what the case made of a seed."""
    return folder / "cases" / f"{digest(dict(over), seed)}.json"


def read_case(folder: Path, over: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return what that file says."""
    path = case_file(folder, over, seed)
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read, which says what runs are on ({error}): give another folder") from None


def remember(folder: Path, over: Mapping[str, Any], seed: int, made: Made) -> None:
    """Write down what the case made of a seed; raise ``ValueError`` if it made something else for runs that are done."""
    path, found = case_file(folder, over, seed), _prints(made, seed)
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        limits = {name: float(made.options[name]) for name in _LIMITS if made.options.get(name) is not None}
        write(path, {"made": found, "limits": limits})
    known = read_case(folder, over, seed)["made"]
    if odd := [name for name, value in found.items() if value != known.get(name)]:
        shown = ", ".join([f"seed={seed}", *(f"{name}={_checks.shown(value)}" for name, value in over.items())])
        raise ValueError(
            f"the case ({shown}) does not return what it did for the runs in {folder}: its {' and '.join(odd)} differ. If "
            "a file has changed, give another folder; if it draws, let it draw by numpy.random.default_rng(seed)"
        )


def options_of(made: Made, seed: int, rounds: int) -> dict[str, Any]:
    """Return the options of a run: those of the case, the start drawn by the seed, and rows that are close at first."""
    given = {"seed": seed} | made.options
    given.pop("every", None)
    if isinstance(record := given.get("record"), consensus.Record):
        given["record"] = replace(record, every=_APART) if record.every is None else record
    elif given.get("record_every") is None:
        given["record_every"] = _APART
    return given | {"rounds": rounds}


@functools.lru_cache(maxsize=1)
def _kept(known: _Known) -> Made:
    made = called(known.case, known.over, known.seed)
    remember(known.folder, known.over, known.seed, made)
    return made


class _Known:
    """A case, its values and a seed in a study's folder, equal if their digests are."""

    def __init__(self, case: Callable[..., Any], over: Mapping[str, Any], seed: int, folder: Path, identity: str) -> None:
        self.case, self.over, self.seed, self.folder = case, over, seed, folder
        self.name = digest(identity, dict(over), seed, str(folder))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def do(case: Callable[..., Any], identity: str, rounds: int, folder: Path, job: Job) -> list[str]:
    """Do a run, and write its file; return the texts of its warnings.

    A run that diverges or fails is kept with the reason and its history. Problems are kept for the next run, which is often
    on the same one.
    """
    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = _kept(_Known(case, job.over, job.seed, folder, identity))
        options = options_of(made, job.seed, rounds)
        path, saved = (folder / "runs" / f"{job.name}.{suffix}" for suffix in ("npz", "ckpt"))
        if "every" in made.options:
            options["checkpoint"] = consensus.Checkpoint(saved, every=made.options["every"])
            options["resume"] = saved if saved.exists() else None
        try:
            result = consensus.solve(made.problem, made.network, job.solver, **options)
        except _ENVIRONMENT:
            raise
        except Exception as error:
            history = getattr(error, "history", None)
            history = history if isinstance(history, History) else History()
            done = int(history["round"][-1]) if history.rows and "round" in history else 0
            if isinstance(error, DivergenceError):
                done, reason = error.round, f"diverged in round {error.round}"
            else:
                reason = f"failed: {error}" if isinstance(error, RunError) else f"failed: {type(error).__name__}: {error}"
            result = Result(np.empty((0, made.problem.parameters)), history, done, reason, job.solver)
        result.save(path)
        saved.unlink(missing_ok=True)
    return [str(one.message) for one in caught if issubclass(one.category, UserWarning)]


Done: TypeAlias = tuple[Job, list[str]]
_sent: bytes = b""  # to a worker: the pickled function that does a job


@contextlib.contextmanager
def runner(
    case: Callable[..., Any], identity: str, rounds: int, folder: Path, workers: int
) -> Iterator[Callable[[Sequence[Job]], Iterator[Done]]]:
    """Give a function that does jobs, in so many processes, and yields each with its warnings when it is done.

    The processes belong to this runner and end with it. Those that joblib keeps for its next caller would not do: a process
    that is forked later inherits the record of them, but not the thread that serves them, and waits forever.
    """
    _kept.cache_clear()  # files may have changed since
    work = functools.partial(do, case, identity, rounds, folder)
    if workers > 1 and multiprocessing.current_process().daemon:
        warnings.warn("workers = 1 here: this process is a daemon, which may not start others", stacklevel=6)
        workers = 1
    if workers == 1:
        yield lambda jobs: ((job, work(job)) for job in jobs)
        return
    try:
        sent = cloudpickle.dumps(work)
    except Exception as error:
        raise TypeError(
            f"case must be a function that can be sent to workers: {type(error).__name__}: {error}. Make what cannot inside of "
            "it, or run the study with workers=1"
        ) from error
    pool = ProcessPoolExecutor(
        workers, timeout=_IDLE, initializer=_begin, initargs=(os.getpid(), sent), env=dict.fromkeys(_THREADS, "1")
    )
    whole = False
    try:
        yield functools.partial(_unordered, pool, 2 * workers)
        whole = True
    finally:
        pool.shutdown(kill_workers=not whole)


def _unordered(pool: ProcessPoolExecutor, most: int, jobs: Sequence[Job]) -> Iterator[Done]:
    """Do the jobs, of which at ``most`` so many are with the workers or on their way."""
    left = iter(jobs)
    underway: dict[Future[list[str]], Job] = {}
    while True:
        underway |= {pool.submit(_in_worker, job): job for job in itertools.islice(left, most - len(underway))}
        if not underway:
            return
        for future in wait(underway, return_when=FIRST_COMPLETED).done:
            yield underway.pop(future), future.result()


def _begin(parent: int, sent: bytes) -> None:
    """Make a worker ready; it ends with the process that started it, also with one that is killed."""
    global _sent
    _sent = sent

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@functools.cache
def _received(sent: bytes) -> Callable[[Job], list[str]]:
    try:
        found: Callable[[Job], list[str]] = cloudpickle.loads(sent)
    except Exception as error:
        raise ImportError(
            f"the case cannot be loaded in a worker: {type(error).__name__}: {error}. Its modules must be those of files that "
            "Python finds from everywhere; or run the study with workers=1"
        ) from error
    return found


def _in_worker(job: Job) -> list[str]:
    return _received(_sent)(job)


def read(path: Path) -> Outcome | None:
    """Return the outcome of a run that is done; None if it is not."""
    try:
        result = consensus.load(path)
    except FileNotFoundError:
        return None
    return Outcome(result.history, result.rounds, result.reason, not len(result.w), path)
