"""Which conditions of convergence theorems a schedule fulfils."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from topologies import _checks
from topologies._checks import ROUNDS, integer
from topologies.analysis.connectivity import components, joint_connectivity, used
from topologies.matrices import TOLERANCE, square, worst_sum
from topologies.schedules.base import ScheduleLike, is_static


class Extreme(NamedTuple):
    """The worst value of something over all rounds, the first round that had it, and the row, column or both."""

    value: float
    round: int
    index: tuple[int, ...]  # type: ignore[assignment]  # tuple.index, which it hides, is of no use here


class Conditions(NamedTuple):
    """What `conditions` measured over the rounds of a schedule, and the properties that follow.

    Fields are the measurements, properties the judgements, within 1e-8; ``print`` shows both in a table.

    Attributes
    ----------
    agents : int
    rounds : int
        How many rounds were looked at; one period, if the schedule is periodic.
    period : int or None
        After how many rounds the matrices were seen to repeat; 1 for a static schedule, None when they were not.
    row_sum, column_sum : Extreme
        The sum of a row, or of a column, that is farthest from one.
    asymmetry : Extreme
        The largest difference between entries (i, j) and (j, i).
    smallest_entry, smallest_diagonal : Extreme
        The least weight of all that are stored, and of agents for themselves.
    smallest_weight : Extreme or None
        The least positive weight; less than 1e-8 counts as zero.
    window : int or None
        The smallest number B of consecutive rounds whose graphs always join into one that is (strongly) connected.
    components : int
        Into how many groups, between which nothing travels both ways, the agents fall over all rounds.
    static : bool
        Whether the schedule says that every round, without end, has the same matrix. EXTRA, NIDS, exact diffusion and ADMM
        are proven only then.
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
        """Rows sum to one: agents that agree stay so. Distributed subgradient methods (Nedic & Ozdaglar 2009, Assumption
        1); R of push-pull methods (Pu, Shi, Xu & Nedic 2021, Assumption 2)."""
        return abs(self.row_sum.value - 1) <= TOLERANCE

    @property
    def column_stochastic(self) -> bool:
        """Columns sum to one: mixing keeps the agents' sum. Push-sum methods: subgradient-push (Nedic & Olshevsky 2015),
        Push-DIGing (Nedic, Olshevsky & Shi 2017), SONATA (Scutari & Sun 2019)."""
        return abs(self.column_sum.value - 1) <= TOLERANCE

    @property
    def doubly_stochastic(self) -> bool:
        """Rows and columns sum to one: agents agree on their average. NEXT (Di Lorenzo & Scutari 2016, Assumption B),
        gradient tracking (Nedic, Olshevsky & Shi 2017), DGD."""
        return self.row_stochastic and self.column_stochastic

    @property
    def symmetric(self) -> bool:
        """W = W'. EXTRA (Shi, Ling, Wu & Yin 2015, Assumption 1), NIDS, exact diffusion, decentralised ADMM."""
        return self.asymmetry.value <= TOLERANCE

    @property
    def nonnegative(self) -> bool:
        """No weight below 0: mixing takes convex combinations, so values stay within their range (Nedic & Ozdaglar 2009,
        Assumption 1)."""
        return self.smallest_entry.value >= -TOLERANCE

    @property
    def positive_diagonal(self) -> bool:
        """Every agent gives itself weight, without which agents of a bipartite graph can swap values for ever (Nedic &
        Ozdaglar 2009, Assumption 1 (a))."""
        return self.smallest_diagonal.value > TOLERANCE

    @property
    def jointly_connected(self) -> bool:
        """All agents are connected within B rounds, again and again (Nedic & Ozdaglar 2009, Assumptions 2 and 3; Nedic,
        Olshevsky & Shi 2017, on B-connected graphs)."""
        return self.window is not None

    def __str__(self) -> str:
        def sums(name, extreme, holds):
            if holds:
                return f"sums within {abs(extreme.value - 1):.1g} of 1"
            return f"{name} {extreme.index[0]} of round {extreme.round} sums to {extreme.value:.6g}"

        def entry(what, extreme):
            shown = f"({', '.join(map(str, extreme.index))})" if len(extreme.index) > 1 else f"agent {extreme.index[0]}"
            return f"{what} {extreme.value:.3g}, {shown} of round {extreme.round}"

        window, groups = self.window, self.components
        within = "in every round" if window == 1 else f"in every {window} rounds in a row" if window else "not in these rounds"
        repeats = f"repeats after {self.period} rounds" if self.period else "no period seen"
        repeats = "the same in these rounds, but the schedule does not say so of all" if self.period == 1 else repeats
        rows = [
            ("row stochastic", self.row_stochastic, sums("row", self.row_sum, self.row_stochastic)),
            ("column stochastic", self.column_stochastic, sums("column", self.column_sum, self.column_stochastic)),
            ("doubly stochastic", self.doubly_stochastic, ""),
            ("symmetric", self.symmetric, entry("largest difference", self.asymmetry)),
            ("nonnegative", self.nonnegative, entry("least entry", self.smallest_entry)),
            ("positive diagonal", self.positive_diagonal, entry("least", self.smallest_diagonal)),
            (
                "positive weights",
                self.smallest_weight is not None,
                entry("least", self.smallest_weight) if self.smallest_weight else "none",
            ),
            ("jointly connected", self.jointly_connected, within),
            ("one component", groups == 1, f"{groups} over all rounds"),
            ("static", self.static, "" if self.static else repeats),
        ]
        table = [("condition", "holds", "detail"), *((name, "yes" if holds else "no", detail) for name, holds, detail in rows)]
        lines = [f"{name:<17}  {holds:<5}  {detail}".rstrip() for name, holds, detail in table]
        seen = "round 0" if self.rounds == 1 else f"rounds 0 to {self.rounds - 1}"
        return "\n".join([f"{self.agents} agents, {seen}", *lines])


