"""Contacts that were observed: who met whom, and when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, Self, TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from topologies._checks import integer
from topologies.pattern import entries, pairs_pattern, with_edges
from topologies.schedules.base import Schedule
from topologies.schedules.temporal_csv import read
from topologies.schedules.temporal_times import duration, moment, moments
from topologies.weights.metropolis import metropolis_entries

Span: TypeAlias = float | timedelta | np.timedelta64
Time: TypeAlias = float | datetime | np.datetime64


class Temporal(Schedule):
    """A network that was observed, cut into windows of time: one window is one round; Metropolis weights [1]_.

    Agents i and j are neighbours in round n when they have a contact at a time t with

        start + n window <= t < start + (n + 1) window.

    How often they meet within a window does not matter, and in a window without contacts all agents keep what they
    have. Rounds go up to the window of the last contact; then they start anew, or stay empty. When they start anew,
    the agents are jointly connected if the graph of all contacts is connected. Rounds with the same edges share a key.

    Parameters
    ----------
    times : array_like, shape (contacts,)
        In any order: numbers in any unit, or dates (`datetime.datetime`, `numpy.datetime64`, `pandas.Timestamp`), which
        count in seconds. Dates with time zones count in UTC; those without are taken as they are.
    contacts : array_like of labels, shape (contacts, 2)
        Who meets whom. Contacts are mutual.
    window : float above 0
        In the unit of `times`; for dates in seconds, or a timedelta of `datetime`, numpy or pandas.
    start : float or date, optional
        When round 0 begins, a date where `times` are: by default at the first contact. Contacts before it are left out.
    cyclic : bool
        Whether rounds start anew after the last window.
    labels : sequence, optional
        Then `contacts` holds agents, 0, ..., A - 1, and ``labels[k]`` is what agent k is called; agents without any
        contact may be among them. By default agents are the labels in `contacts`, sorted.

    Attributes
    ----------
    labels : tuple
        The label of each agent; also on the nodes of graphs, as the attribute ``"label"``.
    rounds : int
        The number of windows.
    start, window : float
        For dates in seconds, `start` since 1970.

    Raises
    ------
    TypeError
        If times are neither numbers nor dates, `start` is not what they are, or `window` fits neither.
    ValueError
        If shapes do not fit, a time is not finite, an agent meets itself or has no label, a window is not a finite
        number above 0, or there are no contacts at or after `start`.

    References
    ----------
    .. [1] P. Holme and J. Saramaki, "Temporal networks", Physics Reports 519 (2012); for public traces C. Cattuto et
       al., "Dynamics of person-to-person interactions from distributed RFID sensor networks", PLoS ONE 5 (2010).

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
        labels: Sequence[Any] | np.ndarray | None = None,
    ) -> None:
        when, dates = moments(times)
        who = _array("contacts", contacts)
        if when.ndim != 1 or who.shape != (len(when), 2):
            raise ValueError(f"times must have shape (contacts,) and contacts (contacts, 2), got {when.shape} and {who.shape}")
        if labels is None:
            try:
                labels, who = np.unique(who, return_inverse=True)
            except TypeError:
                raise TypeError(
                    "contacts must hold labels of one kind, which can be sorted: all text, or all numbers"
                ) from None
            labels = labels.tolist()
        self.labels = _labels(labels)
        self.agents = len(self.labels)
        if not isinstance(cyclic, bool | np.bool_):
            raise TypeError(f"cyclic must be True or False, got {cyclic!r}")
        self.window, self.cyclic = duration("window", window, dates), bool(cyclic)
        first, second = _ends(who, self.agents)
        _refuse(~np.isfinite(when), "contact {} has the time {}, which is not finite", when)
        _refuse(first == second, "contact {} is of agent {} with itself", first)
        self.start = float(when.min(initial=math.inf)) if start is None else moment("start", start, dates)
        kept = when >= self.start
        if not kept.any():
            raise ValueError(f"there are no contacts at or after the start, {self.start}")
        self._cut(_windows(when[kept], self.start, self.window), (first * self.agents + second)[kept])

    def _cut(self, windows, pairs):
        """Keep the different sets of pairs that windows have, and which window has which."""
        order = np.lexsort((pairs, windows))
        windows, pairs = windows[order], pairs[order]
        new = np.append(True, (windows[1:] != windows[:-1]) | (pairs[1:] != pairs[:-1]))
        windows, pairs = windows[new], pairs[new]
        self._busy, begins = np.unique(windows, return_index=True)
        numbers, sets = {}, []
        for found in np.split(pairs, begins[1:]):
            sets.append(numbers.setdefault(found.tobytes(), len(numbers)))
        # Window number self._busy[k] has the pairs of set self._set[k], and all other windows have those of set -1, none.
        self._set, self._pairs = np.array(sets), tuple(np.frombuffer(found, dtype=pairs.dtype) for found in numbers)
        self.rounds = int(self._busy[-1]) + 1

    @classmethod
    def from_csv(cls, path: str | PathLike, window: Span, start: Time | None = None, cyclic: bool = True) -> Self:
        """Read contacts from a text file with lines ``time, i, j``, separated by commas or white space.

        Times are numbers, or dates as in ISO 8601, ``2024-03-01 12:30:00`` or with a T in between. From ``#`` on a line is a
        comment. The first line may be a header, in which no field is a number or date. All lines have equally many fields;
        those after the third are not read. Labels are integers if all of them look so, and sorted as such; otherwise text.
        A file whose name ends in ``.gz`` is decompressed.

        Parameters
        ----------
        path : path of a UTF-8 text file
        window, start, cyclic
            As in the class.

        Raises
        ------
        FileNotFoundError
        ValueError
            If the file cannot be read as such text. For a line that is not as above, for an agent's contact with itself, and
            for a file without contacts. The message names the file, the line's number, counted from 1, and its content.
        """
        times, contacts, labels = read(path)
        return cls(times, contacts, window, start, cyclic, labels)

    def __repr__(self):
        size = f"agents={self.agents}, edges={len(self._all())}, rounds={self.rounds}"
        return f"Temporal({size}, window={self.window}, cyclic={self.cyclic})"

    def _settings(self):
        sets = tuple(pairs.tobytes() for pairs in self._pairs)
        return self.labels, self.cyclic, self._busy.tobytes(), self._set.tobytes(), sets

    def _all(self):
        return np.unique(np.concatenate(self._pairs))

    def _pattern(self, pairs, diagonal=False):
        return pairs_pattern(self.agents, *np.divmod(pairs, self.agents), diagonal)

    @property
    def static(self) -> bool:
        """Whether every window has the same contacts, and rounds go on for ever."""
        return self.cyclic and len(self._pairs) == 1 and len(self._busy) == self.rounds

    def key(self, round: int) -> int:
        round = integer("round", round, 0)
        window = round % self.rounds if self.cyclic else round
        place = np.searchsorted(self._busy, window)
        return int(self._set[place]) if place < len(self._busy) and self._busy[place] == window else -1

    def _entries(self, key):
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


