"""What an engine and the observer tell each other at a due round."""

from typing import Any, NamedTuple

import numpy as np


class Gathered(NamedTuple):
    """A round of the whole network, as an engine reports it.

    Attributes
    ----------
    round : int
        Number of rounds done.
    w : ndarray (A, P)
        Iterates of all agents; of those of this process, if processes observe together.
    report : ndarray (A, columns) or None
        Numbers for the columns of the solver, if it has any.
    counts : dict
        Counts of this run, and the ``traffic`` (A,) of each agent, or with a server the ``bytes_busiest`` of a machine.
    seconds : float
        Seconds spent in rounds.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.engines import Stacked, StackedNetwork
    >>> from consensus.observe import Gathered
    >>> class OnlyTheStart(Stacked):
    ...     def run(self, problem, schedule, solver, begin, rounds, observer):
    ...         network = StackedNetwork(schedule, problem.dtype)
    ...         counts = network.counts | problem.work.counts | {"traffic": network.traffic}
    ...         observer.see(Gathered(0, begin.numbers["w"], None, counts, seconds=0.0))
    ...         return "only the start is wanted"
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> solver = consensus.solvers.DGD(0.1)
    >>> result = consensus.solve(problem, topologies.ring(3), solver, rounds=9, start=np.ones(1), engine=OnlyTheStart())
    >>> result.history["objective"].tolist(), result.reason
    ([3.0], 'only the start is wanted')
    """

    round: int
    w: np.ndarray
    report: np.ndarray | None
    counts: dict[str, Any]
    seconds: float


class Decision(NamedTuple):
    """The answer of the observer to an engine.

    Attributes
    ----------
    reason : str or None
        Reason to stop.
    save : bool
        Whether the engine passes the state of all agents to :meth:`Observer.save`.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.engines import Stacked, StackedNetwork
    >>> from consensus.observe import Gathered
    >>> class OnlyTheStart(Stacked):
    ...     def run(self, problem, schedule, solver, begin, rounds, observer):
    ...         network = StackedNetwork(schedule, problem.dtype)
    ...         counts = network.counts | problem.work.counts | {"traffic": network.traffic}
    ...         decision = observer.see(Gathered(0, begin.numbers["w"], None, counts, seconds=0.0))
    ...         print(decision)
    ...         return decision.reason
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> result = consensus.solve(
    ...     problem, topologies.ring(3), rounds=9, engine=OnlyTheStart(), callbacks=[lambda info: "enough"])
    Decision(reason='enough', save=False)
    """

    reason: str | None
    save: bool
