"""The base classes of wrappers whose exchanges have a memory."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn, Self, cast

import numpy as np

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.needs import Needs
from consensus.solvers.wrapper import Wrapper
from topologies.schedules import ScheduleLike


class RememberingState(NamedTuple):
    """State of the inner solver, and memory of the exchange: arrays (agents, vectors, ...)."""

    round: int
    w: np.ndarray
    inner: Any
    memory: Any


@dataclass(frozen=True)
class RememberingWrapper(Wrapper):
    """A wrapper whose exchanges have a memory for each vector that the inner solver mixes, as counted by its ``sends``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._takes_mix()
        outer, inner = type(self).__name__, type(self.solver).__name__
        if isinstance(self.solver, Wrapper):
            raise TypeError(f"solver of {outer} must be a method, not another wrapper; got {inner}")
        if not self.vectors:
            raise TypeError(f'solver of {outer} must say what it sends, as in sends = "w, y"; {inner} does not')

    @property
    def vectors(self) -> int:
        """Number of vectors (P,) that the inner solver mixes in a round."""
        return sum(name not in ("", "mass") for name in self.sends.split(", "))

    @property
    def needs(self) -> Needs:
        return replace(super().needs, static=True, each_message=True)

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        if getattr(self.solver, "step_size", 0) is None:
            inner, outer = type(self.solver).__name__, type(self).__name__
            raise TypeError(f"{inner} inside of {outer} has no bound on its step from theory: give step_size=")
        return super().prepared(problem, network)

    def report(self, state: RememberingState) -> np.ndarray:
        return self.solver.report(state.inner)

    def init(self, problem: BaseProblem, w: np.ndarray) -> RememberingState:
        inner = self.solver.init(problem, w)
        return RememberingState(inner.round, inner.w, inner, self.memory(problem, w))

    def step(self, problem: BaseProblem, network: Network, state: RememberingState) -> RememberingState:
        changed = self.exchange(problem, network, state)
        inner = self.solver.step(problem, cast(Network, changed), state.inner)
        return RememberingState(inner.round, inner.w, inner, changed.memory)

    def around(self, network: Network) -> Network:
        raise TypeError(f"{type(self).__name__} has no network apart from its state")

    @abstractmethod
    def memory(self, problem: BaseProblem, w: np.ndarray) -> object:
        """Return the memory at the start ``w`` (agents, P)."""

    @abstractmethod
    def exchange(self, problem: BaseProblem, network: Network, state: RememberingState) -> "Exchange":
        """Return the network of the inner solver for one round."""


class Exchange:
    """The network of one round. The k-th vector that the inner solver mixes uses the k-th place of the wrapper's memory.

    All other attributes are those of ``network``.
    """

    def __init__(self, wrapper: RememberingWrapper, problem: BaseProblem, network: Network, state: RememberingState) -> None:
        self.wrapper, self.problem, self.network, self.memory = wrapper, problem, network, state.memory
        self.round, self.used = state.round, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.network, name)

    def average(self, *_: object) -> NoReturn:
        raise TypeError(f"{type(self.wrapper).__name__} changes network.mix, and there is no network.average of it")

    mix_and_average = average

    def place(self) -> int:
        """Return the place of the next vector in the memory; raise ``TypeError`` if there are no more."""
        if self.used == self.wrapper.vectors:
            inner = type(self.wrapper.solver).__name__
            raise TypeError(f"{inner} mixes more vectors in a round than its sends = {self.wrapper.sends!r} says")
        self.used += 1
        return self.used - 1

    def array(self, block: Any) -> np.ndarray:  # noqa: ANN401  # packed rows, too
        """Return a ``block`` if it is an array; raise ``TypeError`` otherwise."""
        if hasattr(block, "unpack"):
            raise TypeError(f"solver of {type(self.wrapper).__name__} must mix arrays; it packs them itself")
        found: np.ndarray = block
        return found

    def is_vector(self, block: np.ndarray) -> bool:
        """Return whether a ``block`` has the shape (agents, P)."""
        return block.ndim == 2 and block.shape[1] == self.problem.parameters
