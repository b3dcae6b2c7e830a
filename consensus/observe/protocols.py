"""What is observed of problems and methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from consensus.regularizers import Regularizer

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class Costs(Protocol):
    """What is observed of a problem, or of a block of its agents."""

    @property
    def agents(self) -> int:
        """Number of agents of the block."""
        ...

    @property
    def network_size(self) -> int:
        """Number of agents of the network."""
        ...

    @property
    def rows(self) -> Int[np.ndarray, " agents"]:
        """The agents of the block."""
        ...

    @property
    def regularizer(self) -> Regularizer:
        """The regularizer r."""
        ...

    def value(self, w: Float[np.ndarray, "agents parameters"]) -> Float[np.ndarray, " agents"]:
        """Return the agents' costs."""
        ...

    def gradient(self, w: Float[np.ndarray, "agents parameters"]) -> Float[np.ndarray, "agents parameters"]:
        """Return the gradients of the agents' costs."""
        ...

    def value_and_gradient(
        self, w: Float[np.ndarray, "agents parameters"]
    ) -> tuple[Float[np.ndarray, " agents"], Float[np.ndarray, "agents parameters"]]:
        """Return both."""
        ...

    def true_gradients(self) -> Self:
        """Return the same with the gradients of the costs, if it has other directions in their place."""
        ...


class Method(Protocol):
    """What is observed of a solver, or of a centralised system."""

    @property
    def history_columns(self) -> Mapping[str, Callable[[np.ndarray], Any]]:
        """Its columns of the history: for each a function that turns the agents' numbers into one."""
        ...

    def prox(self, problem: Any) -> Callable[[np.ndarray, float], np.ndarray]:  # noqa: ANN401  # each method has its problems
        """Return the proximal operator ``(v, step) -> w`` by which stationarity is measured."""
        ...
