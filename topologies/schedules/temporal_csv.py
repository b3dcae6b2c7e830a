"""Text files of contacts."""

import os
from collections.abc import Hashable, Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from topologies import _names
from topologies._checks import listed, shown
from topologies._lines import (
    ENDS,
    FROM,
    MISSING,
    OTHER,
    TIMES,
    TO,
    Lines,
    integers,
    is_number,
    iso,
    no_name,
    plain,
    whole,
)

Column: TypeAlias = int | str
_NUMBER = "a number"


class Contacts(NamedTuple):
    """Times (contacts,), agents (contacts, 2), names of the agents and ends of contacts, as for `topologies.Temporal`."""

    times: np.ndarray
    contacts: np.ndarray
    labels: list[Hashable]
    ends: np.ndarray | None


class Trace:
    """A text file of contacts, whose format is that of `topologies.Temporal.from_csv`; `call` begins the call that reads it."""

    def __init__(
        self, path: str | os.PathLike[str], columns: Sequence[Column] | None, end: Column | None, sep: str | None, call: str
    ) -> None:
        self.path, self.sep, self.call = path, sep, call
        self.columns, self.end = _chosen(columns), end
        if not (end is None or _is_column(end)):
            raise TypeError(f"end must be the name or the place of a column, got {shown(end)}")

    def read(self, labels: Sequence[Hashable] | np.ndarray | None, self_contacts: str) -> Contacts:
        """Return the contacts in the file."""
        found = self._columns()
        when = found[0]
        as_int = whole(set().union(*found[1:3]))
        first, second = ([as_int.get(name, name) for name in some] for some in found[1:3])
        for some in (first, second):
            if wrong := no_name(some):
                self._fault(
                    wrong[0],
                    f"{wrong[1]}; if the first three fields are not time, i, j, say columns=; positions are for "
                    "topologies.Mobile.from_positions",
                )
        places: dict[str, int] = {}  # of agents, in order of appearance
        ends = np.array([[places.setdefault(name, len(places)) for name in some] for some in (first, second)])
        if "" in places:
            self._fault(int(np.argmax(np.any(ends == places[""], axis=0))), "a label is empty")
        for name in (name for name in places if name.lower() in MISSING and labels is None):
            if len(places) > 1 and all(is_number(other) for other in places if other != name):
                place = int(np.argmax(np.any(ends == places[name], axis=0)))
                self._fault(place, f"a label is missing, {name!r} among numbers; if it is one, pass labels=")
        times = self._times(when, "time")
        itself = np.flatnonzero(ends[0] == ends[1])
        if itself.size and self_contacts == "error":
            order = (
                "; if the first three fields are not time, i, j, say columns=, such as columns=(2, 0, 1) for i, j, time"
                if self.columns is None
                else ""
            )
            why = f"has a contact with itself; self_contacts='drop' ignores such contacts{order}"
            self._fault(int(itself[0]), f"{first[itself[0]]} {why}")
        names, agent = _agents(list(places), labels, self.path)
        return Contacts(times, agent[ends.T], names, self._times(found[3], "end") if len(found) > 3 else None)

    def _columns(self) -> list[list[str]]:
        """Return the fields of times, of both agents and of ends."""
        lines = Lines(self.path, 3, self.sep)
        rows = iter(lines)
        first = next(rows, None)
        if first is None:
            raise ValueError(f"{lines.path} holds no contacts")
        header = None if any(is_number(field) or iso(field) is not None for field in first) or len(first) < 3 else first
        self.begin = 0 if header is None else 1
        above = list(lines.split(lines.above))
        names = header or (above if len(above) == len(first) else None)
        if self.columns is None and names is not None:
            self._contradiction(lines, names)
        wanted = [*(self.columns or (0, 1, 2)), *([] if self.end is None else [self.end])]
        picked = [self._place(lines, column, names, len(first)) for column in wanted]
        kept = list(range(len(first))) if self.columns is None and header is None else picked
        taken: list[list[str]] = [[] for _ in kept]
        add = [some.append for some in taken]
        for fields in rows if header else _again(first, rows):
            if len(fields) != len(first):
                if len(fields) < 3:
                    raise lines.error(f"a line must hold time, i, j; this one has {len(fields)} fields")
                raise lines.error(f"it has {len(fields)} fields, but lines before it have {len(first)}")
            for keep, place in zip(add, kept):
                keep(fields[place])
        if not taken[0]:
            raise ValueError(f"{lines.path} holds no contacts")
        if kept is not picked:
            self._doubt(lines.path, taken)
            taken = [taken[place] for place in picked]
        return taken

    def _place(self, lines: Lines, column: Column, names: list[str] | None, width: int) -> int:
        if isinstance(column, str):
            if names is None:
                raise lines.error(f"there is no header with the column {column!r}; give places, such as columns=(0, 1, 2)")
            if names.count(column) != 1:
                times = "twice" if column in names else "not"
                raise lines.error(f"the header has the column {column!r} {times}; it has {', '.join(map(repr, names))}")
            return names.index(column)
        if width < 3:
            raise lines.error(f"a line must hold time, i, j; this one has {width} fields")
        if not 0 <= column < width:
            raise lines.error(f"columns must be places from 0 to {width - 1}, got {column}")
        return int(column)

    def _contradiction(self, lines: Lines, names: list[str]) -> None:
        """Raise an error if names say that the first three columns are not time, i, j."""
        known = [plain(name) for name in names]
        lasts = [name for name, word in zip(names, known) if word in ENDS]
        wrong = (
            known[0] in FROM | TO | ENDS
            or (known[0] not in TIMES and any(word in TIMES for word in known[1:]))
            or any(word in TIMES | ENDS | OTHER for word in known[1:3])
            or (bool(lasts) and self.end is None)
        )
        if not wrong:
            return
        when, one, other = ([name for name, word in zip(names, known) if word in words] for words in (TIMES, FROM, TO))
        rest = [name for name, word in zip(names, known) if word and word not in TIMES | ENDS | OTHER]
        ends = [*one, *other] if len(one) == len(other) == 1 else rest
        if len(when) == 1 and len(ends) == 2:
            last = f", end={lasts[0]!r}" if len(lasts) == 1 else ""
            remedy = f"read it by {self.call}, columns={(when[0], *ends)!r}{last})"
        else:
            remedy = (
                f"say which are the time and the two agents, by {self.call}, columns=(time, i, j)) with three of these names"
            )
        raise lines.error(
            f"the columns are named {', '.join(names)}, not time, i, j in this order; {remedy}, or by their places"
        )

    def _doubt(self, path: str, columns: list[list[str]]) -> None:
        """Raise an error if columns without names may as well be i, j, time as time, i, j."""
        values = {place: found for place, column in enumerate(columns) if (found := _numbers(column)) is not None}
        if len(columns[0]) < 2 or 0 not in values or np.any(values[0] % 1):
            return
        sets = [set(column) for column in columns]

        def shared(one: int, other: int) -> float:
            return len(sets[one] & sets[other]) / len(sets[one] | sets[other])

        rising = {place for place, found in values.items() if np.all(np.diff(found) >= 0)}
        later = [place for place in values if place >= 2 and len(sets[place]) > 1]
        likely = [place for place in later if place in rising]
        other = None
        if later and ((likely and 0 not in rising) or shared(0, 1) > shared(1, 2)):
            place = max(likely or later, key=lambda place: len(sets[place]))
            other = (place, 0, 1)
        elif len(columns) > 3 and not shared(1, 2) and shared(2, 3):
            other = (1, 2, 3)
        if other:
            raise ValueError(
                f"{path} has no header, and its first three columns need not be time, i, j: pass columns={other} if column "
                f"{other[0]}, counted from 0, holds the times, or columns=(0, 1, 2) if the first one does"
            )

    def _times(self, fields: list[str], what: str) -> np.ndarray:
        """Return times as exact numbers, or as dates in nanoseconds."""
        values = _numbers(fields)
        if values is not None:
            broken = np.flatnonzero(~np.isfinite(values))
            if broken.size:
                self._fault(int(broken[0]), f"the {what} must be a finite number, got {fields[broken[0]]!r}")
            return _exact(fields, values)
        kind = ""
        for place, field in enumerate(fields):
            found = _NUMBER if is_number(field) else "" if (date := iso(field)) is None else _ZONES[date.tzinfo is not None]
            if not found or (found == _NUMBER and not np.isfinite(float(field))):
                self._fault(
                    place, f"the {what} must be a finite number, got {field!r}; or a date in ISO 8601{self._elsewhere(place)}"
                )
            if kind and found != kind:
                self._fault(place, f"the {what} is {found}, but that of lines before it is {kind}")
            kind = found
        import pandas

        try:
            stamps = pandas.to_datetime(fields, format="ISO8601", utc=True).as_unit("ns")
        except ValueError as error:
            raise ValueError(f"{os.fspath(self.path)} has dates that are out of range or of mixed forms ({error})") from None
        return np.asarray(stamps.asi8).view("datetime64[ns]")

    def _elsewhere(self, place: int) -> str:
        """Return a remedy if other fields of a line may be the time."""
        fields = self._line(place)[1]
        if self.columns is None and is_number(fields[0].replace(",", ".", 1)):
            return ", with a decimal point"
        numbers = [k for k, field in enumerate(fields) if is_number(field) or iso(field) is not None]
        if self.columns is None and len(numbers) == 1 and numbers[0] >= 2:
            return f". If column {numbers[0]}, counted from 0, holds the times, pass columns=({numbers[0]}, 0, 1)"
        return ""

    def _line(self, place: int) -> tuple[Lines, list[str]]:
        """Return the lines, read up to a contact, and its fields."""
        lines = Lines(self.path, 3, self.sep)
        return lines, next(fields for k, fields in enumerate(lines) if k == place + self.begin)

    def _fault(self, place: int, why: str) -> NoReturn:
        raise self._line(place)[0].error(why)


