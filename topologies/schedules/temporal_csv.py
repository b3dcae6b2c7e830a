"""Text files of contacts."""

import gzip
import math
import os
import zlib
from array import array
from collections.abc import Hashable, Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from topologies._checks import shown

_NUMBER = "a number"


class Contacts(NamedTuple):
    """Times (contacts,), agents (contacts, 2) and sorted names of the agents, as `topologies.Temporal` takes them."""

    times: np.ndarray
    contacts: np.ndarray
    labels: list[Hashable]


def read(path: str | os.PathLike[str]) -> Contacts:
    """Return the contacts in a text file, whose format is that of `topologies.Temporal.from_csv`."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the path of a text file, got {path!r}")
    path = os.fspath(path)
    try:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rt", encoding="utf-8-sig") as lines:
            return _contacts(path, lines)
    except FileNotFoundError:
        raise
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error})") from None
    except (OSError, EOFError, zlib.error) as error:  # a directory, a damaged gzip file, no permission
        raise ValueError(f"{path} cannot be read ({error})") from error


def _contacts(path: str, lines: Iterable[str]) -> Contacts:
    times, ends = array("d"), array("q")
    agents: dict[str, int] = {}  # in order of appearance
    width, kind = 0, ""
    for number, line in enumerate(lines, 1):
        fields = _fields(line.partition("#")[0])
        if not fields or fields == [""]:
            continue
        try:
            if not width:
                width = len(fields)
                if width >= 3 and not any(map(_is_number, fields)) and _iso(fields[0]) is None:
                    continue
            time, found = _time(fields, width)
            if kind and found != kind:
                raise ValueError(f"the time is {found}, but that of lines before it is {kind}")
            kind = found
        except ValueError as fault:
            raise ValueError(f"{path}, line {number}, {shown(line.rstrip())}: {fault}") from None
        times.append(time)
        for label in fields[1:3]:
            ends.append(agents.setdefault(label, len(agents)))
    if not times:
        raise ValueError(f"{path} holds no contacts")
    integers = all(label.removeprefix("-").isdecimal() and str(int(label)) == label for label in agents)
    labels: list[Any] = [int(label) for label in agents] if integers else list(agents)
    order = sorted(range(len(labels)), key=labels.__getitem__)
    agent = np.empty(len(labels), dtype=int)
    agent[order] = np.arange(len(labels))
    seconds = np.array(times)
    when = seconds if kind == _NUMBER else np.round(seconds * 1e6).astype("datetime64[us]")
    return Contacts(when, agent[np.array(ends)].reshape(-1, 2), [labels[k] for k in order])


def _fields(text: str) -> list[str]:
    """Return the fields of a line; a date and a time of day separated by white space are one field."""
    if "," in text:
        return [field.strip() for field in text.split(",")]
    fields = text.split()
    if len(fields) > 3 and not _is_number(fields[0]) and _iso(" ".join(fields[:2])) and _iso(fields[0]) and ":" in fields[1]:
        return [" ".join(fields[:2]), *fields[2:]]
    return fields


def _iso(text: str) -> datetime | None:
    """Return the date of a text in ISO 8601, or None."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _time(fields: list[str], width: int) -> tuple[float, str]:
    """Return the time of a contact and its kind; raise ValueError unless the fields describe a contact."""
    if len(fields) < 3:
        raise ValueError(f"a line must hold time, i, j; this one has {len(fields)} fields")
    if len(fields) != width:
        raise ValueError(f"it has {len(fields)} fields, but lines before it have {width}")
    date = None if _is_number(fields[0]) else _iso(fields[0])
    if date is None and not (_is_number(fields[0]) and math.isfinite(float(fields[0]))):
        raise ValueError(f"the time must be a finite number, got {fields[0]!r}; or a date in ISO 8601")
    if not (fields[1] and fields[2]):
        raise ValueError("a label is empty")
    if fields[1] == fields[2]:
        raise ValueError(f"{fields[1]} has a contact with itself")
    if date is None:
        return float(fields[0]), _NUMBER
    zone = "without" if date.tzinfo is None else "with"
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp(), f"a date {zone} a time zone"
