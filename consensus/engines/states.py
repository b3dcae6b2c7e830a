"""Where a run begins, and what a solver's states must be."""

from numbers import Integral
from typing import Any, NamedTuple, Protocol

import numpy as np

from consensus import _checks
from consensus.communication.states import rebuild
from consensus.engines.protocols import Problem, Solver

_UNPACK = "; unpack what network.mix returns, a tuple with one array for each block: (w,) = network.mix(round, w)"


class State(Protocol):
    """What engines read of a solver's state, a NamedTuple: its first two fields."""

    @property
    def round(self) -> int:
        """Rounds done."""

    @property
    def w(self) -> np.ndarray:
        """The iterates (agents, P)."""

    def _asdict(self) -> dict[str, Any]: ...


class Begin(NamedTuple):
    """Where a run begins, or a block of its agents: at a start, or where the run of a checkpoint was.

    Fields: the state's ``numbers`` by name, stacked over agents, as :func:`consensus.communication.states.flatten` gives them;
    whether the run is ``resumed``. Of a start there are ``round`` and ``w`` alone: the solver's ``init`` makes all others,
    in the process that holds the agents.
    """

    numbers: dict[str, Any]
    resumed: bool

    @classmethod
    def start(cls, w: np.ndarray) -> "Begin":
        """Where the first round begins, with iterates ``w`` (agents, P)."""
        return cls({"round": 0, "w": w}, resumed=False)

    @property
    def round(self) -> int:
        """Rounds done before."""
        return self.numbers["round"]

    def block(self, rows: slice) -> "Begin":
        """Where the agents ``rows`` begin."""
        numbers = {name: np.ascontiguousarray(value[rows]) if np.ndim(value) else value for name, value in self.numbers.items()}
        return Begin(numbers, self.resumed)

    def state(self, problem: Problem, solver: Solver) -> State:
        """The solver's state; what it computes for a start counts as ``problem``'s work.

        Raises
        ------
        TypeError, ValueError
            If ``solver.init`` gives no state, or one that is not made of these numbers.
        """
        if self.resumed:  # an initial state says how the numbers belong together; its block keeps its own count of work
            problem = problem.restrict(slice(0, problem.agents))
        initial = checked(solver.init(problem, self.numbers["w"]), 0, problem, f"{type(solver).__name__}.init")
        return rebuild(initial, self.numbers) if self.resumed else initial


def checked(state: Any, round: int, problem: Problem, name: str) -> State:
    """``state`` if that is one after ``round`` rounds of ``problem``'s agents.

    Raises
    ------
    TypeError, ValueError
        If not: what ``name``, a method of a solver, must return.
    """
    fields = getattr(state, "_fields", ()) if isinstance(state, tuple) else ()
    if fields[:2] != ("round", "w"):
        raise TypeError(
            f"{name} must return a NamedTuple whose first fields are round and w: (round: int, w: np.ndarray, ...); "
            f"got {_checks.shown(state)}"
        )
    w, shape = state.w, (problem.agents, problem.parameters)
    if not isinstance(w, np.ndarray) or w.shape != shape or w.dtype != problem.dtype:
        raise _wrong(w, shape, problem.dtype, name)
    if state.round != round or not isinstance(state.round, (int, Integral)):
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
