"""Schedules of observed contacts."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from os import PathLike
from typing import Self

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from topologies import _names
from topologies._checks import integer
from topologies.pattern import entries, pairs_pattern, with_edges
from topologies.schedules.base import Schedule
from topologies.schedules.temporal_csv import read
from topologies.schedules.temporal_times import Span, Time, duration, moment, moments
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
        `pandas.Timestamp`), whose unit is seconds. Dates with a time zone are converted to UTC.
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
        If a time is not finite, an agent has a contact with itself or no label, or no contact is at or after `start`.

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
    ) -> None:
        when, dates = moments(times)
        who = _array("contacts", contacts)
        if when.ndim != 1 or who.shape != (len(when), 2):
            raise ValueError(f"times must have shape (contacts,) and contacts (contacts, 2), got {when.shape} and {who.shape}")
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
        self.window, self.cyclic = duration("window", window, dates), bool(cyclic)
        first, second = _ends(who, self.agents)
        _reject(~np.isfinite(when), "contact {} has the time {}, which is not finite", when)
        _reject(first == second, "contact {} is between agent {} and itself", first)
        self.start = float(when.min(initial=math.inf)) if start is None else moment("start", start, dates)
        kept = when >= self.start
        if not kept.any():
            raise ValueError(f"there are no contacts at or after the start, {self.start}")
        self._cut(_windows(when[kept], self.start, self.window), (first * self.agents + second)[kept])

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
    def from_csv(cls, path: str | PathLike[str], window: Span, start: Time | None = None, cyclic: bool = True) -> Self:
        """Return the schedule of the contacts in a text file.

        Lines hold ``time, i, j``, separated by commas or white space. Times are numbers, or dates in ISO 8601, such as
        ``2024-03-01 12:30:00``, also with a T. Text after ``#`` is a comment. The first line can be a header, in which no field
        is a number or date. All lines have the same number of fields; those after the third are ignored. Labels are integers
        if all of them look like integers, and text otherwise.

        Parameters
        ----------
        path : path
            UTF-8 text file, compressed if its name ends in ``.gz``.
        window, start, cyclic : float or timedelta, float or date, bool
            As in `Temporal`.

        Returns
        -------
        Temporal
            Schedule of the contacts.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file is not UTF-8 text, has no contacts, or has a line that is not such a contact of two different agents.
            The message names the file, the line, counted from 1, and its content.
        """
        times, contacts, labels = read(path)
        return cls(times, contacts, window, start, cyclic, labels)

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
        """Whether all windows have the same edges, and rounds start again."""
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
    try:
        return np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must be an array of shape (contacts, 2); its rows differ in length") from None


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


def _windows(times: np.ndarray, start: float, window: float) -> np.ndarray:
    """Return the window of each time."""
    with np.errstate(over="ignore"):
        numbers = np.floor((times - start) / window)
    if numbers.max() > 2**52:
        raise ValueError(f"window must be longer: there are more than 2^52 windows of {window}")
    # At the ends of windows the quotient may be rounded to a neighbouring integer.
    numbers -= start + numbers * window > times
    numbers += start + (numbers + 1) * window <= times
    return np.asarray(numbers, dtype=int)
