"""Contacts in a text file."""

import gzip
import math
import os
import zlib
from array import array
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from topologies._checks import shown

_NUMBER = "a number"


class Contacts(NamedTuple):
    """What `topologies.Temporal` takes. Fields: the ``times`` (contacts,), numbers or dates; the agents of the ``contacts``
    (contacts, 2); what each agent is called, sorted, in ``labels``, integers if all look so.
    """

    times: np.ndarray
    contacts: np.ndarray
    labels: list[Any]


def read(path: str | os.PathLike) -> Contacts:
    """The contacts in a text file, laid out as `topologies.Temporal.from_csv` says."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the path of a text file, got {path!r}")
    path = os.fspath(path)
    try:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rt", encoding="utf-8-sig") as lines:
            return _contacts(path, lines)
    except FileNotFoundError:
        raise
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8 ({error})") from None
    except (OSError, EOFError, zlib.error) as error:  # a directory, a damaged gzip file, no permission
        raise ValueError(f"{path} cannot be read ({error})") from error


def _contacts(path, lines):
    times, ends, agents, width, kind = array("d"), array("q"), {}, None, None  # agents in the order of their appearance
    for number, line in enumerate(lines, 1):
        fields = _fields(line.partition("#")[0])
        if not fields or fields == [""]:
            continue
        try:
            if width is None:
                width = len(fields)
                if width >= 3 and not any(map(_is_number, fields)) and _iso(fields[0]) is None:
                    continue
            time, found = _time(fields, width)
            if kind is not None and found != kind:
                raise ValueError(f"its time is {found}, that of lines before it {kind}")
            kind = found
        except ValueError as fault:
            raise ValueError(f"{path}, line {number}, {shown(line.rstrip())}: {fault}") from None
        times.append(time)
        for label in fields[1:3]:
            ends.append(agents.setdefault(label, len(agents)))
    if not times:
        raise ValueError(f"{path} holds no contacts")
    labels = list(agents)
    if all(label.removeprefix("-").isdecimal() and str(int(label)) == label for label in labels):
        labels = [int(label) for label in labels]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    agent = np.empty(len(labels), dtype=int)
    agent[order] = np.arange(len(labels))
    seconds = np.array(times)
    when = seconds if kind == _NUMBER else np.round(seconds * 1e6).astype("datetime64[us]")
    return Contacts(when, agent[np.array(ends)].reshape(-1, 2), [labels[k] for k in order])


def _fields(text):
    """The fields of a line; a date and a time of day between white space are one."""
    if "," in text:
        return [field.strip() for field in text.split(",")]
    fields = text.split()
    if len(fields) > 3 and not _is_number(fields[0]) and _iso(" ".join(fields[:2])) and _iso(fields[0]) and ":" in fields[1]:
        return [" ".join(fields[:2]), *fields[2:]]
    return fields


def _iso(text):
    """A date written as in ISO 8601, or None."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _is_number(field):
    try:
        float(field)
    except ValueError:
        return False
    return True


def _time(fields, width):
    """The time of a contact and its kind, from the fields of its line; ValueError if they are not those of a contact."""
    if len(fields) < 3:
        raise ValueError(f"a line holds time, i, j; this one has {len(fields)} fields")
    if len(fields) != width:
        raise ValueError(f"it has {len(fields)} fields, but lines before it have {width}")
    date = None if _is_number(fields[0]) else _iso(fields[0])
    if date is None and not (_is_number(fields[0]) and math.isfinite(float(fields[0]))):
        raise ValueError(f"the time must be a finite number, got {fields[0]!r}; or a date as in ISO 8601")
    if not (fields[1] and fields[2]):
        raise ValueError("a label is empty")
    if fields[1] == fields[2]:
        raise ValueError(f"{fields[1]} meets itself")
    if date is None:
        return float(fields[0]), _NUMBER
    zone = "without" if date.tzinfo is None else "with"
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp(), f"a date {zone} a time zone"
