"""Conditions of convergence theorems that a schedule fulfils."""

import math
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from topologies import _checks
from topologies._checks import ROUNDS, integer
from topologies.analysis.connectivity import components, joint_connectivity, used
from topologies.matrices import TOLERANCE, square, worst_sum
from topologies.pattern import entries, union_pattern
from topologies.schedules.protocols import ScheduleLike, is_static


class Extreme(NamedTuple):
    """The worst value over all rounds, the first round that has it, and its row, its column or both."""

    value: float
    round: int
    index: tuple[int, ...]  # type: ignore[assignment]  # hides tuple.index


class Conditions(NamedTuple):
    """The measurements of `conditions` over the rounds of a schedule, and the conditions that follow.

    Fields are measurements, and properties are conditions, which hold within 1e-8; ``print`` shows both in a table.

    Attributes
    ----------
    agents : int
        Number of agents.
    rounds : int
        Number of rounds examined: one period, if the schedule is periodic.
    period : int or None
        Period of the matrices: 1 for a static schedule, None if they do not repeat.
    row_sum, column_sum : Extreme
        Sum of a row, or column, that is farthest from one.
    asymmetry : Extreme
        Largest difference between entries (i, j) and (j, i).
    smallest_entry, smallest_diagonal : Extreme
        Smallest stored entry, and smallest diagonal entry.
    smallest_weight : Extreme or None
        Smallest positive entry; entries below 1e-8 count as zero.
    window : int or None
        Smallest number B such that the union of the graphs of any B consecutive rounds is (strongly) connected.
    components : int
        Number of (strongly) connected components of the union of all graphs.
    static : bool
        Whether the schedule says that all rounds have the same matrix.

    Examples
    --------
    >>> import topologies
    >>> found = topologies.conditions(topologies.Matchings(4, seed=0), rounds=20)
    >>> found.doubly_stochastic, found.static, found.period, found.smallest_weight.value
    (True, False, None, 0.5)
    >>> found.row_sum  # of all rounds, that farthest from one
    Extreme(value=1.0, round=0, index=(0,))
    """

    agents: int
    rounds: int
    period: int | None
    row_sum: Extreme
    column_sum: Extreme
    asymmetry: Extreme
    smallest_entry: Extreme
    smallest_diagonal: Extreme
    smallest_weight: Extreme | None
    window: int | None
    components: int
    static: bool

    @property
    def row_stochastic(self) -> bool:
        """True if rows sum to one, so that agents that agree do not change."""
        return abs(self.row_sum.value - 1) <= TOLERANCE

    @property
    def column_stochastic(self) -> bool:
        """True if columns sum to one, so that the sum over the agents is preserved."""
        return abs(self.column_sum.value - 1) <= TOLERANCE

    @property
    def doubly_stochastic(self) -> bool:
        """True if rows and columns sum to one, so that agents agree on their average."""
        return self.row_stochastic and self.column_stochastic

    @property
    def symmetric(self) -> bool:
        """True if all matrices are symmetric."""
        return self.asymmetry.value <= TOLERANCE

    @property
    def nonnegative(self) -> bool:
        """True if no entry is negative, so that mixing takes convex combinations."""
        return self.smallest_entry.value >= -TOLERANCE

    @property
    def positive_diagonal(self) -> bool:
        """True if all diagonals are positive, so that agents of a bipartite graph do not only swap values."""
        return self.smallest_diagonal.value > TOLERANCE

    @property
    def jointly_connected(self) -> bool:
        """True if the agents are connected within a bounded number of rounds, again and again."""
        return self.window is not None

    def __repr__(self) -> str:
        def sums(name: str, extreme: Extreme, holds: bool) -> str:
            if holds:
                return f"sums within {abs(extreme.value - 1):.1g} of 1"
            return f"{name} {extreme.index[0]} of round {extreme.round} sums to {extreme.value:.6g}"

        def entry(what: str, extreme: Extreme | None) -> str:
            if extreme is None:
                return "none"
            shown = f"({', '.join(map(str, extreme.index))})" if len(extreme.index) > 1 else f"agent {extreme.index[0]}"
            return f"{what} {extreme.value:.3g}, {shown} of round {extreme.round}"

        window = self.window
        within = "in every round" if window == 1 else f"in every {window} rounds in a row" if window else "not in these rounds"
        repeats = f"repeats after {self.period} rounds" if self.period else "no period seen"
        repeats = "the same in these rounds, but not marked as static" if self.period == 1 else repeats
        rows = [
            ("row stochastic", self.row_stochastic, sums("row", self.row_sum, self.row_stochastic)),
            ("column stochastic", self.column_stochastic, sums("column", self.column_sum, self.column_stochastic)),
            ("doubly stochastic", self.doubly_stochastic, ""),
            ("symmetric", self.symmetric, entry("largest difference", self.asymmetry)),
            ("nonnegative", self.nonnegative, entry("least entry", self.smallest_entry)),
            ("positive diagonal", self.positive_diagonal, entry("least", self.smallest_diagonal)),
            ("positive weights", self.smallest_weight is not None, entry("least", self.smallest_weight)),
            ("jointly connected", self.jointly_connected, within),
            ("one component", self.components == 1, f"{self.components} over all rounds"),
            ("static", self.static, "" if self.static else repeats),
        ]
        seen = "round 0" if self.rounds == 1 else f"rounds 0 to {self.rounds - 1}"
        return table(f"{self.agents} agents, {seen}", ("condition", "detail"), rows)


