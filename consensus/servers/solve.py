"""Train with a server."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from consensus import _arguments, _checks
from consensus._arrays.parallel import one_blas_thread
from consensus.checkpoints.checkpoint import Checkpoint as Saved
from consensus.checkpoints.checkpoint import fingerprint
from consensus.communication.states import flatten, rebuild
from consensus.engines.rounds import all_small
from consensus.engines.stacked import Stacked
from consensus.errors import DivergenceError, WorkerError
from consensus.observe import Decision, Gathered, Observer
from consensus.observe.callbacks import Callback
from consensus.observed import observed
from consensus.options import Checkpoint, Record, RunOptions
from consensus.problems import BaseProblem
from consensus.result import Result
from consensus.servers.system import S, System, Traffic, whole_problem


def solve(
    problem: BaseProblem,
    system: System[S],
    *,
    rounds: int,
    start: ArrayLike | None = None,
    seed: int | np.random.Generator = 0,
    record: Record | None = None,
    record_every: float | None = None,
    tolerance: float | None = None,
    seconds: float | None = None,
    callbacks: Sequence[Callback] = (),
    metrics: Mapping[str, Callable[[np.ndarray], float]] | None = None,
    progress: bool = False,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    every: int = 50,
    resume: str | os.PathLike[str] | None = None,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    stop: str | Callback | Sequence[str | Callback] | None = None,
    keep: str | None = None,
) -> Result:
    """Let a ``system`` with a server solve ``problem``, as :func:`consensus.solve` does without one.

    The problem's agents are the pieces of the data, and the clients of the federated systems. Arguments, errors and the
    history are those of :func:`consensus.solve`, with the differences below.

    Parameters
    ----------
    problem : Problem
        The problem of all agents.
    system : System
        The system, such as :class:`SynchronousSGD`.
    rounds : int
        Largest number of rounds; the system documents what a round is.
    start : array_like (P,), optional
        By default ``problem.model.init`` draws it from ``seed``, the same as :func:`consensus.solve` does.
    seed : int or numpy.random.Generator
        As in :func:`consensus.solve`.
    record : Record, optional
        As in :func:`consensus.solve`; a server has one iterate, so that there are no ``agents`` and no ``honest`` ones.
    record_every, tolerance, seconds, callbacks, metrics, progress : optional
        As in :func:`consensus.solve`, but what stops a run, and callbacks, act at recorded rounds alone.
    checkpoint, every, resume, test, stop, keep : optional
        As in :func:`consensus.solve`. A checkpoint is also written when a worker that the system needs dies.

    Returns
    -------
    Result
        ``result.w`` has one row, the server's iterate, ``result.mean`` is the same; ``disagreement`` is zero. ``messages``,
        ``floats`` and ``bytes`` are those between machines, ``bytes_busiest`` those that the busiest machine sent and received.
        ``gradients`` are those computed one after the other.

    Raises
    ------
    ValueError, TypeError
        If the arguments are incompatible, or ``checkpoint`` cannot be written; before any work.
    DivergenceError
        If the iterate becomes NaN, infinite or larger than 1e150.
    WorkerError
        If a worker process that the system needs dies; ``checkpoint`` has the state after the last whole round.
    Interrupted
        On ctrl-C; it carries the result so far.

    Examples
    --------
    >>> import consensus
    >>> from consensus.centralized import FedAvg, solve
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> shards = consensus.partition(scale(X), scale(y), agents=10, seed=0)
    >>> problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.01))
    >>> result = solve(problem, FedAvg(learning_rate=0.1, local_steps=5), rounds=100, record_every=100)
    >>> result.history["objective"][[0, -1]].round(3)  # the least is 0.2435
    array([0.5  , 0.244])
    """
    given, where = locals(), Stacked()
    whole_problem(problem)
    _checks.offers("system", system, ("init", "running", "history_columns"), "a system, such as SynchronousSGD(32, 0.1)")
    options = RunOptions.of(given)
    if options.agent_objectives or options.honest is not None:
        raise ValueError("record of a system has neither agents nor honest: its one iterate is the server's; leave them away")
    options.check_writable()
    system.check(problem)
    w = _arguments.start(problem, start, seed)[:1].copy()
    if start is not None and np.ndim(start) != 1:
        raise ValueError(f"start must have shape (P,) = ({problem.parameters},): the server has one; got {np.shape(start)}")
    options = options.fitted(problem, system)

    problem = problem.restrict(slice(0, problem.agents))  # counts the work of this run alone
    identity = fingerprint(problem, None, system, w) if options.checkpoint or options.resume else {}
    if identity:
        identity |= options.identity(where)
    run = functools.partial(_run, problem, system, w, options.rounds)
    return observed(options, problem, system, identity, run, where, points=1)


def _run(
    problem: BaseProblem, system: System[S], w: np.ndarray, rounds: int, observer: Observer, resumed: Saved | None
) -> str | None:
    """Do rounds until the last one, or until there is a reason to stop, which is returned."""
    state, traffic, elapsed = system.init(problem, w), Traffic(problem.dtype.itemsize), 0.0
    if resumed:
        state = rebuild(state, resumed.fields)
    with one_blas_thread, np.errstate(over="ignore", invalid="ignore", divide="ignore"):

        def see() -> Decision:
            report = system.report(state) if system.history_columns else None
            return observer.see(Gathered(state.round, state.w, report, dict(traffic.counts), elapsed))

        with system.running(problem, traffic, state) as advance:
            while True:
                if not all_small(state.w):
                    raise DivergenceError(state.round, system)
                decision = see()
                if decision.save:
                    observer.save(flatten(state))
                if decision.reason or state.round >= rounds:
                    return decision.reason
                due = next(round for round in range(state.round + 1, rounds + 1) if observer.due(round))
                while state.round < due:
                    since = time.perf_counter()
                    try:
                        state = advance(state, due)
                    except WorkerError:
                        if observer.saver is not None:
                            see()  # what was counted until then
                            observer.save(flatten(state))
                        raise
                    elapsed += time.perf_counter() - since
                    observer.tick(state.round, state.w)
