"""The loop over rounds, the same on every engine."""

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from consensus._arrays.parallel import one_blas_thread
from consensus._arrays.rows import kept_memory
from consensus.communication.block import BlockNetwork
from consensus.communication.states import flatten
from consensus.engines.protocols import Problem, Solver, State
from consensus.engines.states import Begin, checked
from consensus.errors import DivergenceError
from consensus.observe import Gather, Gathered, Observer
from consensus.observe.gather import Whole

Report: TypeAlias = Callable[[State, dict[str, Any], float], str | None]
_LARGEST = 1e150  # an iterate beyond this is lost
_LARGEST_SQUARE = _LARGEST**2  # near the largest double


def run_rounds(
    problem: Problem,
    network: BlockNetwork,
    solver: Solver,
    begin: Begin,
    rounds: int,
    report: Report,
    due: Callable[[int], bool] | None = None,
) -> str | None:
    """Run ``solver`` on a block of agents for ``rounds`` rounds, or until ``report`` gives a reason to stop.

    Parameters
    ----------
    problem : Problem
        The block's problem.
    network : BlockNetwork
        The block's network.
    solver : Solver
        The solver, prepared.
    begin : Begin
        Where the block begins.
    rounds : int
        Number of rounds in all, those before a checkpoint included.
    report : callable
        ``report(state, counts, seconds)``, called at the beginning and after every round, returns a reason to stop or None.
        The counts so far are numbers, and ``traffic``, the bytes (agents,) that each agent sent and received; the seconds are
        those spent in rounds, without ``report``.
    due : callable, optional
        ``due(round)`` tells whether ``report`` needs the ``traffic`` of a round, which takes longer than the numbers; by
        default it always does.

    Returns
    -------
    str or None
        The reason to stop, None if all rounds were done.

    Raises
    ------
    DivergenceError
        If the iterates are lost.
    TypeError, ValueError
        If the solver returns anything but a state of these agents.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.engines import Begin, StackedNetwork, run_rounds
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> network = StackedNetwork(topologies.Static(topologies.ring(3)), problem.dtype)
    >>> def report(state, counts, seconds):
    ...     print(state.round, counts["messages"], state.w.round(3).ravel().tolist())
    ...     return "near zero" if abs(state.w).max() < 0.2 else None
    >>> run_rounds(problem, network, consensus.solvers.DGD(0.1), Begin.start(np.ones((3, 1))), 10, report)
    0 0 [1.0, 1.0, 1.0]
    1 6 [0.4, 0.4, 0.4]
    2 12 [0.16, 0.16, 0.16]
    'near zero'
    """
    seconds, name = 0.0, f"{type(solver).__name__}.step"
    # Overflow is no warning here: its results are tested every round.
    with one_blas_thread, kept_memory(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        since = time.perf_counter()
        state = begin.state(problem, solver)
        if begin.resumed:
            since = time.perf_counter()  # the time before was no part of the run
        kind, shape, dtype = type(state), state.w.shape, state.w.dtype  # those of a state that was checked
        while True:
            if not all_small(state.w):
                raise DivergenceError(state.round, solver)
            seconds += time.perf_counter() - since
            counts: dict[str, Any] = network.counts | problem.work.counts
            if due is None or due(state.round):
                counts["traffic"] = network.traffic
            reason = report(state, counts, seconds)
            if reason or state.round >= rounds:
                return reason
            since = time.perf_counter()
            round, state = state.round + 1, solver.step(problem, network, state)
            w = state.w if type(state) is kind and type(state.round) is int and state.round == round else None
            if type(w) is not np.ndarray or w.shape != shape or w.dtype != dtype:  # rarely
                state = checked(state, round, problem, name)


def all_small(w: np.ndarray) -> bool:
    """Return whether no number in ``w`` is NaN or so large that the iterate is lost."""
    numbers = w.ravel()
    if numbers.dot(numbers) < _LARGEST_SQUARE:  # one pass; false for NaN, and if squares overflow
        return True
    return bool(-_LARGEST < w.min() <= w.max() < _LARGEST)


def reports(
    observer: Observer, solver: Solver, gather: Gather | None = None, preempted: Callable[[], str | None] = lambda: None
) -> Report:
    """Return the ``report`` of :func:`run_rounds` for rounds that run in the processes which observe them.

    Parameters
    ----------
    observer : Observer
        The observer of the run, which gets the due rounds.
    solver : Solver
        The solver, prepared.
    gather : Gather, optional
        How blocks are joined; by default the block holds all agents.
    preempted : callable, optional
        ``preempted()``, called after every due round was gathered, returns why the system ends the run, or None, the same in
        all processes. The state is saved then, if checkpoints are.

    Returns
    -------
    callable
        ``report(state, counts, seconds)``.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.engines import Engine, StackedNetwork, reports, run_rounds
    >>> class InOneProcess(Engine):
    ...     def run(self, problem, schedule, solver, begin, rounds, observer):
    ...         network = StackedNetwork(schedule, problem.dtype)
    ...         return run_rounds(problem, network, solver, begin, rounds, reports(observer, solver), observer.due)
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> result = consensus.solve(problem, topologies.ring(3), consensus.solvers.DGD(0.1), rounds=6, engine=InOneProcess())
    >>> result.reason
    'all 6 rounds done'
    """
    gather = Whole() if gather is None else gather

    def report(state: State, counts: dict[str, Any], seconds: float) -> str | None:
        observer.tick(state.round, state.w)
        if not observer.due(state.round):
            return None
        own = gather.rows(solver.report(state)) if solver.history_columns else None
        decision = observer.see(Gathered(state.round, state.w, own, *gather.total(counts, seconds)))
        reason = decision.reason or preempted()
        if decision.save or (reason and observer.saver):
            observer.save(flatten(state))
        return reason

    return report
