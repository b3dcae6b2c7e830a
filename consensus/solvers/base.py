"""What a solver is."""

from abc import ABC, abstractmethod
from types import MappingProxyType

import numpy as np


class Solver(ABC):
    """A method: settings, and two functions of a block of agents.

    A solver is a frozen dataclass. Its state is a NamedTuple of stacked arrays whose first fields are ``round``, the number
    of rounds done, and ``w`` (agents, P), the iterates; an engine reads no other field.

    Attributes
    ----------
    State : type
        The NamedTuple of the states: what a checkpoint is read back into.
    mixing : {"doubly stochastic", "column stochastic"}
        What the method needs of every round's mixing matrix.
    columns : mapping of str to callable
        What the method itself adds to the history: a name, and how the agents' numbers become one, such as ``np.max``.
    counts_exchanges : bool
        Whether the method itself finds how many exchanges a round takes; ``Gossip`` gives it no others then.
    """

    State = None
    mixing = "doubly stochastic"
    columns = MappingProxyType({})
    counts_exchanges = False

    def check(self, problem):
        """Raise ``ValueError`` or ``TypeError`` if the method does not fit ``problem``; called before any work."""
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
        return 2 * problem.parameters + 4

    def _set(self, **fields):
        # Fields are set here because `step` names both an argument of the constructors and the method above.
        for name, value in fields.items():
            object.__setattr__(self, name, value)


def need_smooth(solver, problem):
    """Refuse a nonsmooth regularizer to a method that takes the gradient of everything."""
    if not problem.regularizer.smooth:
        raise ValueError(
            f"{type(solver).__name__} needs a smooth regularizer, and {problem.regularizer} is not: "
            "NEXT(FullLinearization(tau), step) takes it"
        )
