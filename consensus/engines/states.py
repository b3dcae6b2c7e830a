"""Beginning of a run, and checks of a solver's states."""

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.states import rebuild
from consensus.engines.protocols import Problem, Solver, State

_UNPACK = "; unpack what network.mix returns, a tuple with one array for each block: (w,) = network.mix(round, w)"


class Begin(NamedTuple):
    """Beginning of a run, or of a block of its agents: a start or a checkpoint.

    Attributes
    ----------
    numbers : dict of str to ndarray or number
        The state's numbers, stacked over agents, as :func:`consensus.communication.flatten` returns them. At a start they are
        ``round`` and ``w`` alone: ``solver.init`` makes all others, in the process that holds the agents.
    resumed : bool
        Whether it is a checkpoint.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.engines import Begin
    >>> begin = Begin.start(np.arange(6.0).reshape(3, 2))
    >>> begin.round, begin.resumed, begin.block(slice(1, 3)).numbers["w"].tolist()
    (0, False, [[2.0, 3.0], [4.0, 5.0]])
    """

    numbers: dict[str, Any]
    resumed: bool

    @classmethod
    def start(cls, w: np.ndarray) -> "Begin":
        """Return the beginning of the first round.

        Parameters
        ----------
        w : ndarray (agents, P)
            Iterates.

        Returns
        -------
        Begin
            With these iterates.
        """
        return cls({"round": 0, "w": w}, resumed=False)

    @property
    def round(self) -> int:
        """Rounds done before."""
        return int(self.numbers["round"])

    def block(self, rows: slice) -> "Begin":
        """Return the beginning of some agents.

        Parameters
        ----------
        rows : slice
            The agents.

        Returns
        -------
        Begin
            With their rows, in memory that may be written.
        """
        own = {name: np.require(value[rows], requirements=["C", "W"]) for name, value in self.numbers.items() if np.ndim(value)}
        return Begin(self.numbers | own, self.resumed)

    def state(self, problem: Problem, solver: Solver) -> State:
        """Return the solver's state; the work at a start counts as ``problem``'s.

        Parameters
        ----------
        problem : Problem
            The problem of these agents.
        solver : Solver
            The solver that runs.

        Returns
        -------
        NamedTuple
            The state.

        Raises
        ------
        TypeError, ValueError
            If ``solver.init`` returns no state, or one that is not made of these numbers.
        """
        if self.resumed:  # the initial state only shows how the numbers belong together
            problem = _silent(problem.restrict(slice(0, problem.agents)))
        initial = checked(solver.init(problem, self.numbers["w"]), 0, problem, f"{type(solver).__name__}.init")
        return rebuild(initial, self.numbers) if self.resumed else initial


def _silent(block: Problem) -> Problem:
    """Return a block, which nobody else has, with zeros for its costs and gradients: they are computed for nobody."""

    def value(w: np.ndarray) -> np.ndarray:
        return np.zeros(len(w), w.dtype)

    def gradient(w: np.ndarray, batch: object = None) -> np.ndarray:
        return np.zeros_like(w)

    def value_and_gradient(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return value(w), gradient(w)

    vars(block).update(value=value, gradient=gradient, average_gradient=gradient, value_and_gradient=value_and_gradient)
    return block


def checked(state: Any, round: int, problem: Problem, name: str) -> State:  # noqa: ANN401  whatever a user's solver returns
    """Return ``state`` if it is one after ``round`` rounds of the problem's agents.

    If not, it raises a ``TypeError`` or ``ValueError`` with the ``name`` of the solver's method that returned it.
    """
    fields = getattr(state, "_fields", ()) if isinstance(state, tuple) else ()
    if fields[:2] != ("round", "w"):
        raise TypeError(
            f"{name} must return a NamedTuple whose first fields are round and w: (round: int, w: np.ndarray, ...); "
            f"got {_checks.shown(state)}"
        )
    found: State = state
    w, shape = found.w, (problem.agents, problem.parameters)
    if not isinstance(w, np.ndarray) or w.shape != shape or w.dtype != problem.dtype:
        raise _wrong(w, shape, problem.dtype, name)
    if found.round != round or not isinstance(found.round, (int, Integral)):
        raise ValueError(
            f"{name} must return a state whose round, the number of rounds done, is {round}; got {_checks.shown(found.round)}"
        )
    return found


def _wrong(w: object, shape: tuple[int, int], dtype: np.dtype, name: str) -> TypeError | ValueError:
    """Return the error that ``w`` is no array of ``shape`` and ``dtype``."""
    kind: type[TypeError | ValueError] = TypeError
    hint = ""
    if not isinstance(w, np.ndarray):
        got, hint = _checks.shown(w), _UNPACK if isinstance(w, tuple) else ""
    elif w.shape != shape:
        kind, got, hint = ValueError, f"shape {w.shape}", _UNPACK if w.shape == (1, *shape) else ""
    else:
        got, hint = f"dtype {w.dtype}", ": return w.astype(problem.dtype)"
    return kind(f"{name} must return a state with w an array of shape (agents, P) = {shape} and dtype {dtype}; got {got}{hint}")
