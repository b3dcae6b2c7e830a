"""Base class of solvers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from consensus import _checks
from consensus._bounds import within
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.problems.minibatches import as_minibatches
from consensus.solvers.bounds import six_digits
from consensus.solvers.defaults import SolverDefaults
from consensus.step_sizes import checked
from topologies.schedules import ScheduleLike

if TYPE_CHECKING:
    from jaxtyping import Float

Setting = TypeVar("Setting")


class Solver(SolverDefaults, ABC):
    """A method: settings, a state, and two functions of a block of agents, ``init`` and ``step``.

    :func:`consensus.testing.check_solver` tries one of your own.

    *Settings* are the fields of a frozen dataclass; none can be called ``step``. A field's metadata may state bounds, which are
    checked: ``above``, ``least``, ``below`` and ``most`` of a number, as in ``{"above": 0, "most": 1}``, or the least value of
    a whole number, ``{"count": 1}``. Other checks are those of ``__post_init__``. A checkpoint is resumed by a solver with the
    same settings.

    *The state* is a NamedTuple of arrays (agents, ...), numbers, and other NamedTuples of these. Its first fields are
    ``round``, the number of rounds done, and ``w`` (agents, P), the iterates; an engine reads no other field. All that a method
    remembers is in it. All states of a run have the fields and shapes of the first one. Arrays of a state are never changed,
    only replaced.

    *A block of agents* is all of them, or those that one process holds: ``problem`` has their costs alone, and row i of every
    array is of agent ``problem.rows[i]``. So nothing may be summed over rows. ``problem.network_size`` is A, the number of all
    agents, and ``problem.parameters`` is P.

    *Gradients* of the costs g_i are ``problem.gradient(w)``; of ``f_i = A g_i + r``, of which U is the average and r must be
    smooth, ``problem.average_gradient(w)``. Both are (agents, P), new arrays. A second argument, the ``at(problem, round)`` of
    :class:`consensus.Minibatches`, makes them estimates from a few samples. For another r there is
    ``problem.regularizer.prox(v, step)``.

    *Exchanges*: ``network.mix(round, X, Y, ...)`` returns the tuple ``(W X, W Y, ...)`` of new arrays, with W the round's
    mixing matrix, and counts one exchange. Two calls with the same round meet the same W. ``network.average(round, X, ...)``
    takes the mean over the agent and its neighbours, and ``network.mix_and_average(round, X, Y)`` does ``mix`` of X and
    ``average`` of Y in one exchange.

    *Step sizes*: a field ``step_size`` is a number or a rule; ``consensus.step_sizes.value_at(self.step_size, round)`` is the
    step of a round. If theory has a bound, :meth:`stable_step` states it, and None, the default, stands for it.

    Attributes
    ----------
    needs : Needs
        What the method needs of the problem and the network; :func:`consensus.solve` raises an error or warns if it is missing.
        Needs that depend on settings are a property, or set in ``__post_init__``.
    exchanges_a_round : number or None
        How many exchanges a round has, on average where chance decides; None if that is not known before a run.
    sends : str
        The vectors that an agent sends in a round, as ``"w, y"``, for :func:`consensus.solvers.table`.
    sets_itself : bool
        Whether the method has no settings to tune: a run that rises above its start on its way is warned of.
    default : str
        How a step or penalty that was not given is found, in a few words, for the table, too.
    history_columns : mapping of str to callable
        Columns that the method adds to the history: a name, and how the agents' numbers, those of :meth:`report`, become one,
        such as ``np.max``.

    Examples
    --------
    Adapt, then combine:

    >>> from dataclasses import dataclass
    >>> from typing import NamedTuple
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import Needs, Solver
    >>> from consensus.step_sizes import Rule, value_at
    >>> class DiffusionState(NamedTuple):
    ...     round: int
    ...     w: np.ndarray
    >>> @dataclass(frozen=True)
    ... class Diffusion(Solver):
    ...     step_size: float | Rule
    ...
    ...     needs = Needs(regularizer="smooth")
    ...     exchanges_a_round = 1
    ...     sends = "w"
    ...
    ...     def init(self, problem, w):
    ...         return DiffusionState(0, w)
    ...
    ...     def step(self, problem, network, state):
    ...         n, w = state
    ...         (w,) = network.mix(n, w - value_at(self.step_size, n) * problem.average_gradient(w))
    ...         return DiffusionState(n + 1, w)
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> result = consensus.solve(problem, topologies.ring(5), Diffusion(step_size=0.001), rounds=2000)
    >>> result.mean.round(6)
    array([2.])
    """

    def __post_init__(self) -> None:
        """Check ``step_size``, ``batch`` and the settings whose bounds are in the metadata of their fields.

        Raises
        ------
        TypeError, ValueError
            If ``step_size`` is neither a positive number nor a rule, or None though the method has no :meth:`stable_step`; if
            ``batch`` is neither a number of samples nor a rule; if another setting is out of bounds.
        """
        check_settings(self)

    def check(self, problem: BaseProblem) -> None:
        """Raise ``ValueError`` or ``TypeError`` if the method, or its ``batch``, does not fit a problem.

        Parameters
        ----------
        problem : Problem
            With all that :attr:`needs` says.
        """
        _checks.problem(problem)
        check = getattr(getattr(self, "batch", None), "check", None)
        if check is not None:
            check(problem)

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        """Return a step that theory holds to be safe, the default of ``step_size``.

        Parameters
        ----------
        problem : Problem
            ``problem.lipschitz()`` has the constants of all agents of the network, and ``strong_convexity()`` the moduli, under
            MPI, too. Nothing may depend on what else is held here.
        network : schedule
            The mixing matrices of all rounds.

        Returns
        -------
        float
            Not rounded; :meth:`prepared` takes six digits of it.

        Raises
        ------
        TypeError
            If the method has no bound on its step, or the problem knows no constants.
        ValueError
            If there is no such step on this network.
        """
        _checks.problem(problem)
        _checks.schedule(network, "network")
        remedy = "give step_size=" if hasattr(self, "step_size") else "it takes none"
        raise TypeError(f"{type(self).__name__} has no bound on its step from theory: {remedy}")

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        """Return the solver as it runs: this one, or one with the constant :meth:`stable_step` if ``step_size`` is None.

        :func:`consensus.solve` calls it before :meth:`init`. The step has six digits, the same on every machine.

        Parameters
        ----------
        problem, network : Problem, schedule
            As in :meth:`stable_step`.

        Returns
        -------
        Solver
            One of the same class.
        """
        _checks.problem(problem)
        _checks.schedule(network, "network")
        if getattr(self, "step_size", 0) is not None:
            return self
        solver: Any = self
        ready: Self = replace(solver, step_size=six_digits(self.stable_step(problem, network)))
        return ready

    @abstractmethod
    def init(self, problem: BaseProblem, w: Float[np.ndarray, "agents P"]) -> Any:  # noqa: ANN401  # each method has its own state
        """Return the state of round 0.

        Parameters
        ----------
        problem : Problem
            The block of agents that is held here.
        w : ndarray (agents, P)
            Their starting points.
        """

    @abstractmethod
    def step(self, problem: BaseProblem, network: Network, state: Any) -> Any:  # noqa: ANN401
        """Return the state one round later.

        Parameters
        ----------
        problem : Problem
            The block of agents that is held here.
        network : Network
            The only way to other agents.
        state : NamedTuple
            What :meth:`init` or the last step returned.
        """


def check_settings(solver: Any) -> None:  # noqa: ANN401  # a frozen dataclass, whose fields are set to what is checked
    """Check ``step_size``, ``batch`` and the fields of ``solver`` whose metadata state bounds, as :class:`Solver` says."""
    for setting in fields(solver):
        if not setting.init:
            continue  # set later
        name, value = setting.name, getattr(solver, setting.name)
        if name == "step_size":
            value = checked(value, optional=getattr(type(solver), "stable_step", Solver.stable_step) is not Solver.stable_step)
        elif name == "batch":
            value = as_minibatches(value)
        else:
            value = within(setting, value, name)
        object.__setattr__(solver, name, value)


def settled(value: Setting | None, name: str) -> Setting:
    """Return a setting that :meth:`Solver.prepared` fills in; raise ``TypeError`` if it has not."""
    if value is None:
        raise TypeError(f"{name} is not known yet: solver.prepared(problem, network) is the solver that has it")
    return value
