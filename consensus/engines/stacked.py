"""All agents in one process, as the rows of one stack."""

import time
from dataclasses import asdict, dataclass, field

import numpy as np

from consensus._parallel import one_blas_thread
from consensus.errors import DivergenceError

_LARGEST = 1e150  # an iterate beyond this is lost: its square is near the largest double
_CACHED = 64  # mixing matrices kept, by the schedule's key


@dataclass
class StackedNetwork:
    """Mixes blocks of all agents by sparse products, and counts what a real network would send.

    Attributes
    ----------
    exchanges : int
        Calls of :meth:`mix` so far: each is one exchange of every agent with its neighbours.
    messages : int
        Rows sent so far, over all edges and both ways.
    floats : int
        Numbers in them.
    """

    schedule: object
    dtype: np.dtype
    exchanges: int = 0
    messages: int = 0
    floats: int = 0
    _matrices: dict = field(default_factory=dict, repr=False)

    @property
    def agents(self):
        """A, the number of agents of the whole network."""
        return self.schedule.agents

    def mix(self, round, *blocks):
        """``W[round] @ block`` for blocks (agents, ...), sent together in one exchange; new arrays."""
        matrix, edges = self._matrix(self.schedule.key(round))
        self.exchanges += 1
        self.messages += edges
        self.floats += edges * sum(block[0].size for block in blocks)
        return tuple(matrix @ block for block in blocks)

    def _matrix(self, key):
        if key not in self._matrices:
            if len(self._matrices) >= _CACHED:
                del self._matrices[next(iter(self._matrices))]  # the oldest
            matrix = self.schedule.weights(key)
            edges = matrix.nnz - np.count_nonzero(matrix.diagonal())
            self._matrices[key] = matrix.astype(self.dtype, copy=False), int(edges)
        return self._matrices[key]


@dataclass(frozen=True)
class Stacked:
    """Run all agents stacked in this process: the simplest engine, and the fastest for small problems."""

    def run(self, problem, schedule, solver, start, rounds, observe):
        """Run ``solver`` from ``start`` (agents, P) for ``rounds`` rounds, or until ``observe`` gives a reason to stop.

        Parameters
        ----------
        observe : callable
            ``observe(round, w, counts, seconds)`` after the start (round 0) and after every round, with the iterates, what
            was sent and computed so far, and the seconds spent in rounds (none of them its own); returns a reason to
            stop, or None.

        Returns
        -------
        str or None
            The reason, None when all rounds were done.

        Raises
        ------
        DivergenceError
        """
        problem = problem.restrict(slice(None))  # its own count of work
        network = StackedNetwork(schedule, problem.dtype)
        seconds, begin = 0.0, time.perf_counter()
        # Overflow is not a warning here: what comes of it is tested every round.
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            state = solver.init(problem, start)
            while True:
                if not -_LARGEST < state.w.min() <= state.w.max() < _LARGEST:  # false for NaN too
                    raise DivergenceError(state.round, solver)
                seconds += time.perf_counter() - begin
                sent = {"exchanges": network.exchanges, "messages": network.messages, "floats": network.floats}
                reason = observe(state.round, state.w, sent | asdict(problem.work), seconds)
                if reason or state.round >= rounds:
                    return reason
                begin = time.perf_counter()
                state = solver.step(problem, network, state)
