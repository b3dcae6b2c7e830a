"""A solver's state as named arrays, and back."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard, TypeVar

import numpy as np


class Fields(Protocol):
    """The protocol of NamedTuples: fields by name."""

    def _asdict(self) -> dict[str, Any]: ...


State = TypeVar("State", bound=Fields)


def flatten(state: Fields) -> dict[str, Any]:
    """Return the numbers of a state by name; a nested state's names follow its own name and a dot.

    Parameters
    ----------
    state : NamedTuple
        Arrays, numbers, and other NamedTuples of these.

    Returns
    -------
    dict of str to ndarray or number
        Values by name.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from consensus.communication import flatten
    >>> class Damping(NamedTuple):
    ...     tau: float
    >>> class State(NamedTuple):
    ...     round: int
    ...     damping: Damping
    >>> flatten(State(3, Damping(0.5)))
    {'round': 3, 'damping.tau': 0.5}
    """
    flat: dict[str, Any] = {}
    for name, value in state._asdict().items():
        flat |= {f"{name}.{inner}": number for inner, number in flatten(value).items()} if _nested(value) else {name: value}
    return flat


def rebuild(template: State, fields: dict[str, Any]) -> State:
    """Return a state with the given numbers: the inverse of :func:`flatten`.

    Parameters
    ----------
    template : NamedTuple
        A state with the same fields.
    fields : dict of str to ndarray or number
        Values by name.

    Returns
    -------
    NamedTuple
        State of the same classes.

    Raises
    ------
    ValueError
        If the names are not those of the template's numbers.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from consensus.communication.states import rebuild
    >>> class State(NamedTuple):
    ...     round: int
    ...     w: float
    >>> rebuild(State(0, 0.0), {"w": 0.5, "round": 3})
    State(round=3, w=0.5)
    """
    expected = flatten(template).keys()
    if expected != fields.keys():
        lacks, more = sorted(expected - fields.keys()), sorted(fields.keys() - expected)
        differences = [f"{what} {', '.join(names)}" for what, names in (("lacks", lacks), ("has also", more)) if names]
        raise ValueError(
            f"the checkpoint is of another version of the solver: {type(template).__name__} there {' and '.join(differences)}"
        )
    return _filled(template, fields, "")


def joined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return all agents' numbers of a state by name.

    Parameters
    ----------
    parts : sequence of dict
        The numbers of blocks, in the order of agents.

    Returns
    -------
    dict of str to ndarray or number
        Values by name.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.communication import joined
    >>> joined([{"round": 3, "w": np.zeros((2, 1))}, {"round": 3, "w": np.ones((1, 1))}])["w"].tolist()
    [[0.0], [0.0], [1.0]]
    """
    first = parts[0]
    return {name: np.concatenate([part[name] for part in parts]) if np.ndim(first[name]) else first[name] for name in first}


def _filled(template: State, fields: dict[str, Any], prefix: str) -> State:
    values = (
        _filled(value, fields, f"{prefix}{name}.") if _nested(value) else fields[prefix + name]
        for name, value in template._asdict().items()
    )
    return type(template)(*values)


def _nested(value: object) -> TypeGuard[Fields]:
    return isinstance(value, tuple) and hasattr(value, "_fields")
