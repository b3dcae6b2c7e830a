"""Names of agents: which of them are the same, and their order."""

import logging
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from topologies import _checks

T = TypeVar("T")
_MOST = 10  # names in a message
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,37})(\.0+)?", re.ASCII)
_DIGITS = re.compile(r"-?\d{1,38}(\.0+)?", re.ASCII)


def identity(name: Hashable) -> Hashable:
    """Return the same value for names that are the same: 1, 1.0, ``numpy.int64(1)``, "1" and "1.0"; "01" is another one."""
    if isinstance(name, bool | np.bool_):
        return str(name)
    if isinstance(name, Integral):
        return int(name)
    if isinstance(name, Real):
        number = float(name)
        return int(number) if number.is_integer() else repr(number)
    if isinstance(name, str):
        return int(name.partition(".")[0]) if _WHOLE.fullmatch(name) else str(name)
    return name


def number(name: Hashable) -> int | None:
    """Return a whole number, or the one that a text of digits is, leading zeros included; None for any other name."""
    if isinstance(name, str):
        return int(name.partition(".")[0]) if _DIGITS.fullmatch(name) else None
    found = identity(name)
    return found if isinstance(found, int) else None


def as_numbers(names: Iterable[Hashable]) -> list[int]:
    """Return the places of names that are all whole numbers or digits in the order of the numbers, of others as they are."""
    names = list(names)
    if all(type(name) is int for name in names):
        return sorted(range(len(names)), key=names.__getitem__)  # type: ignore[arg-type]  # they are integers
    numbers = [number(name) for name in names]
    if None in numbers:
        return list(range(len(names)))
    return sorted(range(len(names)), key=numbers.__getitem__)  # type: ignore[arg-type]  # none of them is None


def say_order(what: str, names: Sequence[Hashable], before: Sequence[Hashable]) -> bool:
    """Return whether names, which were in the order ``before``, were ordered as numbers, and tell the log if they were."""
    changed = list(names) != list(before)
    if changed:
        text = "%s are ordered as numbers: agents 0, 1, ... are %s, not %s"
        shown = (_checks.listed(map(repr, some)) for some in (names, before))
        logging.getLogger("consensus").info(text, what, *shown)
    return changed


def is_missing(name: object) -> bool:
    """Return whether a name is None, or NaN, NaT or another mark of a missing value, which does not equal itself."""
    try:
        return name is None or bool(name != name)
    except TypeError:  # pandas.NA
        return True
    except ValueError:  # an array, which is no name
        return False


def checked(name: str, labels: object, agents: int | None = None) -> tuple[Hashable, ...]:
    """Return labels as a tuple; raise TypeError or ValueError, about the argument ``name``, unless they name each agent."""
    if not isinstance(labels, Sequence | np.ndarray) or (isinstance(labels, np.ndarray) and labels.ndim == 0):
        raise TypeError(f"{name} must be a sequence of the names of the agents, got {labels!r}")
    found = tuple(labels.tolist() if isinstance(labels, np.ndarray) else labels)
    if agents is not None and len(found) != agents:
        raise ValueError(f"{name} must name each of the {agents} agents, got {len(found)} names")
    for agent, label in enumerate(found):
        if is_missing(label):
            raise ValueError(f"{name} must name each agent; that of agent {agent} is missing, {label!r}")
    try:
        same = [identity(label) for label in found]
        if len(set(same)) == len(same):
            return found
    except TypeError:
        raise TypeError(f"{name} must be hashable, such as text or numbers, got {labels!r}") from None
    first, second = next((found[same.index(one)], found[k]) for k, one in enumerate(same) if same.index(one) < k)
    raise ValueError(f"{name} must differ from each other; some agents share one: {first!r} and {second!r}")


