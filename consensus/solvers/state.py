"""A solver's state as named arrays, and back."""

from typing import Any, Protocol, TypeVar


class Fields(Protocol):
    """What is read of a NamedTuple, any: its fields by name."""

    def _asdict(self) -> dict[str, Any]: ...


State = TypeVar("State", bound=Fields)


def flatten(state: Fields) -> dict[str, Any]:
    """The numbers of a state by name: those of a state inside it have its name before theirs, and a dot.

    Parameters
    ----------
    state : NamedTuple
        Of arrays, numbers, and other NamedTuples of these.

    Returns
    -------
    dict of str to ndarray or number

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from consensus.engines import flatten
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
    """The state of the same NamedTuples as ``template`` with the numbers ``fields``, as :func:`flatten` gives them.

    Raises
    ------
    ValueError
        If the names are not those of the template's numbers.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from consensus.solvers.state import rebuild
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


def _filled(template, fields, prefix):
    values = (
        _filled(value, fields, f"{prefix}{name}.") if _nested(value) else fields[prefix + name]
        for name, value in template._asdict().items()
    )
    return type(template)(*values)


def _nested(value):
    return isinstance(value, tuple) and hasattr(value, "_fields")
