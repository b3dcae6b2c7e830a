"""The agents that are measured: the honest ones."""

from collections.abc import Sequence

import numpy as np

from consensus import _checks


def measured_agents(honest: Sequence[int] | None, solver: object, agents: int) -> np.ndarray | None:
    """Return the agents that are measured, in ascending order, or None for all.

    Parameters
    ----------
    honest : sequence of int, optional
        The user's choice. By default all but the ``byzantine`` agents of `solver`, or of a solver that it wraps.
    solver : Solver
        Solver of the run.
    agents : int
        Number of agents.

    Returns
    -------
    ndarray of int or None
        Agents that are measured.

    Raises
    ------
    TypeError, ValueError
        If `honest` is empty, or does not hold different agents.
    """
    if honest is None:
        found = np.ones(agents, bool)
        layer: object | None = solver
        while layer is not None:
            found[list(getattr(layer, "byzantine", ()))] = False
            layer = getattr(layer, "solver", None)
    else:
        numbers = _checks.dense("honest", honest)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise TypeError(f"honest must be agents' numbers, such as [0, 1, 3]; got {_checks.shown(honest)}")
        if len(np.unique(numbers)) < len(numbers) or numbers.min() < 0 or numbers.max() >= agents:
            raise ValueError(f"honest must be different agents among 0 .. {agents - 1}; got {_checks.shown(honest)}")
        found = np.isin(np.arange(agents), numbers)
    return None if found.all() else np.flatnonzero(found)
