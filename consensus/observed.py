"""A run under an observer, and its result."""

import os
from collections.abc import Callable, Hashable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from consensus import _checks
from consensus._arrays import progress as _progress
from consensus._arrays.files import Hold
from consensus.checkpoints.best import from_state
from consensus.checkpoints.checkpoint import Checkpoint, check_fits
from consensus.engines.base import Engine
from consensus.errors import Interrupted
from consensus.history import History
from consensus.observe import Observer
from consensus.observe.observer import Saver
from consensus.observe.protocols import Method
from consensus.observe.recorder import COUNTED, Recorder
from consensus.observe.spacing import Spacing, cost_of_row
from consensus.observe.stopping import Keeper, Stopper
from consensus.options import RunOptions
from consensus.problems import BaseProblem
from consensus.result import Result

_RISE = 0.01  # of the start, by which a method without settings may be above it on its way
_NOISE = 1e-6  # by which, relatively, a run that began at a stationary point may end above it


def observed(
    options: RunOptions,
    problem: BaseProblem,
    method: Method,
    identity: dict[str, str | None],
    run: Callable[[Observer, Checkpoint | None], str | None],
    engine: Engine,
    honest: np.ndarray | None = None,
    points: int | None = None,
    each: bool = False,
    watched: bool = True,
    labels: tuple[Hashable, ...] | None = None,
) -> Result:
    """Call ``run`` under an observer and return its result; warn if it ended above its start.

    ``run(observer, resumed)`` does the rounds, from the checkpoint ``resumed`` if there is one, and returns the reason to
    stop early, or None. ``identity`` is the run's fingerprint, for its checkpoints; ``honest`` are the agents that are
    measured; ``points`` is the number of iterates, by default one of each agent. ``labels`` are the names of the agents.
    With ``each`` what stops a run, and callbacks, act in each round; ``watched`` says whether the process that decides has
    callbacks. Processes of an ``engine`` that observe together each have their own agents' rows in the result, or with
    ``gather`` all agents'.
    """
    resumed: Checkpoint | None = None
    if (path := options.resume) is not None:
        resumed = engine.load(path, lambda found: check_fits(path, found, identity, options.rounds))
        fields, best = from_state(resumed.fields, resumed.best)
        resumed = resumed._replace(fields=fields, best=best)
    with (
        _progress.of_run(options.progress and engine.root, options.rounds, type(method).__name__) as bar,
        ExitStack() as ending,
    ):
        saver = None
        if options.checkpoint:
            file = Path(options.checkpoint)
            saver = Saver(file, options.every, identity, Hold(file))
            ending.callback(saver.hold.release)
            engine.hold(saver.hold)
        points = points or (problem.network_size if honest is None else len(honest))
        asked = options.test, options.agent_objectives, options.metrics, honest, options.metrics_on
        recorder = Recorder(problem, method, *asked, points, labels)
        stopper = Stopper(options.tolerance, options.exchanges, options.seconds, options.rules)
        keeper = None if options.keep is None else Keeper(options.keep)
        cost = cost_of_row(problem, points, options.test, options.agent_objectives, options.metrics_on)
        measured = each and (options.tolerance is not None or any(rule.column not in COUNTED for rule in options.rules))
        spacing = Spacing(1 if measured else options.record_every, cost, problem.network_size)
        observer = Observer(recorder, stopper, options.callbacks, saver, spacing, options.rounds, bar, keeper)
        observer.due.each, observer.watched = each, watched
        if resumed:
            observer.resume(resumed, path)
        result = _ended(lambda: run(observer, resumed), observer, options, method, labels)
        if options.gather:
            result = replace(result, w=observer.gather.rows(result.w))
            if (best := result.best) is not None and best.w is not None:
                result = replace(result, best=best._replace(w=observer.gather.rows(best.w)))
    if engine.root and not problem.moves:
        _warn_if_above(result)
    return result


def _ended(
    run: Callable[[], str | None], observer: Observer, options: RunOptions, method: Method, labels: tuple[Hashable, ...] | None
) -> Result:
    """Call ``run``, which reports its rounds to ``observer`` and returns the reason to stop early, and make the result.

    On ctrl-C it raises ``Interrupted`` with the result so far; any other exception of the run gets a ``.history``.
    """

    def result(reason: str, history: History) -> Result:
        assert observer.latest is not None, "a run that ends has been seen"
        done, w = observer.latest
        best = None if observer.keeper is None else observer.keeper.best
        model = observer.problem.model
        personal = observer.recorder.personal is not None
        return Result(w, history, done, reason, method, observer.recorder.honest, best, model, personal, labels)

    try:
        reason = run()
    except BaseException as error:
        history = observer.history.copy()  # up to its last whole row: ctrl-C may come while one is appended
        if isinstance(error, KeyboardInterrupt) and observer.latest is not None:  # at least the start was seen
            written = options.checkpoint if options.checkpoint and os.path.exists(options.checkpoint) else None
            raise Interrupted(result("stopped by the user", history), written) from None
        with suppress(AttributeError):  # a user's own may have another history
            error.history = history  # type: ignore[attr-defined]  # all are given one
        raise
    return result(reason or f"all {options.rounds} rounds done", observer.history)


def _warn_if_above(result: Result) -> None:
    """Warn if a run ended above its start, or if a method without settings was recorded above it by a hundredth."""
    objective = result.history["objective"]
    first, last, sets_itself = objective[0], objective[-1], getattr(result.solver, "sets_itself", False)
    ended = last > first + _NOISE * abs(first)
    if ended and not sets_itself:
        _checks.warn(
            f"{result.solver} ended above its start: the objective was {first:.6g} and is {last:.6g} now. Take "
            "a smaller or a falling step, a larger tau or larger batches"
        )
    elif ended or (sets_itself and objective.max() > first + _RISE * abs(first)):
        worst = int(objective.argmax())
        _checks.warn(
            f"{result.solver} {'ended' if ended else 'rose'} above its start: the objective was {first:.6g}, reached "
            f"{objective[worst]:.6g} in round {result.history['round'][worst]}, and is {last:.6g} now. keep='objective' keeps "
            "the best recorded point as result.best; another start=, or a solver with a small step_size=, may not rise"
        )
