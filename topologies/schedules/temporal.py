"""Schedules of observed contacts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fractions import Fraction
from os import PathLike
from typing import Literal, Self

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from topologies import _checks, _names
from topologies._checks import integer, unmasked
from topologies.pattern import entries, pairs_pattern, with_edges
from topologies.schedules.base import Schedule
from topologies.schedules.temporal_csv import Trace
from topologies.schedules.temporal_times import Moments, Span, Time, duration, is_rounded, moment, moments, windows
from topologies.weights.metropolis import metropolis_entries


class Temporal(Schedule):
    """A schedule of observed contacts, cut into windows of time: one window is one round [1]_.

    Agents i and j are adjacent in round n if they have a contact at a time t with

        start + n window <= t < start + (n + 1) window.

    Mixing matrices have Metropolis weights, whatever the number of contacts; in an empty window agents keep their values. After
    the window of the last contact, rounds start again or remain empty. Rounds with the same edges share a key.

    Parameters
    ----------
    times : array_like, shape (contacts,)
        Times of the contacts, in any order: numbers in any unit, or dates (`datetime.datetime`, `numpy.datetime64`,
        `pandas.Timestamp`), whose unit is seconds. Dates with a time zone are converted to UTC. All is computed exactly: a
        float is the decimal that it is written as, so that 0.3 begins the fourth window of 0.1; dates are whole nanoseconds.
    contacts : array_like of labels, shape (contacts, 2)
        The two agents of each contact, which is mutual.
    window : float or timedelta
        Length of a window, above 0, in the unit of `times`, or for dates a timedelta of `datetime`, numpy or pandas.
    start : float or date, optional
        Time at which round 0 begins, by default that of the first contact. Earlier contacts are ignored.
    cyclic : bool
        Whether rounds start again after the last window.
    labels : sequence, optional
        Names of the agents. `contacts` then holds agents, 0, ..., A - 1, and some may have no contact. By default agents are
        the labels in `contacts`, sorted; labels that are all digits as text in the order of the numbers.
    ends : array_like, shape (contacts,), optional
        Times at which contacts end, at or after `times`: a contact is in every window between the two; the end itself is no
        part of it. By default contacts last for a moment.
    self_contacts : {"error", "drop"}
        Whether contacts of an agent with itself are an error or ignored.

    Attributes
    ----------
    labels : tuple
        Name of each agent; also the node attribute ``"label"`` of graphs.
    rounds : int
        Number of windows.
    start : float
        Time at which round 0 begins; for dates in seconds since 1970.
    window : float
        Length of a window; for dates in seconds.

    Raises
    ------
    TypeError
        If times are neither numbers nor dates, or `start` or `window` is of another kind than `times`.
    ValueError
        If a time is not finite or masked, an agent has a contact with itself or no label, or no contact is at or after `start`.

    References
    ----------
    .. [1] P. Holme and J. Saramaki, "Temporal networks", Physics Reports 519 (2012).

    Examples
    --------
    >>> from topologies import Temporal
    >>> network = Temporal([0, 20, 40, 80], [("ann", "bob"), ("bob", "cy"), ("cy", "ann"), ("bob", "ann")], window=40)
    >>> network
    Temporal(agents=3, edges=3, rounds=3, window=40.0, cyclic=True)
    >>> network.labels
    ('ann', 'bob', 'cy')
    >>> [sorted(network.graph(n).edges) for n in range(4)]
    [[(0, 1), (1, 2)], [(0, 2)], [(0, 1)], [(0, 1), (1, 2)]]
    """

    def __init__(
        self,
        times: ArrayLike,
        contacts: ArrayLike,
        window: Span,
        start: Time | None = None,
        cyclic: bool = True,
        labels: Sequence[Hashable] | np.ndarray | None = None,
        *,
        ends: ArrayLike | None = None,
        self_contacts: Literal["error", "drop"] = "error",
    ) -> None:
        when, until = moments(times), None if ends is None else moments(ends, "ends")
        who = _array("contacts", contacts)
        if when.values.ndim != 1 or who.shape != (len(when.values), 2):
            shapes = f"{when.values.shape} and {who.shape}"
            raise ValueError(f"times must have shape (contacts,) and contacts (contacts, 2), got {shapes}")
        if until is not None and (until.values.shape != when.values.shape or until.dates != when.dates):
            kinds = [f"{'dates' if some.dates else 'numbers'} of shape {some.values.shape}" for some in (when, until)]
            raise ValueError(f"ends must be as times are, {kinds[0]}; got {kinds[1]}")
        _reject(_missing(contacts, who), "contact {} must be of two agents; one is missing: {}", who)
        if labels is None:
            try:
                labels, who = np.unique(who, return_inverse=True)
            except TypeError:
                raise TypeError("contacts must hold labels of one kind, so that they can be sorted: text or numbers") from None
            found = labels.tolist()
            order = _names.as_numbers(found)
            labels, who = [found[place] for place in order], np.argsort(order)[who]
            _names.say_order("the labels of the contacts", labels, found)
        self.labels: tuple[Hashable, ...] = _names.checked("labels", labels)
        self.agents = len(self.labels)
        if not isinstance(cyclic, bool | np.bool_):
            raise TypeError(f"cyclic must be True or False, got {cyclic!r}")
        if self_contacts not in ("error", "drop"):
            raise ValueError(f"self_contacts must be 'error' or 'drop', got {self_contacts!r}")
        length, self.cyclic = duration("window", window, when.dates), bool(cyclic)
        first, second = _ends(who, self.agents)
        for name, some in (("time", when), ("end", until)):
            if some is not None:
                _reject(~np.isfinite(some.values), f"contact {{}} has the {name} {{}}, which is not finite", some.values)
        itself = first == second
        if self_contacts == "error":
            _reject(itself, "contact {} is between agent {} and itself; self_contacts='drop' ignores such contacts", first)
        origin = None if start is None else moment("start", start, when.dates)
        if origin is None:
            origin = int(when.ticks.min()) * when.unit if len(when.ticks) else Fraction(0)
        self.window, self.start = float(length), float(origin)
        begin, end = _spans(when, until, origin, length, (is_rounded(start), is_rounded(window)))
        kept = (end >= 0) & ~itself
        if not kept.any():
            raise ValueError(f"there are no contacts at or after the start, {self.start}")
        begin, end, pairs = np.maximum(begin, 0)[kept], end[kept], (first * self.agents + second)[kept]
        lasting = end - begin + 1
        _checks.memory(
            f"a window of {self.window} for contacts that last up to {lasting.max()} windows", int(lasting.sum()), 50
        )
        counted = np.arange(lasting.sum()) - np.repeat(np.cumsum(lasting) - lasting, lasting)
        self._cut(np.repeat(begin, lasting) + counted, np.repeat(pairs, lasting))

    def _cut(self, windows: np.ndarray, pairs: np.ndarray) -> None:
        """Store the distinct sets of pairs, and the set of each window."""
        order = np.lexsort((pairs, windows))
        windows, pairs = windows[order], pairs[order]
        new = np.append(True, (windows[1:] != windows[:-1]) | (pairs[1:] != pairs[:-1]))
        windows, pairs = windows[new], pairs[new]
        self._busy, begins = np.unique(windows, return_index=True)
        numbers: dict[bytes, int] = {}
        sets = []
        for found in np.split(pairs, begins[1:]):
            sets.append(numbers.setdefault(found.tobytes(), len(numbers)))
        # Window self._busy[k] has the pairs of set self._set[k]; all other windows are empty, set -1.
        self._set, self._pairs = np.array(sets), tuple(np.frombuffer(found, dtype=pairs.dtype) for found in numbers)
        self.rounds = int(self._busy[-1]) + 1

    @classmethod
    def from_csv(
        cls,
        path: str | PathLike[str],
        window: Span,
        start: Time | None = None,
        cyclic: bool = True,
        columns: Sequence[int | str] | None = None,
        *,
        end: int | str | None = None,
        labels: Sequence[Hashable] | np.ndarray | None = None,
        self_contacts: Literal["error", "drop"] = "error",
        sep: str | None = None,
    ) -> Self:
        r"""Return the schedule of the contacts in a text file.

        A line holds the time and the two agents of a contact, and perhaps more, separated by commas, semicolons, tabs or white
        space. Times are numbers, read to the last digit, or dates in ISO 8601, such as ``2024-03-01 12:30:00``, also with a T.
        Text after ``#``, and lines that begin with ``%``, are comments; names in double quotes may hold any of these signs. The
        first line can be a header, in which no field is a number or date. All lines have the same number of fields. Labels are
        integers if all of them look like integers, and text otherwise.

        Parameters
        ----------
        path : path
            UTF-8 text file, compressed if its name ends in ``.gz``.
        window, start, cyclic : float or timedelta, float or date, bool
            As in `Temporal`.
        columns : three names or places, optional
            Columns of the time and of the two agents, by their names in the header or their places, counted from 0. By default
            the first three, unless the header or the numbers contradict that.
        end : str or int, optional
            Column of the times at which contacts end.
        labels : sequence, optional
            Names of all agents in their order, also of those without contacts.
        self_contacts : {"error", "drop"}
            Whether contacts of an agent with itself are an error or ignored.
        sep : str, optional
            What separates fields: a comma, a semicolon, a tab, or a blank for white space; by default as in the first line.

        Returns
        -------
        Temporal
            Schedule of the contacts.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file is not UTF-8 text, has no contacts, or has a line that is not such a contact of two different agents; if
            the names in a header, or without one the numbers, say that the first three columns are not time, i, j. The message
            names the file, the line, counted from 1, and its content, or the call that reads the file.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from topologies import Temporal
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "met.csv")
        >>> path.write_text("from,to,time\nann,bob,0.1\nbob,cy,0.2\ncy,ann,0.3\n") > 0
        True
        >>> network = Temporal.from_csv(path, window=0.1, columns=("time", "from", "to"))
        >>> network.labels, [sorted(network.graph(n).edges) for n in range(network.rounds)]
        (('ann', 'bob', 'cy'), [[(0, 1)], [(1, 2)], [(0, 2)]])
        >>> folder.cleanup()
        """
        call = f"topologies.Temporal.from_csv({str(path)!r}, window={window!r}"
        times, contacts, labels, ends = Trace(path, columns, end, sep, call).read(labels, self_contacts)
        return cls(times, contacts, window, start, cyclic, labels, ends=ends, self_contacts=self_contacts)

    def __repr__(self) -> str:
        size = f"agents={self.agents}, edges={len(self._all())}, rounds={self.rounds}"
        return f"Temporal({size}, window={self.window}, cyclic={self.cyclic})"

    def _settings(self) -> Hashable:
        sets = tuple(pairs.tobytes() for pairs in self._pairs)
        return self.labels, self.cyclic, self._busy.tobytes(), self._set.tobytes(), sets

    def _all(self) -> np.ndarray:
        return np.unique(np.concatenate(self._pairs))

    def _pattern(self, pairs: np.ndarray, diagonal: bool = False) -> sparse.csr_array:
        first, second = np.divmod(pairs, self.agents)
        return pairs_pattern(self.agents, first, second, diagonal)

    @property
    def static(self) -> bool:
        """True if all windows have the same edges, and rounds start again."""
        return self.cyclic and len(self._pairs) == 1 and len(self._busy) == self.rounds

    def key(self, round: int) -> int:
        round = integer("round", round, 0)
        window = round % self.rounds if self.cyclic else round
        place = np.searchsorted(self._busy, window)
        return int(self._set[place]) if place < len(self._busy) and self._busy[place] == window else -1

    def _entries(self, key: int) -> tuple[np.ndarray, np.ndarray]:
        pairs = self._pairs[key] if key >= 0 else np.empty(0, dtype=int)
        return entries(self._pattern(pairs, diagonal=True))

    def weights(self, key: int) -> sparse.csr_array:
        return metropolis_entries(self.agents, *self._entries(key))

    def graph(self, round: int) -> nx.Graph:
        nodes = nx.Graph()
        nodes.add_nodes_from((k, {"label": label}) for k, label in enumerate(self.labels))
        return with_edges(nodes, *self._entries(self.key(round)))

    def union(self) -> sparse.csr_array:
        return self._pattern(self._all() if self.cyclic else np.empty(0, dtype=int))


def _array(name: str, value: ArrayLike) -> np.ndarray:
    value = unmasked(
        name, value, f"the rows of {name} without them, {name}[~{name}.mask.any(axis=1)], and of times the same rows"
    )
    try:
        return np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must be an array of shape (contacts, 2); its rows differ in length") from None


def _missing(given: ArrayLike, who: np.ndarray) -> np.ndarray:
    """Return whether each contact of ``who`` lacks an agent: None, or NaN, which is text where the list ``given`` has texts."""
    if who.dtype.kind in "fcmM":
        finite: np.ndarray = np.isfinite(who).all(axis=1)
        return ~finite
    if who.dtype.kind in "OU" and not (who.dtype.kind == "U" and isinstance(given, np.ndarray)):
        rows = who if who.dtype.kind == "O" else np.array(given, dtype=object)
        return np.array([any(map(_names.is_missing, row)) for row in rows], dtype=bool)
    return np.zeros(len(who), dtype=bool)


def _reject(wrong: np.ndarray, message: str, shown: np.ndarray) -> None:
    for contact in np.flatnonzero(wrong)[:1].tolist():
        raise ValueError(message.format(contact, shown[contact]))


def _ends(contacts: np.ndarray, agents: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the two agents of each contact, the lower one first."""
    if contacts.dtype.kind not in "iu":
        raise ValueError(f"with labels, contacts must hold agents, 0, ..., {agents - 1}, got {contacts.dtype}")
    contacts = contacts.reshape(-1, 2).astype(int)
    outside = np.any((contacts < 0) | (contacts >= agents), axis=1)
    _reject(outside, f"contact {{}} is of agents {{}}, but labels names the agents 0, ..., {agents - 1}", contacts)
    return contacts.min(axis=1, initial=agents), contacts.max(axis=1, initial=0)


def _spans(
    when: Moments, until: Moments | None, start: Fraction, window: Fraction, rounded: tuple[bool, bool]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last window of each contact; the last is negative if it is before the start."""
    begin, _, hidden = windows(when, start, window, rounded)
    last, off = begin, hidden
    if until is not None:
        early = np.flatnonzero(until.values < when.values)
        for contact in early[:1].tolist():
            raise ValueError(
                f"contact {contact} ends at {until.values[contact]}, before its time, {when.values[contact]}: "
                "ends are times, not durations; of these pass times + durations"
            )
        end, begins, off = windows(until, start, window, rounded)
        last = np.maximum(begin, end - begins)  # the end itself is no part of a contact
    if (hidden | off).any():
        contact = int(np.flatnonzero(hidden | off)[0])
        shown = (until if until is not None and off[contact] else when).values[contact]
        _checks.warn(
            f"times of {np.count_nonzero(hidden | off)} contacts, such as {float(shown)!r} of contact {contact}, differ "
            "from the beginning of a window by rounding errors alone, and count as that beginning; pass times and window "
            "rounded to the digits that are meant, such as numpy.round(times, 9)"
        )
    return begin, last