def of_parts(name: str, parts: Iterable[T] | Mapping[Any, T], labels: object) -> tuple[list[T], tuple[Hashable, ...] | None]:
    """Return the parts of the agents, and their names: the keys of a mapping, or ``labels``, one for each part, or None."""
    if isinstance(parts, Mapping):
        if labels is not None:
            raise ValueError(f"labels go with a list; the keys of {name} are the names already, got labels={labels!r}")
        parts, labels = list(parts.values()), list(parts)
    parts = list(parts)
    return parts, None if labels is None else checked("labels", labels, len(parts))


def plain(labels: Iterable[Hashable]) -> list[str | int | float]:
    """Return labels as they are stored in JSON: numbers and text as they are, others as their text."""
    return [label if isinstance(label, str | int | float) else str(label) for label in labels]


def of_run(problem: Any, network: Any) -> tuple[Hashable, ...] | None:  # noqa: ANN401  # whatever may have names
    """Return the agents' names: those of the problem, or else of the network; None if neither has some."""
    labels = getattr(problem, "labels", None)
    found: tuple[Hashable, ...] | None = getattr(network, "labels", None) if labels is None else labels
    return found


def agent(number: int, labels: Sequence[Hashable] | None) -> str:
    """Return an agent's name in messages: its number, and its label if it has one, as agent 2 ('Oslo')."""
    named = labels is not None and identity(labels[number]) != number
    return f"agent {number} ({labels[number]!r})" if labels is not None and named else f"agent {number}"


def block(rows: slice, labels: Sequence[Hashable] | None) -> str:
    """Return the name in messages of consecutive agents, as agents 2 to 3: 'Oslo', 'Rome'."""
    own = range(rows.start, rows.stop)
    text = f"agents {own[0]} to {own[-1]}"
    if labels is None or all(identity(labels[number]) == number for number in own):
        return text
    return f"{text}: {_checks.listed(repr(labels[number]) for number in own)}"


def places(name: str, agents: Iterable[object], labels: Sequence[Hashable] | None) -> list[object]:
    """Return agents with the number of each one that is text, by its name; raise ValueError, about ``name``, for no name."""
    numbers = {} if labels is None else {identity(label): k for k, label in enumerate(labels)}
    found = []
    for agent in agents:
        if isinstance(agent, str):
            if identity(agent) not in numbers:
                there = "agents have no names here" if labels is None else f"the agents are {_checks.listed(map(repr, labels))}"
                raise ValueError(f"{name} names {agent!r}, but {there}")
            agent = numbers[identity(agent)]
        found.append(agent)
    return found


def match(
    data: Sequence[Hashable] | None,
    network: Sequence[Hashable] | None,
    agents: int,
    first: str = "the data",
    second: str = "the network",
) -> tuple[int, ...] | None:
    """Return which agent of the network is agent 0, 1, ... of the data; None if one side has no names, so that places count.

    The names 0, ..., agents - 1 in this order are no names, unless the other side has the same ones in another order. Raise
    ValueError, which lists the names that one side has alone, if names differ.
    """
    numbers = list(range(agents))
    ours, theirs = ([identity(name) for name in side] if side is not None else numbers for side in (data, network))
    if data is not None and set(ours) == set(theirs):
        place = {name: agent for agent, name in enumerate(theirs)}
        return tuple(place[name] for name in ours)
    if ours == numbers or theirs == numbers:
        return None
    alone = [_alone(data or (), theirs), _alone(network or (), ours)]
    raise ValueError(
        f"{first} and {second} have different names: {alone[0]} in {first} alone, {alone[1]} in {second} alone. "
        "Give both the same names, as by networkx.relabel_nodes(graph, {old: new}); or leave out those of one side, such as by "
        "dataclasses.replace(shards, labels=None), and agents are joined by position"
    )


def _alone(names: Sequence[Hashable], others: Sequence[Hashable]) -> str:
    known = set(others)
    found = [repr(name) for name in names if identity(name) not in known]
    return ", ".join(found[:_MOST]) + (f", ... ({len(found)} in all)" if len(found) > _MOST else "") or "none"
