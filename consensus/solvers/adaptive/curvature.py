"""The kinds of curvature that agents can know of."""

from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from consensus.models.layers import Layered
from consensus.problems import BaseProblem, has_model
from consensus.solvers.adaptive.gauss_newton import Test
from consensus.solvers.adaptive.kronecker import Kronecker
from consensus.solvers.adaptive.news import News
from consensus.solvers.adaptive.quadratic import Hessian
from consensus.solvers.adaptive.secants import Secants
from consensus.solvers.adaptive.sketch import DIRECTIONS, Sketch, columns

if TYPE_CHECKING:
    from consensus.engines.network import Network


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

    def unknown(self) -> Hessian:
        """H = 0, before any curvature of the network is known."""

    def alone(self, network: "Network") -> Hessian | None:
        """H as an agent can know it by itself, to begin with; None if that is not to be used."""

    def mixed(self, network: "Network") -> tuple:
        """The blocks that are mixed, whose sums over the network are wanted, as a NamedTuple."""

    def rounded(self, network: "Network") -> np.ndarray | None:
        """Blocks (agents, P, count) that are mixed in few bits, whose sums are wanted; None if there are none."""

    def of_network(self, problem: Any, network: "Network", round: int, news: News) -> tuple[Hessian, Self]:
        """H, from the ``news`` that the exchanges of a round brought; and what is kept of them."""

    def moved(self, problem: Any, trial: np.ndarray) -> Self:
        """At new trial points (agents, P)."""

    def widened(self, problem: Any) -> Self:
        """With all that is to be in the first message to all, after rounds :meth:`alone`; before it :meth:`moved` is called."""

    def each_local_model(self, problem: Any, w: np.ndarray, test: Test) -> None:
        """A test of how far the local costs are from their models, as :func:`gauss_newton.each_local_model`."""


def curvature_of(problem: BaseProblem) -> type[Curvature]:
    """The kind of curvature for ``problem``: :class:`Secants` where its model cannot be linearised, else :class:`Sketch`.

    Of a layered model with so many parameters that a sketch would have few columns it is :class:`Kronecker`, if r is quadratic:
    others take more to solve with.
    """
    if not has_model(problem):
        return Secants
    layered = isinstance(problem.model, Layered) and problem.model.bias and problem.regularizer.quadratic
    few = columns(problem) < min(problem.parameters, DIRECTIONS)
    return Kronecker if layered and few else Sketch
