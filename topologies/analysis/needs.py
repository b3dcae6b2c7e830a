"""Comparison of the needs of a solver with a schedule."""

from typing import NamedTuple

import networkx as nx

from topologies import _checks
from topologies.analysis.conditions import Conditions, Extreme, conditions, table
from topologies.analysis.spectrum import spectral_gap
from topologies.matrices import TOLERANCE
from topologies.schedules.protocols import ScheduleLike
from topologies.schedules.static import Static
from topologies.weights import pull, push

_DIRECTED = {"column stochastic": push, "row stochastic": pull}
_SMALL = 500  # agents up to which a spectrum is cheap
_AVERAGE, _UNDIRECTED = "agents agree on their average", "use an undirected graph with Metropolis weights, the default"
# The sums that must be one, what they ensure, and what to use instead of other matrices.
_NEEDS = {
    "symmetric": (("row", "column"), _AVERAGE, _UNDIRECTED),
    "doubly stochastic": (("row", "column"), _AVERAGE, f"{_UNDIRECTED}, or SONATA for directed graphs"),
    "column stochastic": (("column",), "the sum over agents is preserved", "use topologies.push or doubly stochastic weights"),
    "row stochastic": (("row",), "agents that agree do not change", "use topologies.pull or doubly stochastic weights"),
}


class Check(NamedTuple):
    """The result of `check`, which a prompt shows as a table.

    Attributes
    ----------
    solver : str
        Name of the solver.
    mixing : str
        Condition that the solver requires of every mixing matrix.
    conditions : Conditions
        Conditions that the schedule fulfils.
    contracts : bool
        Whether the matrix of a static schedule contracts the disagreement although its diagonal has zeros.
    static : bool
        Whether the theory of the solver requires a static schedule.

    Examples
    --------
    >>> import topologies
    >>> from consensus.solvers import EXTRA
    >>> found = topologies.check(topologies.Matchings(4, seed=0), EXTRA())
    >>> found.refusal is None, [condition for condition, holds, _ in found.needs if not holds]
    (True, ['static'])
    """

    solver: str
    mixing: str
    conditions: Conditions
    contracts: bool
    static: bool = False

    @property
    def refusal(self) -> str | None:
        """Reason why the solver cannot run on the schedule, or None."""
        wanted = "symmetric doubly stochastic" if self.mixing == "symmetric" else self.mixing
        needed = f"{self.solver} needs {wanted} mixing matrices, but"
        sums, _, remedy = _NEEDS[self.mixing]
        for name in sums:
            worst: Extreme = getattr(self.conditions, f"{name}_sum")
            if abs(worst.value - 1) > TOLERANCE:
                return f"{needed} {name} {worst.index[0]} of round {worst.round} sums to {worst.value:.6g}: {remedy}"
        if self.mixing == "symmetric" and not self.conditions.symmetric:
            worst = self.conditions.asymmetry
            i, j = worst.index
            return f"{needed} entries ({i}, {j}) and ({j}, {i}) of round {worst.round} differ by {worst.value:.6g}: {remedy}"
        return None

    @property
    def needs(self) -> list[tuple[str, bool, str]]:
        """Conditions of the theory of the solver: tuples (condition, holds, reason)."""
        found = self.conditions
        static = [("static", found.static, "the proof assumes one matrix for all rounds")] if self.static else []
        return [
            (self.mixing, self.refusal is None, _NEEDS[self.mixing][1]),
            *static,
            ("nonnegative", found.nonnegative, "mixing takes averages"),
            ("positive diagonal", found.positive_diagonal or self.contracts, "agents do not only swap values"),
            ("one component", found.components == 1, "every agent reaches every other, again and again"),
        ]

    def __repr__(self) -> str:
        title = f"{self.solver} on {self.conditions.agents} agents"
        return table(title, ("needed", "so that"), self.needs) + f"\n\n{self.conditions}"


def check(schedule: ScheduleLike | nx.Graph, solver: object, rounds: int = 10) -> Check:
    """Compare the needs of a solver with the conditions that a schedule fulfils.

    Parameters
    ----------
    schedule : schedule or networkx.Graph
        Any schedule; a graph gets the weights that :func:`consensus.solve` gives it: push or pull weights if it is directed and
        the solver takes them, Metropolis weights otherwise.
    solver : object
        Solver. Its attribute ``mixing``, or ``needs.mixing``, is the required condition of mixing matrices: "doubly stochastic"
        (the default), "column stochastic", "row stochastic" or "symmetric", with doubly stochastic; ``needs.static`` says
        whether its theory requires a static schedule.
    rounds : int
        Number of first rounds to examine.

    Returns
    -------
    Check
        Needs and conditions.

    Raises
    ------
    TypeError
        If `solver` is a class or a name.
    ValueError
        If the condition that it needs is none of these.

    Examples
    --------
    >>> import topologies
    >>> class Averaging:
    ...     mixing = "doubly stochastic"
    >>> print(topologies.check(topologies.Static(topologies.ring(5)), Averaging()))
    Averaging on 5 agents
    needed             holds  so that
    doubly stochastic  yes    agents agree on their average
    nonnegative        yes    mixing takes averages
    positive diagonal  yes    agents do not only swap values
    one component      yes    every agent reaches every other, again and again
    <BLANKLINE>
    5 agents, round 0
    condition          holds  detail
    row stochastic     yes    sums within 0 of 1
    column stochastic  yes    sums within 0 of 1
    doubly stochastic  yes
    symmetric          yes    largest difference 0, (0, 0) of round 0
    nonnegative        yes    least entry 0.333, (0, 1) of round 0
    positive diagonal  yes    least 0.333, agent 0 of round 0
    positive weights   yes    least 0.333, (0, 1) of round 0
    jointly connected  yes    in every round
    one component      yes    1 over all rounds
    static             yes
    """
    if isinstance(solver, type | str):
        given = f"the class {solver.__name__} itself: call it" if isinstance(solver, type) else repr(solver)
        raise TypeError(f"solver must be a solver, such as consensus.solvers.DGD(0.1); got {given}")
    needs = getattr(solver, "needs", None)
    mixing = getattr(solver, "mixing", None) or getattr(needs, "mixing", "doubly stochastic")
    name = type(solver).__name__
    if mixing not in _NEEDS:
        raise ValueError(f"mixing of {name} must be one of {', '.join(map(repr, _NEEDS))}; got {_checks.shown(mixing)}")
    if isinstance(schedule, nx.Graph):
        weights = _DIRECTED.get(mixing) if schedule.is_directed() else None
        schedule = Static(schedule, weights=weights) if weights else Static(schedule)
    found = conditions(schedule, rounds)
    # A matrix with zeros on its diagonal, such as an optimal one, may still contract: examine small ones.
    unsure = found.period == 1 and not found.positive_diagonal and found.agents <= _SMALL
    contracts = unsure and spectral_gap(schedule.weights(schedule.key(0))) > 1e-8
    return Check(name, mixing, found, bool(contracts), getattr(needs, "static", False))
