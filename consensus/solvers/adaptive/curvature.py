"""The two kinds of curvature that agents can know of."""

from typing import Any, Protocol, Self

import numpy as np

from consensus.problems import BaseProblem, has_model
from consensus.solvers.adaptive.gauss_newton import Test
from consensus.solvers.adaptive.secants import Secants
from consensus.solvers.adaptive.sketch import Sketch


class Curvature(Protocol):
    """What an agent knows of curvature at its trial point: a NamedTuple, part of the state of AdaptiveNEXT.

    Arrays are (agents, ...), and ``problem`` is one for which :func:`curvature_of` has chosen the kind.
    """

    @classmethod
    def at_start(cls, problem: Any, w: np.ndarray) -> Self:
        """At the start w (agents, P)."""

    @staticmethod
    def numbers(problem: Any) -> int:
        """How many numbers an agent sends."""

    def scale(self, problem: Any, w: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, float]:
        """How large H is (agents,), as the local cost says; and tau's first value in units of that."""

    def sent(self) -> tuple:
        """The blocks that are summed over the network, as a NamedTuple."""

    def of_network(self, problem: Any, round: int, sums: Any, step: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, Self]:
        """V (agents, P, columns) with V V' ~ H, from the ``sums`` of what was sent in a round, or from how the network's
        gradient changed along the last step, ``change`` and ``step`` (agents, P); and what is kept of it."""

    def moved(self, problem: Any, trial: np.ndarray, round: int) -> Self:
        """At new trial points (agents, P)."""

    def each_local_model(self, problem: Any, w: np.ndarray, test: Test) -> None:
        """A test of how far the local costs are from their models, as :func:`gauss_newton.each_local_model`."""


def curvature_of(problem: BaseProblem) -> type[Curvature]:
    """The kind of curvature for ``problem``: :class:`Sketch` where its model can be linearised, else :class:`Secants`."""
    return Sketch if has_model(problem) else Secants
