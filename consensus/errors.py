"""What ends a run early. Nothing already computed is lost: each error carries it."""

import os
from typing import Any

from consensus import _checks

__all__ = ["DivergenceError", "Interrupted", "LocalSolveError", "Preempted", "RunError", "UnfinishedWarning", "WorkerError"]


class RunError(Exception):
    """A run could not go on.

    Attributes
    ----------
    history : History
        What was recorded until then.
    """

    history: Any = None


class DivergenceError(RunError, ArithmeticError):
    """An iterate became NaN, infinite or larger than 1e150.

    Parameters
    ----------
    round : int
        The round in which it did.
    solver : Solver
        The solver that diverged.

    Attributes
    ----------
    history : History
        What was recorded until then.
    """

    def __init__(self, round: int, solver: object) -> None:
        super().__init__(
            f"{solver} diverged in round {round}: an iterate is NaN, infinite or larger than 1e150. "
            "Take a smaller step or a larger tau; the history so far is this error's .history"
        )
        self.round, self.solver = round, solver


class LocalSolveError(RunError, RuntimeError):
    """An agent's local problem was not solved: the message names the agent, the round and the local solver's status."""


class UnfinishedWarning(UserWarning):
    """A local problem was not solved to the accuracy asked for: the message names the agent and the residual."""


class Interrupted(KeyboardInterrupt):
    """The run was stopped by ctrl-C.

    Parameters
    ----------
    result : Result
        The iterates of the last complete round and the history so far.
    checkpoint : path, optional
        The checkpoint from which the run can be resumed.

    Attributes
    ----------
    history : History
        That of the result.
    """

    def __init__(self, result: Any, checkpoint: str | os.PathLike[str] | None = None) -> None:  # noqa: ANN401  # results know errors
        _checks.offers("result", result, ("w", "history", "rounds"), "a Result, as consensus.solve returns")
        again = "start=error.result.w"
        if checkpoint is not None:
            again = f"resume={str(_checks.path('checkpoint', checkpoint))!r}"
        super().__init__(
            f"stopped by the user after round {result.rounds}; this error's .result holds the iterates and the history "
            f"(go on with solve(..., {again}))"
        )
        self.result, self.history = result, result.history


class Preempted(SystemExit):
    """Ranks were told to end, by SIGTERM or SIGUSR1, and have written a checkpoint: the exit code is 75, for schedulers.

    Parameters
    ----------
    round : int
        The round that the checkpoint holds.
    checkpoint : path
        Its file.

    Attributes
    ----------
    history : History
        What was recorded until then.
    """

    history: Any = None

    def __init__(self, round: int, checkpoint: str | os.PathLike[str]) -> None:
        super().__init__(75)  # EX_TEMPFAIL of sysexits.h: try again
        self.round, self.checkpoint = round, os.fspath(_checks.path("checkpoint", checkpoint))

    def __str__(self) -> str:
        return f"told to end after round {self.round}; go on with solve(..., resume={str(self.checkpoint)!r})"


class WorkerError(RunError, RuntimeError):
    """A worker process died, or one or an MPI rank kept the others waiting: the message names it, its agents and the round."""