_ZONES = ("a date without a time zone", "a date with a time zone")


def _again(first: list[str], rows: Iterator[list[str]]) -> Iterator[list[str]]:
    yield first
    yield from rows


def _is_column(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, int | np.integer) and not isinstance(value, bool))


def _chosen(columns: Any) -> tuple[Column, ...] | None:  # noqa: ANN401  # what a user passes
    if columns is None:
        return None
    wanted = (
        "three columns, those of the time and of both agents, by name or place, such as ('time', 'from', 'to') or (2, 0, 1)"
    )
    if isinstance(columns, str) or not isinstance(columns, Sequence | np.ndarray):
        raise TypeError(f"columns must be {wanted}; got {shown(columns)}")
    chosen = tuple(columns)
    if len(chosen) != 3 or not all(map(_is_column, chosen)) or len(set(chosen)) != 3:
        raise ValueError(f"columns must be {wanted}; got {chosen!r}")
    return chosen


def _numbers(fields: list[str]) -> np.ndarray | None:
    """Return fields as floats, or None if one is no number."""
    try:
        return None if any("_" in field for field in fields) else np.array(list(map(float, fields)))
    except ValueError:
        return None


def _exact(fields: list[str], values: np.ndarray) -> np.ndarray:
    """Return numbers from texts to the last digit: as whole numbers, as floats where these tell all digits, or as decimals."""
    try:
        return np.array(list(map(int, fields)), dtype=np.int64)
    except (ValueError, OverflowError):
        pass
    digits = max(len(field) - field.find(".") - 1 if "." in field else 0 for field in fields)
    plain_ = not any("e" in field or "E" in field for field in fields)
    if plain_ and digits < 22 and np.abs(values).max() * 10.0**digits < 2.0**52:
        return values
    return np.array([Decimal(field) for field in fields], dtype=object)


def _agents(
    found: list[str], labels: Sequence[Hashable] | np.ndarray | None, path: str | os.PathLike[str]
) -> tuple[list[Hashable], np.ndarray]:
    """Return the names of the agents, and the agent of each name in the file."""
    if labels is None:
        names: list[Any] = [int(name) for name in found] if integers(found) else found
        order = sorted(range(len(names)), key=names.__getitem__)
        order = [order[place] for place in _names.as_numbers([names[k] for k in order])]  # digits as text
        agent = np.empty(len(names), dtype=int)
        agent[order] = np.arange(len(names))
        return [names[k] for k in order], agent
    given = _names.checked("labels", labels)
    place = {_names.identity(name): k for k, name in enumerate(given)}
    foreign = [name for name in found if _names.identity(name) not in place]
    if foreign:
        raise ValueError(f"{os.fspath(path)} has {len(foreign)} agents that labels do not name: {listed(foreign)}")
    return list(given), np.array([place[_names.identity(name)] for name in found])
