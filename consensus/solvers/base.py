"""What a solver is."""

from abc import ABC, abstractmethod
from types import MappingProxyType

import numpy as np

from consensus import _checks


class Solver(ABC):
    """A method: settings, and two functions of a block of agents.

    A solver is a frozen dataclass. Its state is a NamedTuple of stacked arrays, numbers, and other NamedTuples of these. Its
    first fields are ``round``, the number of rounds done, and ``w`` (agents, P), the iterates; an engine reads no other field.
    Every state of a run has the same fields as the one that :meth:`init` makes: a checkpoint is read back into that.

    Attributes
    ----------
    mixing : {"doubly stochastic", "column stochastic"}
        What the method needs of every round's mixing matrix.
    columns : mapping of str to callable
        What the method itself adds to the history: a name, and how the agents' numbers become one, such as ``np.max``.
    counts_exchanges : bool
        Whether the method itself finds how many exchanges a round takes; ``Gossip`` gives it no others then.
    """

    mixing = "doubly stochastic"
    columns = MappingProxyType({})
    counts_exchanges = False

    def check(self, problem):
        """Raise ``ValueError`` or ``TypeError`` if the method does not fit ``problem``; called before any work."""
        _checks.problem(problem)

    def check_network(self, schedule):
        """Raise ``ValueError`` if the method cannot run on ``schedule``, whatever its matrices; called before any work."""
        return None

    @abstractmethod
    def init(self, problem, w):
        """The state at the start ``w`` (agents, P)."""

    @abstractmethod
    def step(self, problem, network, state):
        """The state one round later. ``network.mix(round, *blocks)`` is the only way to other agents."""

    def report(self, state):
        """The agents' numbers for :attr:`columns`, shape (agents, columns)."""
        return np.zeros((len(state.w), 0))

    def width(self, problem):
        """How many numbers of an agent are mixed at once, at most: some engines set memory aside for them."""
        return 2 * _checks.problem(problem).parameters + 4

    def prox(self, problem):
        """The prox, ``(v, step) -> w``, of what the method minimises beside the costs: stationarity is measured by it."""
        return _checks.problem(problem).regularizer.prox

    def _set(self, **fields):
        # Fields are set here because `step` names both an argument of the constructors and the method above.
        for name, value in fields.items():
            object.__setattr__(self, name, value)


def need_smooth(solver, problem):
    """Refuse a nonsmooth regularizer to a method that takes the gradient of everything."""
    r = _checks.problem(problem).regularizer
    if not getattr(r, "smooth", False):
        raise ValueError(
            f"{type(solver).__name__} needs a smooth regularizer, and {r} is not: NEXT(FullLinearization(tau), step) takes it"
        )
    _checks.needs(type(solver).__name__, r, "gradient")
