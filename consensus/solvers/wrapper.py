"""A solver around another one, whose exchanges it changes."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.observe.protocols import Personal
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.defaults import SolverDefaults
from consensus.solvers.needs import Needs
from topologies.schedules import ScheduleLike


@dataclass(frozen=True)
class Wrapper(Solver):
    """A solver that runs another one on the network that :meth:`around` returns.

    All attributes are those of the inner solver. Methods that find their exchanges by themselves are refused.
    """

    solver: Solver

    def __post_init__(self) -> None:
        object.__setattr__(self, "solver", _checks.completed(_checks.solver(self.solver), SolverDefaults))
        needs, name = self.solver.needs, type(self.solver).__name__
        if needs.tree:
            raise TypeError(f"solver must be one that mixes with its neighbours; {name} sums along a tree")
        if needs.wakes:
            raise TypeError(f"solver must be one with rounds; {name} wakes without them")
        if needs.counts_exchanges:
            raise TypeError(f"solver must be one with a single exchange at a time; {name} finds its exchanges by itself")

    @abstractmethod
    def around(self, network: Network) -> Network:
        """Return the network that the inner solver is given."""

    def _takes_mix(self) -> None:
        """Raise ``TypeError`` if the inner solver takes messages one by one, or minimises what ``network.mix`` says."""
        outer, inner, needs = type(self).__name__, type(self.solver).__name__, self.solver.needs
        if needs.own_models:
            raise TypeError(f"solver of {outer} cannot be {inner}, whose objective has the weights of network.mix in it")
        if needs.each_message:
            raise TypeError(f"solver of {outer} cannot be {inner}, which takes messages one by one: {inner}({outer}(...), ...)")

    @property
    def needs(self) -> Needs:
        return self.solver.needs

    @property
    def secret(self) -> bool:
        return self.solver.secret

    def among_owners(self, agents: range, everyone: Callable[[np.ndarray], np.ndarray]) -> Self:
        if not self.solver.secret:
            return self
        ready = copy.copy(self)  # with all that prepared has found
        object.__setattr__(ready, "solver", self.solver.among_owners(agents, everyone))
        return ready

    @property
    def exchanges_a_round(self) -> float | None:
        return self.solver.exchanges_a_round

    @property
    def sends(self) -> str:
        return self.solver.sends

    @property
    def default(self) -> str:
        return self.solver.default

    @property
    def history_columns(self) -> Mapping[str, Callable[[np.ndarray], Any]]:
        return self.solver.history_columns

    def report(self, state: Any) -> np.ndarray:  # noqa: ANN401
        return self.solver.report(state)

    def width(self, problem: BaseProblem) -> int:
        return self.solver.width(problem)

    def prox(self, problem: BaseProblem) -> Callable[[np.ndarray, float], np.ndarray]:
        return self.solver.prox(problem)

    def personal(self, problem: BaseProblem) -> Personal | None:
        return self.solver.personal(problem)

    def check(self, problem: BaseProblem) -> None:
        self.solver.check(problem)

    def check_network(self, schedule: ScheduleLike) -> None:
        self.solver.check_network(self.matrices(schedule))

    def matrices(self, network: ScheduleLike) -> ScheduleLike:
        """Return a schedule of the matrices that a round's exchange amounts to, for bounds on the inner solver's step."""
        return network

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        return self.solver.stable_step(problem, self.matrices(_checks.schedule(network, "network")))

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        _checks.problem(problem)
        _checks.schedule(network, "network")
        ready = self.solver.prepared(problem, self.matrices(network))
        return self if ready is self.solver else replace(self, solver=ready)

    def matched(self, order: tuple[int, ...] | None, labels: tuple[Hashable, ...] | None) -> Self:
        return replace(self, solver=self.solver.matched(order, labels))

    def edges(self, network: ScheduleLike) -> ScheduleLike:
        return self.solver.edges(network)

    def init(self, problem: BaseProblem, w: np.ndarray) -> Any:  # noqa: ANN401
        return self.solver.init(problem, w)

    def step(self, problem: BaseProblem, network: Network, state: Any) -> Any:  # noqa: ANN401
        return self.solver.step(problem, self.around(network), state)