def conditions(schedule: ScheduleLike, rounds: int = 100) -> Conditions:
    """Which conditions of convergence theorems hold over the first rounds of a schedule.

    Every distinct matrix is looked at once. The schedule counts as periodic when its keys repeat over twice `rounds`
    rounds; then one period stands for all rounds. It is static if it says so itself. Each property of the record names the
    theorems that need it.

    Parameters
    ----------
    schedule : schedule
        With ``union()``, components are those of all its rounds, else of the rounds looked at.
    rounds : int of at least 1

    Returns
    -------
    Conditions

    Raises
    ------
    ValueError
        If `rounds` is below 1, or a matrix of the schedule is not square.

    Examples
    --------
    >>> import networkx, topologies
    >>> from topologies import conditions
    >>> directed = topologies.Static(networkx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]), weights=topologies.push)
    >>> found = conditions(directed)
    >>> found.column_stochastic, found.row_stochastic, found.window
    (True, False, 1)
    >>> print(found)
    3 agents, round 0
    condition          holds  detail
    row stochastic     no     row 2 of round 0 sums to 1.33333
    column stochastic  yes    sums within 0 of 1
    doubly stochastic  no
    symmetric          no     largest difference 0.5, (1, 2) of round 0
    nonnegative        yes    least entry 0.333, (0, 0) of round 0
    positive diagonal  yes    least 0.333, agent 0 of round 0
    positive weights   yes    least 0.333, (0, 0) of round 0
    jointly connected  yes    in every round
    one component      yes    1 over all rounds
    static             yes
    """
    _checks.schedule(schedule)
    rounds = integer("rounds", rounds, 1, ROUNDS)
    keys = [schedule.key(n) for n in range(2 * rounds)]
    period = next((p for p in range(1, rounds + 1) if keys[p] == keys[0] and keys[p:] == keys[:-p]), None)
    rounds = period or rounds
    worst: dict[str, Any] = {}
    seen = set()
    for n, key in enumerate(keys[:rounds]):
        if key in seen:
            continue
        seen.add(key)
        for name, extreme in _measure(square(_checks.mixing(schedule.weights(key), schedule)), n).items():
            if name not in worst or _severity(name, extreme) > _severity(name, worst[name]):
                worst[name] = extreme
    # The windows that start in one period end before the next one does.
    window = joint_connectivity(schedule, 2 * period - 1 if period else rounds)
    if hasattr(schedule, "union"):
        groups = len(components(schedule))
    else:
        union = sum((used(schedule, n) for n in range(1, rounds)), used(schedule, 0))
        groups = connected_components(union, directed=True, connection="strong", return_labels=False)
    worst.setdefault("smallest_weight", None)
    return Conditions(
        schedule.agents, rounds, period, **worst, window=window, components=int(groups), static=is_static(schedule)
    )


def _measure(matrix, n):
    """Extremes of one matrix, by the names of the fields of `Conditions`."""
    rows, columns = matrix.tocoo().coords
    (row, row_sum), (column, column_sum) = worst_sum(matrix, 1), worst_sum(matrix, 0)
    diagonal = matrix.diagonal()
    found = {
        "row_sum": Extreme(row_sum, n, (row,)),
        "column_sum": Extreme(column_sum, n, (column,)),
        "smallest_diagonal": Extreme(float(diagonal.min()), n, (int(diagonal.argmin()),)),
    }

    def entry(value, i, j):
        return Extreme(float(value), n, (int(i), int(j)))

    skew = abs(matrix - matrix.T).tocoo()
    worst = skew.data.argmax() if skew.nnz else None
    found["asymmetry"] = entry(0, 0, 0) if worst is None else entry(skew.data[worst], *(c[worst] for c in skew.coords))
    least = matrix.data.argmin() if matrix.nnz else None
    found["smallest_entry"] = entry(0, 0, 0) if least is None else entry(matrix.data[least], rows[least], columns[least])
    positive = np.flatnonzero(matrix.data > TOLERANCE)
    if positive.size:
        least = positive[matrix.data[positive].argmin()]
        found["smallest_weight"] = entry(matrix.data[least], rows[least], columns[least])
    return found


def _severity(name, extreme):
    """How far an extreme is on the bad side; NaN is the worst."""
    value = extreme.value
    measure = abs(value - 1) if name.endswith("sum") else value if name == "asymmetry" else -value
    return np.inf if np.isnan(measure) else measure
