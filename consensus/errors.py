"""Errors and warnings of runs that end early. Nothing already computed is lost: each error carries it."""

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

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.errors import RunError
    >>> from consensus.solvers import DGD
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> for step_size in (50.0, 0.1):
    ...     try:
    ...         history = consensus.solve(problem, topologies.ring(3), DGD(step_size), rounds=100, start=np.ones(1)).history
    ...     except RunError as error:  # of whatever kind
    ...         history = error.history
    ...     print(step_size, int(history["round"][-1]))
    50.0 57
    0.1 100
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

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import DGD
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> try:
    ...     consensus.solve(problem, topologies.ring(3), DGD(50.0), rounds=100, start=np.ones(1))
    ... except consensus.DivergenceError as error:
    ...     print(error.round, error.history["objective"][:2].round().tolist())
    61 [3.0, 268203.0]
    """

    def __init__(self, round: int, solver: object) -> None:
        _checks.count("round", round, least=0)
        at_once = (
            "Look at the costs and their gradients at the start: are they finite? If they are, take" if round <= 1 else "Take"
        )
        super().__init__(
            f"{solver} diverged in round {round}: an iterate is NaN, infinite or larger than 1e150. "
            f"{at_once} a smaller step or a larger tau; the history so far is this error's .history"
        )
        self.round, self.solver = round, solver


class LocalSolveError(RunError, RuntimeError):
    """An agent's local problem was not solved: the message names the agent, the round and the local solver's status.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.local import CVXPYSolver
    >>> from consensus.solvers import NEXT
    >>> from consensus.surrogates import FullLinearization
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> impossible = CVXPYSolver(constraints=lambda w: [w >= 1, w <= 0])
    >>> try:
    ...     consensus.solve(problem, topologies.ring(3), NEXT(FullLinearization(1.0), 0.1, local=impossible), rounds=5)
    ... except consensus.LocalSolveError as error:
    ...     print(error)
    round 1, agent 0: its local problem is infeasible by CLARABEL; check the constraints against the regularizer
    """


class UnfinishedWarning(UserWarning):
    """A local problem was not solved to the accuracy asked for: the message names the agent and the residual.

    Examples
    --------
    >>> import warnings, consensus, topologies
    >>> from consensus.local import Exact
    >>> from consensus.solvers import NEXT
    >>> from consensus.surrogates import PartialLinearization
    >>> shards = consensus.partition([[-1000.0], [-1.0], [1.0], [1000.0]], [0, 1, 0, 1], agents=2, seed=0)
    >>> problem = consensus.Problem(consensus.Linear(1), consensus.LogisticLoss(), shards)
    >>> solver = NEXT(PartialLinearization(1e-6), 0.1, local=Exact(iterations=1))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", consensus.errors.UnfinishedWarning)
    ...     try:
    ...         result = consensus.solve(problem, topologies.complete(2), solver, rounds=3)
    ...     except consensus.errors.UnfinishedWarning as warning:
    ...         print("of its residual is left" in str(warning))
    True
    """


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

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.solvers import DGD
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> def ctrl_c(info):
    ...     if info.round == 4:
    ...         raise KeyboardInterrupt
    >>> try:
    ...     result = consensus.solve(problem, topologies.ring(3), DGD(0.1), rounds=10, record_every=1, callbacks=[ctrl_c])
    ... except consensus.Interrupted as stopped:
    ...     print(stopped.result.reason, stopped.result.rounds, stopped.history["round"].tolist())
    stopped by the user 4 [0, 1, 2, 3, 4]
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

    Examples
    --------
    >>> from consensus import Preempted
    >>> try:
    ...     raise Preempted(40, "run.npz")  # as each rank does in consensus.solve
    ... except SystemExit as told:
    ...     print(told.code, told)
    75 told to end after round 40; go on with solve(..., resume='run.npz')
    """

    history: Any = None

    def __init__(self, round: int, checkpoint: str | os.PathLike[str]) -> None:
        super().__init__(75)  # EX_TEMPFAIL of sysexits.h: try again
        self.round, self.checkpoint = round, os.fspath(_checks.path("checkpoint", checkpoint))

    def __str__(self) -> str:
        return f"told to end after round {self.round}; go on with solve(..., resume={str(self.checkpoint)!r})"


class WorkerError(RunError, RuntimeError):
    """A worker process died, or one or an MPI rank kept the others waiting: the message names it, its agents and the round.

    Examples
    --------
    >>> import os, consensus, topologies
    >>> from consensus.solvers import DGD
    >>> main = os.getpid()
    >>> def gradient(w):
    ...     return 2 * w if os.getpid() == main else os._exit(1)
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, gradient, agents=3, parameters=1)
    >>> try:
    ...     consensus.solve(problem, topologies.ring(3), DGD(0.1), rounds=5, engine=consensus.engines.Processes(workers=1))
    ... except consensus.WorkerError as error:
    ...     print(str(error).partition(" (exit")[0], error.history["round"].tolist())
    worker 0 (agents 0 to 2) died in round 1 [0]
    """
