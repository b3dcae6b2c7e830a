"""What a solver is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.problems.minibatches import as_minibatches
from consensus.solvers.needs import Needs
from consensus.step_sizes import checked
from topologies.schedules import ScheduleLike


class Solver(ABC):
    """A method: settings, a state, and two functions of a block of agents, :meth:`init` and :meth:`step`.

    A method of one's own is one class, as in the example below. *Settings* are the fields of a frozen dataclass, checked in
    ``__post_init__``; none can be called ``step``, as a method is. A checkpoint is resumed by a solver with the same settings.

    *The state* is a NamedTuple of arrays (agents, ...), numbers, and other NamedTuples of these. Its first fields are
    ``round``, the number of rounds done, and ``w`` (agents, P), the iterates; an engine reads no other field. Whatever a method
    remembers from round to round is in it: a checkpoint holds nothing else. All states of a run have the same fields, of the
    same shapes, as the one that :meth:`init` makes: a checkpoint is read back into that. The arrays of a state are never
    changed, only replaced.

    *A block of agents* is all of them, or those that one process holds: ``problem`` has their costs alone, and row i of every
    array is of agent ``problem.rows[i]``. So nothing may be summed over rows: what other agents have comes by the network.
    ``problem.network_size`` is A, the number of all agents, and ``problem.parameters`` is P.

    *Gradients* of the costs g_i are ``problem.gradient(w)``; of ``f_i = A g_i + r``, of which U is the average and r must be
    smooth, ``problem.average_gradient(w)``. Both are (agents, P), new arrays. A second argument, the ``at(problem, round)`` of
    :class:`consensus.Minibatches`, makes them estimates from a few samples. For another r there is
    ``problem.regularizer.prox(v, step)``.

    *Exchanges*: ``network.mix(round, X, Y, ...)`` returns the tuple ``(W X, W Y, ...)`` of new arrays, with W the round's
    mixing matrix, and counts one exchange; what travels together is one call. Two calls with the same round meet the same W.
    ``network.average(round, X, ...)`` takes the mean over the agent and those it hears, whatever the weights, and
    ``network.mix_and_average(round, X, Y)`` does ``mix`` of X and ``average`` of Y in one exchange.

    *Step sizes*: a field ``step_size`` is a number or a rule; ``consensus.step_sizes.value_at(self.step_size, round)`` is the
    step of a round. Where theory has a bound, :meth:`stable_step` states it, and None, the default, stands for it:
    :meth:`prepared` fills it in before the first round, the same on every engine. A method that has more to find overrides
    :meth:`prepared`.

    *Needs*: the class attribute :attr:`needs` says what the method cannot do without, in the words of :class:`Needs`. By it a
    problem or network that does not fit is refused, or warned of, before any work. What it cannot say is for :meth:`check`.

    Attributes
    ----------
    needs : Needs
        What the method needs of the problem and the network. Where settings matter: a property, or set in ``__post_init__``.
    exchanges_a_round : number or None
        How many exchanges a round has, on average where chance decides; None where that is not known before a run. It is shown
        by :func:`consensus.solvers.table`.
    sends : str
        The vectors that an agent sends in a round, as ``"w, y"``, for that table, too. It also shows the first entry under
        *References* in the class's docstring, ``Authors, "Title", where, year``.
    default : str
        How a step or penalty that nobody gave is found, in a few words, for that table.
    history_columns : mapping of str to callable
        What the method itself adds to the history: a name, and how the agents' numbers, those of :meth:`report`, become one,
        such as ``np.max``.

    Examples
    --------
    A method that is not here: adapt, then combine.

    >>> from dataclasses import dataclass
    >>> from typing import NamedTuple
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import Needs, Solver
    >>> class DiffusionState(NamedTuple):
    ...     round: int
    ...     w: np.ndarray
    >>> @dataclass(frozen=True)
    ... class Diffusion(Solver):
    ...     step_size: float
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
    ...         (w,) = network.mix(n, w - self.step_size * problem.average_gradient(w))
    ...         return DiffusionState(n + 1, w)
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> result = consensus.solve(problem, topologies.ring(5), Diffusion(step_size=0.001), rounds=2000)
    >>> result.mean.round(6)
    array([2.])
    """

    if TYPE_CHECKING:  # to be read only: a method has them as attributes of its class, or sets them, or as properties

        @property
        def needs(self) -> Needs: ...
        @property
        def exchanges_a_round(self) -> float | None: ...
        @property
        def sends(self) -> str: ...
        @property
        def default(self) -> str: ...
        @property
        def history_columns(self) -> Mapping[str, Callable[[np.ndarray], Any]]: ...

    else:
        needs = Needs()
        exchanges_a_round = None
        sends = ""
        default = ""
        history_columns = MappingProxyType({})

    def __post_init__(self) -> None:
        """Check ``step_size`` and ``batch``, settings that many methods have; a method with others checks these afterwards.

        Raises
        ------
        TypeError, ValueError
            If ``step_size`` is neither a positive number nor a rule, or None though the method has no :meth:`stable_step`; if
            ``batch`` is neither a number of samples nor a rule.
        """
        if hasattr(self, "step_size"):
            optional = type(self).stable_step is not Solver.stable_step
            object.__setattr__(self, "step_size", checked(self.step_size, optional=optional))
        if hasattr(self, "batch"):
            object.__setattr__(self, "batch", as_minibatches(self.batch))

    def check(self, problem: BaseProblem) -> None:
        """Raise ``ValueError`` or ``TypeError`` if the method does not fit ``problem``, where :attr:`needs` cannot say so.

        It is called before any work, once it is known that the problem has what :attr:`needs` says. A rule of minibatches in a
        field ``batch`` is asked, too.
        """
        _checks.problem(problem)
        check = getattr(getattr(self, "batch", None), "check", None)
        if check is not None:
            check(problem)

    def check_network(self, schedule: ScheduleLike) -> None:
        """Raise ``ValueError`` if the method cannot run on ``schedule``, where :attr:`needs` cannot say so."""
        return None

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        """A step that theory holds to be safe: what a solver whose ``step`` was left out runs with.

        Parameters
        ----------
        problem : Problem
            ``problem.lipschitz()`` has the constants of all agents of the network, and ``strong_convexity()`` the moduli, under
            MPI, too. Nothing may depend on what else is held here.
        network : schedule

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
        """The solver as it runs: this one, with the constant :meth:`stable_step` where ``step_size`` is None.

        :func:`consensus.solve` calls it before the first round; who calls :meth:`init` and :meth:`step` by hand has to, too.
        The step has six digits, which rounding errors of another machine do not change.
        """
        _checks.problem(problem)
        _checks.schedule(network, "network")
        if getattr(self, "step_size", 0) is not None:
            return self
        ready: Any = self
        return replace(ready, step_size=float(f"{self.stable_step(problem, network):.6g}"))

    def edges(self, network: ScheduleLike) -> ScheduleLike:
        """The schedule that the rounds meet: ``network`` itself, or one of some of its edges, where others carry nothing."""
        return network

    @abstractmethod
    def init(self, problem: BaseProblem, w: np.ndarray) -> Any:
        """The state at the start ``w`` (agents, P): round 0."""

    @abstractmethod
    def step(self, problem: BaseProblem, network: Network, state: Any) -> Any:
        """The state one round later. ``network`` is the only way to other agents."""

    def report(self, state: Any) -> np.ndarray:
        """The agents' numbers for :attr:`history_columns`, shape (agents, columns)."""
        return np.zeros((len(state.w), 0))

    def width(self, problem: BaseProblem) -> int:
        """How many numbers of an agent are mixed at once, at most: some engines set memory aside for them.

        Room for two vectors and some numbers, unless a method says otherwise; an error names a block that finds no room.
        """
        return 2 * _checks.problem(problem).parameters + 4

    def prox(self, problem: BaseProblem) -> Callable[[np.ndarray, float], np.ndarray]:
        """The prox, ``(v, step) -> w``, of what the method minimises beside the costs: stationarity is measured by it."""
        return _checks.problem(problem).regularizer.prox
