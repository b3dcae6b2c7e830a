"""What a solver is."""

from abc import ABC, abstractmethod
from dataclasses import fields
from types import MappingProxyType

import numpy as np

from consensus import _checks
from consensus.solvers.needs import Needs


class _OfNeeds:
    """An attribute that is read off ``needs``, of a class or an object."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, solver, kind):
        return getattr((kind if solver is None else solver).needs, self.name)


class Solver(ABC):
    """A method: settings, and two functions of a block of agents.

    A solver is a frozen dataclass. Its state is a NamedTuple of stacked arrays, numbers, and other NamedTuples of these. Its
    first fields are ``round``, the number of rounds done, and ``w`` (agents, P), the iterates; an engine reads no other field.
    Every state of a run has the same fields as the one that :meth:`init` makes: a checkpoint is read back into that.

    Attributes
    ----------
    needs : Needs
        What the method needs of the problem and the network. Where settings matter, a property or set by the constructor.
    mixing, counts_exchanges
        As ``needs`` has them.
    exchanges_a_round : int or None
        How many exchanges a round has, for :func:`consensus.solvers.table`; None where the method finds it by itself.
    sends : str
        What agents send in a round, for that table, too: names of vectors, as ``"w, y"``.
    columns : mapping of str to callable
        What the method itself adds to the history: a name, and how the agents' numbers become one, such as ``np.max``.
    """

    needs = Needs()
    mixing = _OfNeeds()
    counts_exchanges = _OfNeeds()
    exchanges_a_round = None
    sends = ""
    columns = MappingProxyType({})

    def check(self, problem):
        """Raise ``ValueError`` or ``TypeError`` if the method does not fit ``problem``, where :attr:`needs` cannot say so.

        It is called before any work, when the problem has what the method needs.
        """
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


def repr_of_given(solver):
    """A solver as dataclasses show themselves, without the settings that are None: checkpoints know a run by this text."""
    given = ((field.name, getattr(solver, field.name)) for field in fields(solver) if field.repr)
    settings = ", ".join(f"{name}={value!r}" for name, value in given if value is not None)
    return f"{type(solver).__qualname__}({settings})"