def table(title: str, header: tuple[str, str], rows: list[tuple[str, bool, str]]) -> str:
    """Return conditions, whether each holds, and a detail of each as text."""
    lines = [(header[0], "holds", header[1]), *((name, "yes" if holds else "no", detail) for name, holds, detail in rows)]
    return "\n".join([title, *(f"{name:<17}  {holds:<5}  {detail}".rstrip() for name, holds, detail in lines)])


def conditions(schedule: ScheduleLike, rounds: int = 100) -> Conditions:
    """Measure the conditions of convergence theorems over the first rounds of a schedule.

    The schedule counts as periodic if its keys repeat over twice `rounds` rounds; one period then stands for all rounds.
    ``docs/networks.md`` lists the methods and theorems that require each condition.

    Parameters
    ----------
    schedule : schedule
        Any schedule. Components are those of ``union()``, if there is one, or of the rounds examined.
    rounds : int
        Number of first rounds to examine, at least 1.

    Returns
    -------
    Conditions
        Measurements and conditions.

    Examples
    --------
    >>> import networkx, topologies
    >>> directed = topologies.Static(networkx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]), weights=topologies.push)
    >>> found = topologies.conditions(directed)
    >>> found.column_stochastic, found.row_stochastic, found.window
    (True, False, 1)
    """
    _checks.schedule(schedule)
    rounds = integer("rounds", rounds, 1, ROUNDS)
    keys = [schedule.key(n) for n in range(2 * rounds)]
    period = next((p for p in range(1, rounds + 1) if keys[p] == keys[0] and keys[p:] == keys[:-p]), None)
    rounds = period or rounds
    worst: dict[str, Extreme] = {}
    seen = set()
    for n, key in enumerate(keys[:rounds]):
        if key in seen:
            continue
        seen.add(key)
        for name, extreme in _measure(square(_checks.mixing(schedule.weights(key), schedule)), n).items():
            if name not in worst or _severity(name, extreme) > _severity(name, worst[name]):
                worst[name] = extreme
    # Windows that start in one period end within the next one.
    window = joint_connectivity(schedule, 2 * period - 1 if period else rounds)
    if hasattr(schedule, "union"):
        groups = len(components(schedule))
    else:
        union = union_pattern(used(schedule, n) for n in range(rounds))
        groups = connected_components(union, directed=True, connection="strong", return_labels=False)
    weight, static = worst.pop("smallest_weight", None), is_static(schedule)
    return Conditions(
        schedule.agents, rounds, period, **worst, smallest_weight=weight, window=window, components=int(groups), static=static
    )


def _measure(matrix: sparse.csr_array, n: int) -> dict[str, Extreme]:
    """Return the extremes of the matrix of round `n`, by the names of the fields of `Conditions`."""
    found = {}
    for name, axis in (("row_sum", 1), ("column_sum", 0)):
        index, value = worst_sum(matrix, axis)
        found[name] = Extreme(value, n, (index,))
    places, diagonal, skew = entries(matrix), matrix.diagonal(), abs(matrix - matrix.T).tocoo()
    found["asymmetry"] = _extreme(n, skew.data, *skew.coords, largest=True)
    found["smallest_entry"] = _extreme(n, matrix.data, *places)
    found["smallest_diagonal"] = _extreme(n, diagonal, np.arange(diagonal.size))
    positive = matrix.data > TOLERANCE
    if positive.any():
        found["smallest_weight"] = _extreme(n, matrix.data[positive], *(place[positive] for place in places))
    return found


def _extreme(n: int, values: np.ndarray, *places: np.ndarray, largest: bool = False) -> Extreme:
    """Return the smallest or largest value with its place in the matrix of round `n`; zero if there are no values."""
    if not values.size:
        return Extreme(0.0, n, (0,) * len(places))
    k = values.argmax() if largest else values.argmin()
    return Extreme(float(values[k]), n, tuple(int(place[k]) for place in places))


def _severity(name: str, extreme: Extreme) -> float:
    """Return how bad an extreme is; NaN is the worst."""
    value = extreme.value
    measure = abs(value - 1) if name.endswith("sum") else value if name == "asymmetry" else -value
    return math.inf if math.isnan(measure) else measure
