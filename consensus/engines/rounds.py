"""The loop over rounds, the same on every engine."""

import time
from dataclasses import asdict

import numpy as np

from consensus._parallel import one_blas_thread
from consensus.errors import DivergenceError

_LARGEST = 1e150  # an iterate beyond this is lost: its square is near the largest double


def run_rounds(problem, network, solver, state, rounds, report):
    """Run ``solver`` on a block of agents for ``rounds`` rounds, or until ``report`` gives a reason to stop.

    Parameters
    ----------
    problem : Problem
        The block's.
    network : Network
    state : NamedTuple or ndarray
        Where to begin: a state of the solver's, or the start (agents, P).
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
    """
    seconds, begin = 0.0, time.perf_counter()
    # Overflow is not a warning here: what comes of it is tested every round.
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if isinstance(state, np.ndarray):
            state = solver.init(problem, state)
        while True:
            if not -_LARGEST < state.w.min() <= state.w.max() < _LARGEST:  # false for NaN too
                raise DivergenceError(state.round, solver)
            seconds += time.perf_counter() - begin
            reason = report(state, network.counts | asdict(problem.work), seconds)
            if reason or state.round >= rounds:
                return reason
            begin = time.perf_counter()
            state = solver.step(problem, network, state)
