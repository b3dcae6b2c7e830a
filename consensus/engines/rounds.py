"""The loop over rounds, the same on every engine."""

import time
from collections.abc import Callable
from dataclasses import asdict
from numbers import Integral
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus._parallel import one_blas_thread
from consensus.errors import DivergenceError
from consensus.observe import Gather, Gathered, Observer
from consensus.observe.gather import Whole
from consensus.solvers.base import Solver
from consensus.solvers.state import flatten, rebuild

_UNPACK = "; unpack what network.mix returns, a tuple with one array for each block: (w,) = network.mix(round, w)"
_LARGEST = 1e150  # an iterate beyond this is lost: its square is near the largest double


def run_rounds(problem, network, solver, begin, rounds, report):
    """Run ``solver`` on a block of agents for ``rounds`` rounds, or until ``report`` gives a reason to stop.

    Parameters
    ----------
    problem : Problem
        The block's.
    network : Network
    begin : ndarray or dict
        The start (agents, P), or a checkpoint's fields of these agents.
    rounds : int
    report : callable
        ``report(state, counts, seconds)`` at the beginning and after every round, with what was sent and computed so far
        and the seconds spent in rounds (none of them its own); returns a reason to stop, or None.

    Returns
    -------
    str or None
        The reason, None when all rounds were done.

    Raises
    ------
    DivergenceError
    TypeError, ValueError
        If the solver makes something else than a state of these agents.
    """
    seconds, name = 0.0, f"{type(solver).__name__}.step"
    # Overflow is not a warning here: what comes of it is tested every round.
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        since = time.perf_counter()
        if isinstance(begin, dict):
            state = _resumed(problem, solver, begin)
            since = time.perf_counter()  # that was no part of the run
        else:
            state = _initial(problem, solver, begin)
        while True:
            if not -_LARGEST < state.w.min() <= state.w.max() < _LARGEST:  # false for NaN too
                raise DivergenceError(state.round, solver)
            seconds += time.perf_counter() - since
            reason = report(state, network.counts | asdict(problem.work), seconds)
            if reason or state.round >= rounds:
                return reason
            since = time.perf_counter()
            state = _state(solver.step(problem, network, state), state.round + 1, problem, name)


def _initial(problem, solver, w):
    """The state at the start ``w`` (agents, P)."""
    return _state(solver.init(problem, w), 0, problem, f"{type(solver).__name__}.init")


def _resumed(problem, solver, fields):
    """The state that a checkpoint's ``fields`` are of: an initial state says how they belong together."""
    uncounted = problem.restrict(slice(0, problem.agents))  # which keeps its own count of work
    return rebuild(_initial(uncounted, solver, fields["w"]), fields)


def reports(
    observer: Observer, solver: Solver, gather: Gather | None = None
) -> Callable[[NamedTuple, dict[str, int], float], str | None]:
    """What :func:`run_rounds` calls where rounds run in the processes that observe them.

    Parameters
    ----------
    observer : Observer
    solver : Solver
    gather : Gather, optional
        How blocks are put together; by default the block holds all agents.

    Returns
    -------
    callable
    """
    gather = Whole() if gather is None else gather

    def report(state, counts, seconds):
        observer.tick(state.round, state.w)
        if not observer.due(state.round):
            return None
        own = gather.rows(solver.report(state)) if solver.columns else None
        verdict = observer.see(Gathered(state.round, gather.rows(state.w), own, *gather.total(counts, seconds)))
        if verdict.save:
            observer.save({name: gather.rows(value) if np.ndim(value) else value for name, value in flatten(state).items()})
        return verdict.reason

    return report


def _state(state, round, problem, name):
    """``state`` if that is one after ``round`` rounds; else an error: what ``name``, a method of a solver, must return."""
    if not isinstance(state, tuple) or getattr(state, "_fields", ())[:2] != ("round", "w"):
        raise TypeError(
            f"{name} must return a NamedTuple whose first fields are round and w: (round: int, w: np.ndarray, ...); "
            f"got {_checks.shown(state)}"
        )
    w, shape = state.w, (problem.agents, problem.parameters)
    if not isinstance(w, np.ndarray) or w.shape != shape or w.dtype != problem.dtype:
        raise _wrong(w, shape, problem.dtype, name)
    if not isinstance(state.round, Integral) or state.round != round:
        raise ValueError(
            f"{name} must return a state whose round, the number of rounds done, is {round}; got {_checks.shown(state.round)}"
        )
    return state


def _wrong(w, shape, dtype, name):
    """The error that ``w`` is no array of ``shape`` and ``dtype``."""
    kind, hint = TypeError, ""
    if not isinstance(w, np.ndarray):
        got, hint = _checks.shown(w), _UNPACK if isinstance(w, tuple) else ""
    elif w.shape != shape:
        kind, got, hint = ValueError, f"shape {w.shape}", _UNPACK if w.shape == (1, *shape) else ""
    else:
        got, hint = f"dtype {w.dtype}", ": return w.astype(problem.dtype)"
    return kind(f"{name} must return a state with w an array of shape (agents, P) = {shape} and dtype {dtype}; got {got}{hint}")
