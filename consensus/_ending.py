"""How a run ends, with a server or without: with a result, or with an error that carries what is known."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from consensus import _checks
from consensus.errors import Interrupted
from consensus.observe.observer import Observer
from consensus.result import Result
from consensus.solvers.base import Solver

if TYPE_CHECKING:
    from consensus.centralised.system import System

_NOISE = 1e-6  # by which, relatively, a run that began at a stationary point may end above it


def ended(
    run: Callable[[], str | None],
    observer: Observer,
    rounds: int,
    solver: "Solver | System",
    checkpoint: str | os.PathLike | None,
) -> Result:
    """The result of ``run``, which tells ``observer`` of its rounds and gives the reason to stop early, if any.

    Raises
    ------
    Interrupted
        On ctrl-C, with the result so far.
    BaseException
        Whatever else the run raises, with the history so far as its ``.history``.
    """

    def result(reason):
        done, w = observer.latest
        return Result(w, observer.history, done, reason, solver, observer.recorder.honest)

    try:
        reason = run()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and observer.latest is not None:  # at least the start was seen
            raise Interrupted(result("stopped by the user"), checkpoint) from None
        with suppress(AttributeError):  # a user's own may have another history
            error.history = observer.history  # type: ignore[attr-defined]  # all are given one
        raise
    assert observer.latest is not None, "a run that ends has been seen"
    return result(reason or f"all {rounds} rounds done")


def warn_if_above(result: Result) -> None:
    """Warn of a run that ended above its start, which may pass for one that went well."""
    objective = result.history["objective"]
    if objective[-1] > objective[0] + _NOISE * abs(objective[0]):
        _checks.warn(
            f"{result.solver} ended above its start: the objective was {objective[0]:.6g} and is {objective[-1]:.6g} now. Take "
            "a smaller or a falling step, a larger tau or larger batches"
        )
