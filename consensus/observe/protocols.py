"""Protocols of the problems and methods that an observer sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from consensus.regularizers import Regularizer

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, UInt64


class Costs(Protocol):
    """Members of a problem, or of a block of its agents, that the observer uses."""

    model: Any  #: None, as shards, if costs are no sums over samples
    shards: Any
    measured: Any  #: what measures in place of AtMean, if anything does
    columns: tuple[str, ...]

    @property
    def agents(self) -> int:
        """Number of agents of the block."""

    @property
    def network_size(self) -> int:
        """Number of agents of the network."""

    @property
    def rows(self) -> Int[np.ndarray, " agents"]:
        """The agents of the block."""

    @property
    def regularizer(self) -> Regularizer:
        """The regularizer r."""

    def value(self, w: Float[np.ndarray, "agents parameters"]) -> Float[np.ndarray, " agents"]:
        """Return the agents' costs."""

    def gradient(self, w: Float[np.ndarray, "agents parameters"]) -> Float[np.ndarray, "agents parameters"]:
        """Return the gradients of the agents' costs."""

    def value_and_gradient(
        self, w: Float[np.ndarray, "agents parameters"]
    ) -> tuple[Float[np.ndarray, " agents"], Float[np.ndarray, "agents parameters"]]:
        """Return both."""

    def true_gradients(self) -> Self:
        """Return the same with true gradients, in case its model replaces them by other directions."""


class Masks(Protocol):
    """Masks of the agents of a process, which cancel in the sum over all agents: see :class:`consensus.privacy.SecureSums`."""

    @property
    def public(self) -> np.ndarray:
        """The keys of these agents that the others must have."""

    def agree(self, public: np.ndarray) -> None:
        """Hear what is public of all agents."""

    def drawn(self, number: int, count: int) -> UInt64[np.ndarray, "agents count"]:
        """Return ``count`` masks for each of these agents, in the sum with a ``number`` that no other has."""


class Secure(Protocol):
    """Secure sums over agents: see :class:`consensus.privacy.SecureSums`."""

    def encode(self, rows: np.ndarray, agents: np.ndarray, terms: int) -> np.ndarray:
        """Return numbers of some agents as integers modulo 2^64, for a sum of so many terms."""

    def decode(self, total: np.ndarray) -> np.ndarray:
        """Return a sum of such integers as numbers."""

    def masks(self, agents: range) -> Masks:
        """Return the masks of the agents of this process."""


class Measures(Protocol):
    """Measurements at the iterates, for a row of the history."""

    def measure(self, w: np.ndarray, mean: np.ndarray, round: int, past: Any) -> dict[str, float | np.ndarray]:  # noqa: ANN401
        """Return the measured quantities by name, at the iterates ``w`` of this process and the ``mean`` of all.

        ``past`` is the history of the rounds before.
        """


class Personal(Protocol):
    """Parameters that agents with models of their own keep to themselves: see :class:`consensus.personal.measured.Personal`."""

    @property
    def own(self) -> Bool[np.ndarray, " P"]:
        """The parameters that every agent has for itself."""

    def points(self, w: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return the agents' points: rows of ``w`` (agents, P), with the ``mean`` (P,) where agents agree."""

    def measures(self, agents: Any, solver: Any, test: Any, each: bool, hidden: bool) -> Measures:  # noqa: ANN401  # as AtMean
        """Return what measures at these points, with the arguments of :class:`consensus.observe.measure.AtMean`."""


class Method(Protocol):
    """Members of a solver, or of a centralised system, that the observer uses."""

    @property
    def history_columns(self) -> Mapping[str, Callable[[np.ndarray], Any]]:
        """Its columns of the history: for each a function that turns the agents' numbers into one."""

    @property
    def secret(self) -> bool:
        """True if its agents draw random numbers that others must not know."""

    def personal(self, problem: Any) -> Personal | None:  # noqa: ANN401  # as below
        """Return what agents keep for themselves, if they have models of their own."""

    def prox(self, problem: Any) -> Callable[[np.ndarray, float], np.ndarray]:  # noqa: ANN401  # each method has its problems
        """Return the proximal operator ``(v, step) -> w`` by which stationarity is measured."""
