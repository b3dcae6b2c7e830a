"""How a run ends, with a server or without: with a result, or with an error that carries what is known."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from consensus.errors import Interrupted
from consensus.observe.observer import Observer
from consensus.result import Result
from consensus.solvers.base import Solver

if TYPE_CHECKING:
    from consensus.centralised.system import System


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
