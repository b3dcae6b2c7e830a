"""Whether a schedule offers what a solver needs."""

from typing import NamedTuple

from topologies import _checks
from topologies.analysis.conditions import Conditions, conditions
from topologies.analysis.spectrum import spectral_gap
from topologies.matrices import TOLERANCE
from topologies.schedules.base import ScheduleLike

_SMALL = 500  # agents for which a spectrum takes next to no time
_NEEDS = {
    "symmetric": (("row_sum", "row"), ("column_sum", "column")),
    "doubly stochastic": (("row_sum", "row"), ("column_sum", "column")),
    "column stochastic": (("column_sum", "column"),),
    "row stochastic": (("row_sum", "row"),),
}
_HINTS = {
    "symmetric": "use an undirected graph with Metropolis weights, the default",
    "doubly stochastic": "use an undirected graph with Metropolis weights, the default, or SONATA for directed graphs",
    "column stochastic": "use topologies.push weights, or doubly stochastic ones",
    "row stochastic": "use topologies.pull weights, or doubly stochastic ones",
}


class Check(NamedTuple):
    """What `check` found; ``print`` shows it in a table.

    Attributes
    ----------
    solver : str
        Its name.
    mixing : str
        What it needs of every mixing matrix.
    conditions : Conditions
    contracts : bool
        Whether the one matrix of all rounds looked at is known to bring agents closer, whatever its diagonal.
    static : bool
        Whether its theory needs one matrix for all rounds.
    """

    solver: str
    mixing: str
    conditions: Conditions
    contracts: bool
    static: bool = False

    @property
    def refusal(self) -> str | None:
        """Why the solver cannot run on the schedule at all, or None."""
        wanted = "symmetric doubly stochastic" if self.mixing == "symmetric" else self.mixing
        needed = f"{self.solver} needs {wanted} mixing matrices, but"
        for field, name in _NEEDS[self.mixing]:
            worst = getattr(self.conditions, field)
            if abs(worst.value - 1) > TOLERANCE:
                return (
                    f"{needed} {name} {worst.index[0]} of round {worst.round} sums to {worst.value:.6g}: {_HINTS[self.mixing]}"
                )
        if self.mixing == "symmetric" and not self.conditions.symmetric:
            worst = self.conditions.asymmetry
            i, j = worst.index
            return (
                f"{needed} entries ({i}, {j}) and ({j}, {i}) of round {worst.round} differ by {worst.value:.6g}: "
                f"{_HINTS[self.mixing]}"
            )
        return None

    @property
    def needs(self) -> list[tuple[str, bool, str]]:
        """What the solver's theory asks for, and whether it holds: tuples (condition, holds, why)."""
        found = self.conditions
        static = [("static", found.static, "its proof is of one matrix for all rounds")] if self.static else []
        return [
            (self.mixing, self.refusal is None, "mixing keeps what the agents have in common"),
            *static,
            ("nonnegative", found.nonnegative, "mixing takes averages"),
            ("positive diagonal", found.positive_diagonal or self.contracts, "agents do not only swap values"),
            ("one component", found.components == 1, "every agent reaches every other, again and again"),
        ]

    def __str__(self) -> str:
        rows = [("needed", "holds", "so that"), *((name, "yes" if holds else "no", why) for name, holds, why in self.needs)]
        lines = [f"{name:<17}  {holds:<5}  {why}" for name, holds, why in rows]
        return "\n".join([f"{self.solver} on {self.conditions.agents} agents", *lines, "", str(self.conditions)])


def check(schedule: ScheduleLike, solver: object, rounds: int = 10) -> Check:
    """Compare what a solver needs with what a schedule offers in its first rounds.

    Parameters
    ----------
    schedule : schedule
    solver : object
        Its attribute ``mixing``, or that of its ``needs``, says what it needs of the mixing matrices: "doubly stochastic"
        (where there is none), "column stochastic", "row stochastic", or "symmetric" and doubly stochastic. Its
        ``needs.static`` says whether its theory is of one matrix for all rounds.
    rounds : int
        How many rounds are looked at.

    Returns
    -------
    Check

    Raises
    ------
    ValueError
        If ``mixing`` is none of these.

    Examples
    --------
    >>> import topologies
    >>> from topologies import check
    >>> class Averaging:
    ...     mixing = "doubly stochastic"
    >>> print(check(topologies.Static(topologies.ring(5)), Averaging()))
    Averaging on 5 agents
    needed             holds  so that
    doubly stochastic  yes    mixing keeps what the agents have in common
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
    needs = getattr(solver, "needs", None)
    mixing = getattr(solver, "mixing", None) or getattr(needs, "mixing", "doubly stochastic")
    name = type(solver).__name__
    if mixing not in _NEEDS:
        raise ValueError(f"mixing of {name} must be one of {', '.join(map(repr, _NEEDS))}; got {_checks.shown(mixing)}")
    found = conditions(schedule, rounds)
    # An optimal matrix may have zeros on its diagonal and still mix: where it is cheap to see, look.
    unsure = found.period == 1 and not found.positive_diagonal and found.agents <= _SMALL
    contracts = unsure and spectral_gap(schedule.weights(schedule.key(0))) > 1e-8
    return Check(name, mixing, found, bool(contracts), getattr(needs, "static", False))
