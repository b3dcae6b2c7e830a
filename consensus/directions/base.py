"""Base class of directions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from consensus import _checks
from consensus._bounds import check_fields
from consensus.problems import BaseProblem

if TYPE_CHECKING:
    from jaxtyping import Float


class NoMemory(NamedTuple):
    """The state of a direction that remembers nothing, and of a solver without one: it adds nothing to a checkpoint."""


class Direction(ABC):
    """A rule by which agents turn gradients into the directions d of their steps ``w - alpha d``.

    DGD, GradientTracking, KGT, QGDSGDm and SGP take one as ``direction=``: they pass it the gradient along which they would
    step without it, a local or a tracked one, and step along what it returns. The rules are those of ``torch.optim``; alpha is
    the solver's ``step_size``, which has no default then.

    A direction of one's own is a frozen dataclass with the two methods below, which treat a block of agents, as solvers do:
    nothing is summed over rows. Bounds of settings may stand in the metadata of their fields, as
    :class:`consensus.solvers.Solver` describes.

    Examples
    --------
    The signs of the gradients:

    >>> from dataclasses import dataclass
    >>> import numpy as np, consensus, topologies
    >>> from consensus.directions import Direction
    >>> @dataclass(frozen=True)
    ... class Sign(Direction):
    ...     def step(self, problem, state, gradient, w):
    ...         return state, np.sign(gradient)
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> solver = consensus.solvers.GradientTracking(consensus.step_sizes.InverseSqrt(0.1), direction=Sign())
    >>> consensus.solve(problem, topologies.ring(5), solver, rounds=400).mean.round(1)
    array([2.])
    """

    #: Whether steps have one length, whatever the scale of the gradients: a class attribute.
    scale_free: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the settings whose bounds are in the metadata of their fields.

        Raises
        ------
        ValueError
            If one is out of bounds.
        """
        check_fields(self)

    def check(self, problem: BaseProblem) -> None:
        """Raise ``TypeError`` or ``ValueError`` if the rule does not fit a problem.

        Parameters
        ----------
        problem : Problem
            The block of agents that is held here.
        """
        return None

    def init(self, problem: BaseProblem, w: Float[np.ndarray, "agents P"]) -> Any:  # noqa: ANN401  # each rule has its own
        """Return what the rule remembers before the first step; nothing by default.

        Parameters
        ----------
        problem : Problem
            The block of agents that is held here.
        w : ndarray (agents, P)
            Their starting points.

        Returns
        -------
        NamedTuple
            Arrays (agents, ...), numbers, and other NamedTuples of these. It becomes a part of the solver's state.
        """
        return NoMemory()

    @abstractmethod
    def step(
        self,
        problem: BaseProblem,
        state: Any,  # noqa: ANN401
        gradient: Float[np.ndarray, "agents P"],
        w: Float[np.ndarray, "agents P"],
    ) -> tuple[Any, Float[np.ndarray, "agents P"]]:
        """Return what the rule remembers after a step, and the direction of the step.

        Parameters
        ----------
        problem : Problem
            The block of agents that is held here.
        state : NamedTuple
            What :meth:`init` or the last call returned; its arrays are left as they are.
        gradient : ndarray (agents, P)
            Local or tracked gradients.
        w : ndarray (agents, P)
            The points from which the agents step.

        Returns
        -------
        state : NamedTuple
            State of the same fields and shapes.
        d : ndarray (agents, P)
            The directions, in the dtype of the problem.
        """


def as_direction(value: object, name: str = "direction") -> Any:  # noqa: ANN401  # what has the methods of one
    """Return ``value`` if it is a direction or None; raise ``TypeError`` otherwise."""
    wanted = "a direction, such as consensus.directions.AdamW(), or None"
    if isinstance(value, type):
        raise TypeError(f"{name} must be {wanted}; got the class {value.__name__}: call it")
    return value if value is None else _checks.offers(name, value, ("check", "init", "step"), wanted)
