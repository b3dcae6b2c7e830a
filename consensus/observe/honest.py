"""The agents that are measured: the honest ones."""

from collections.abc import Hashable, Sequence

import numpy as np

from consensus import _checks
from topologies import _names


def measured_agents(
    honest: Sequence[int | str] | None, solver: object, agents: int, labels: tuple[Hashable, ...] | None = None
) -> np.ndarray | None:
    """Return the agents that are measured, in ascending order, or None for all.

    By default they are all but the ``byzantine`` agents of `solver`, or of a solver that it wraps. Raise TypeError or
    ValueError unless `honest` holds different agents.
    """
    if honest is None:
        found = np.ones(agents, bool)
        layer: object | None = solver
        while layer is not None:
            found[list(getattr(layer, "byzantine", ()))] = False
            layer = getattr(layer, "solver", None)
    else:
        numbers = _checks.dense(
            "honest", _names.places("honest", honest, labels) if isinstance(honest, list | tuple) else honest
        )
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise TypeError(f"honest must be agents' numbers, such as [0, 1, 3]; got {_checks.shown(honest)}")
        if len(np.unique(numbers)) < len(numbers) or numbers.min() < 0 or numbers.max() >= agents:
            raise ValueError(f"honest must be different agents among 0 .. {agents - 1}; got {_checks.shown(honest)}")
        found = np.isin(np.arange(agents), numbers)
    return None if found.all() else np.flatnonzero(found)
