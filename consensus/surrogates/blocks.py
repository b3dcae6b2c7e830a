"""Split an agent's local problem into independent blocks of parameters."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem
from consensus.surrogates.base import Surrogate


class BlockModel(NamedTuple):
    """The surrogates ``model`` of a block of agents, to be minimised over each of ``slices`` of coordinates alone."""

    model: Any
    slices: tuple[slice, ...]

    @property
    def w(self) -> np.ndarray:
        return self.model.w


@dataclass(frozen=True)
class Blocks:
    """Minimise a surrogate over ``count`` blocks of coordinates, each with the others held at w_i.

        w~_i = (w~_i1, ..., w~_iC),          w~_ic = argmin over block c of g~_i + linear term + r

    The blocks are independent, so that the cores of an agent can solve them at once, and each keeps only its own columns of
    the Jacobian. The gradients at w_i agree with the unsplit surrogate's, and with them convergence is kept.

    Parameters
    ----------
    surrogate : FullLinearization or PartialLinearization
    count : int
        Number of blocks of neighbouring coordinates, equal up to one coordinate; at most P.

    References
    ----------
    Scardapane, Di Lorenzo, Neural Networks 91, 2017, section 5 (parallelising the local optimization).
    """

    surrogate: Surrogate
    count: int

    def __post_init__(self) -> None:
        if isinstance(self.surrogate, Blocks) or not hasattr(self.surrogate, "at"):
            raise TypeError(f"surrogate must be one that is not yet split, as FullLinearization(1.0); got {self.surrogate!r}")
        _checks.count("count", self.count)

    @property
    def needs_model(self) -> bool:
        return getattr(self.surrogate, "needs_model", False)

    def check(self, problem: BaseProblem) -> None:
        """Raise ``ValueError`` or ``TypeError`` if the surrogate or the regularizer cannot be split for ``problem``."""
        self.surrogate.check(problem)
        if self.count > problem.parameters:
            raise ValueError(f"count must be at most the number of parameters, {problem.parameters}; got {self.count}")
        r = problem.regularizer
        if not hasattr(r, "split"):
            raise TypeError(f"{self} needs {type(r).__name__}.split, which is missing: use {self.surrogate} unsplit")
        try:
            r.split(self.slices(problem.parameters))
        except ValueError as error:
            raise ValueError(
                f"{r} does not separate over the blocks of {self}: use {self.surrogate} unsplit, or another count"
            ) from error

    def slices(self, parameters: int) -> tuple[slice, ...]:
        """The blocks' coordinates, as slices that cover ``range(parameters)``."""
        ends = np.cumsum([len(part) for part in np.array_split(np.arange(parameters), self.count)]).tolist()
        return tuple(slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True))

    def at(self, problem: Any, w: np.ndarray, gradient: np.ndarray) -> BlockModel:
        """The models of all agents around ``w`` (agents, P), with ``gradient`` = grad g_i(w_i)."""
        return BlockModel(self.surrogate.at(problem, w, gradient), self.slices(problem.parameters))
