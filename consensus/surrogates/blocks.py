"""Split an agent's local problem into independent blocks of parameters."""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem
from consensus.surrogates.base import Surrogate, SurrogateModel

M = TypeVar("M", bound=SurrogateModel)


class BlockModel(NamedTuple, Generic[M]):
    """Surrogate models of a block of agents, which are minimised over each slice of coordinates by itself."""

    model: M  # of the split surrogate
    slices: tuple[slice, ...]

    @property
    def w(self) -> np.ndarray:
        return np.asarray(self.model.w)


@dataclass(frozen=True)
class Blocks(Surrogate):
    """A surrogate that is minimised over each of several blocks of coordinates, with the other blocks fixed at w_i.

        w~_i = (w~_i1, ..., w~_iC),          w~_ic = argmin over block c of g~_i + linear term + r

    The blocks are independent: the cores of an agent can solve them in parallel, and each block stores only its own columns
    of the Jacobian. The gradients at w_i are those of the unsplit surrogate, so convergence is preserved.

    Parameters
    ----------
    surrogate : FullLinearization or PartialLinearization
        The surrogate to split.
    count : int
        Number of blocks, at most P. Blocks are consecutive coordinates, and their sizes differ by at most one.

    References
    ----------
    Scardapane, Di Lorenzo, Neural Networks 91, 2017, section 5 (parallelising the local optimization).

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.local import Exact
    >>> from consensus.surrogates import Blocks, PartialLinearization
    >>> shards = consensus.Shards.from_list([(np.eye(4), [1.0, 2.0, 3.0, 4.0])])
    >>> problem = consensus.Problem(consensus.Linear(4, bias=False), consensus.SquaredLoss(), shards)
    >>> w, unsplit = np.zeros((1, 4)), PartialLinearization(tau=0.25)
    >>> for surrogate in (unsplit, Blocks(unsplit, count=2)):  # equal because the Jacobian has orthogonal columns
    ...     model = surrogate.at(problem, w, problem.gradient(w))
    ...     print(Exact().solve(model, np.zeros((1, 4)), consensus.L2(0.0)).w.round(6).tolist())
    [[0.5, 1.0, 1.5, 2.0]]
    [[0.5, 1.0, 1.5, 2.0]]
    """

    surrogate: Surrogate
    count: int

    def __post_init__(self) -> None:
        if isinstance(self.surrogate, Blocks) or not hasattr(self.surrogate, "at"):
            raise TypeError(f"surrogate must be one that is not yet split, as FullLinearization(1.0); got {self.surrogate!r}")
        _checks.count("count", self.count)

    @property
    def needs_model(self) -> bool:
        """True if the surrogate requires a model and a loss."""
        return bool(getattr(self.surrogate, "needs_model", False))

    def check(self, problem: BaseProblem) -> None:
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
        """Return the slices of the blocks.

        Parameters
        ----------
        parameters : int
            Number of parameters P.

        Returns
        -------
        tuple of slice
            Slices that cover 0 .. P - 1 in order.
        """
        ends = np.cumsum([len(part) for part in np.array_split(np.arange(parameters), self.count)]).tolist()
        return tuple(slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True))

    def at(self, problem: BaseProblem, w: np.ndarray, gradient: np.ndarray) -> BlockModel[SurrogateModel]:
        return BlockModel(self.surrogate.at(problem, w, gradient), self.slices(problem.parameters))