def _array(name, value):
    try:
        return np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must be an array of shape (contacts, 2); its rows differ in length") from None


def _labels(labels):
    if not isinstance(labels, Sequence | np.ndarray) or (isinstance(labels, np.ndarray) and labels.ndim == 0):
        raise TypeError(f"labels must be a sequence of what each agent is called, got {labels!r}")
    try:
        if len(set(labels)) == len(labels):
            return tuple(labels)
    except TypeError:
        raise TypeError(f"labels must be hashable, such as text or numbers, got {labels!r}") from None
    raise ValueError("labels must differ from each other; some agents share one")


def _refuse(wrong, message, shown):
    for contact in np.flatnonzero(wrong)[:1].tolist():
        raise ValueError(message.format(contact, shown[contact]))


def _ends(contacts, agents):
    """The two agents of each contact, the lower one first."""
    if contacts.dtype.kind not in "iu":
        raise ValueError(f"with labels given contacts must hold agents, 0, ..., {agents - 1}, got {contacts.dtype}")
    contacts = contacts.reshape(-1, 2).astype(int)
    outside = ((contacts < 0) | (contacts >= agents)).any(axis=1)
    _refuse(
        outside, f"contact {{}} is of agents {{}}, but the agents are 0, ..., {agents - 1}, as labels has {agents}", contacts
    )
    return contacts.min(axis=1, initial=agents), contacts.max(axis=1, initial=0)


def _windows(times, start, window):
    """The number of the window that each time is in."""
    with np.errstate(over="ignore"):
        numbers = np.floor((times - start) / window)
    if numbers.max() > 2**52:
        raise ValueError(f"window must not be so small that there are more than 2^52 of them, got {window}")
    # The quotient may round to a neighbouring integer at the borders of windows.
    numbers -= start + numbers * window > times
    numbers += start + (numbers + 1) * window <= times
    return numbers.astype(int)
