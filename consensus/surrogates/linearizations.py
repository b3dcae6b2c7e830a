"""Surrogates that linearize costs: whole, in part, or by blocks of parameters."""

from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem, Problem
from consensus.problems.linearizable import Linearizable, check_convex
from consensus.surrogates.base import Surrogate, SurrogateDefaults, SurrogateModel


class ProximalModel(NamedTuple):
    """Models ``g~_i(w) = grad_i . (w - w_i) + tau/2 |w - w_i|^2``, up to constants, for a block of agents.

    Attributes
    ----------
    problem : BaseProblem
        The problem.
    w : ndarray (agents, P)
        Centres w_i.
    gradient : ndarray (agents, P)
        Gradients of the costs at the centres.
    tau : float
        Proximal weight.
    """

    problem: BaseProblem
    w: np.ndarray
    gradient: np.ndarray
    tau: float


@dataclass(frozen=True)
class FullLinearization(Surrogate):
    """The cost linearised at w_i, plus a proximal term.

        g~_i(w; w_i) = g_i(w_i) + grad g_i(w_i) . (w - w_i) + tau/2 |w - w_i|^2 .

    The local problem with a regularizer r is one proximal step, ``prox_{r/tau}(w_i - A y_i / tau)``. Every problem is
    suitable, problems given by functions included.

    Parameters
    ----------
    tau : float
        Proximal weight, above 0, in units of the cost over squared parameters.

    References
    ----------
    Di Lorenzo, Scutari, "NEXT: in-network nonconvex optimization", IEEE TSIPN 2(2), 2016, section III; Scardapane,
    Di Lorenzo, Neural Networks 91, 2017, section 4 (full linearization).

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.local import Exact
    >>> from consensus.surrogates import FullLinearization
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=1, parameters=1)
    >>> w = np.array([[3.0]])
    >>> model = FullLinearization(tau=4.0).at(problem, w, problem.gradient(w))
    >>> Exact().solve(model, np.zeros((1, 1)), consensus.L2(0.0)).w.tolist()  # 3 - 6 / 4
    [[1.5]]
    """

    tau: float

    needs_model: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", _checks.number("tau", self.tau, above=0))

    def check(self, problem: BaseProblem) -> None:
        pass  # every problem is suitable

    def at(self, problem: BaseProblem, w: np.ndarray, gradient: np.ndarray) -> ProximalModel:
        dtype = problem.dtype
        return ProximalModel(problem, _checks.floats("w", w, dtype), _checks.floats("gradient", gradient, dtype), self.tau)


class LinearizedModel(NamedTuple):
    """Convex models ``g~_i`` for a block of agents: see :class:`PartialLinearization`.

    Attributes
    ----------
    problem : Linearizable
        The problem with the data.
    w : ndarray (agents, P)
        Centres w_i.
    gradient : ndarray (agents, P)
        Gradients of the costs at the centres.
    scale : float
        Factor s of the data term.
    tau : float
        Proximal weight.
    """

    problem: Linearizable
    w: np.ndarray
    gradient: np.ndarray
    scale: float
    tau: float


@dataclass(frozen=True)
class PartialLinearization(Surrogate):
    """The cost with the model f linearised inside the loss.

    With J_m the Jacobian of f(., x_m) at w_i,

        D_i(v)       = c sum_m l(d_m, f_m + J_m v)
        g~_i(w; w_i) = s D_i(w - w_i) - (s - 1) grad D_i(0) . (w - w_i) + tau/2 |w - w_i|^2 ,

    convex because l is, with gradient grad g_i(w_i) at w_i for every s.

    Parameters
    ----------
    tau : float
        Proximal weight, at least 0; above 0 unless the regularizer is an L2 with weight above 0.
    curvature : {"network", "local"}
        With ``local`` s = 1, the surrogate of [1]_. With ``network`` s = A, as in [2]_: an agent's curvature then stands for
        that of the whole network, and steps are on the scale of U.

    References
    ----------
    .. [1] Scardapane, Di Lorenzo, Neural Networks 91, 2017, section 4 (partial linearization).
    .. [2] Sun, Scutari, Daneshmand, "Distributed optimization based on gradient tracking revisited", SIAM J. Optim.
       32(2), 2022, section 2.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.local import Exact
    >>> from consensus.surrogates import PartialLinearization
    >>> shards = consensus.partition([[1.0], [2.0], [3.0]], [2.0, 4.0, 6.0], agents=1)
    >>> problem = consensus.Problem(consensus.Linear(1, bias=False), consensus.SquaredLoss(), shards)
    >>> w = np.array([[7.0]])
    >>> model = PartialLinearization(tau=1e-9).at(problem, w, problem.gradient(w))
    >>> Exact().solve(model, np.zeros((1, 1)), consensus.L2(0.0)).w.round(6).tolist()  # of a linear model the minimiser
    [[2.0]]
    """

    tau: float
    curvature: Literal["network", "local"] = "network"

    needs_model: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", _checks.number("tau", self.tau, least=0))
        _checks.choice("curvature", self.curvature, ("local", "network"))

    def check(self, problem: BaseProblem) -> None:
        if not isinstance(problem, Problem):
            raise TypeError(
                f"PartialLinearization needs a model to linearise, and {problem} has none: use FullLinearization(tau)"
            )
        check_convex("PartialLinearization", problem.loss)
        r = problem.regularizer
        if not hasattr(r, "quadratic"):
            raise TypeError(
                f"PartialLinearization needs {type(r).__name__}.quadratic, which is missing: set it to False, "
                "or derive the class from consensus.regularizers.base.Regularizer"
            )
        if self.tau + (r.strong_convexity if r.quadratic else 0) == 0:
            raise ValueError(f"tau must be > 0 with {r}, or the local problem need not be strongly convex; got {self.tau}")

    def at(self, problem: Problem, w: np.ndarray, gradient: np.ndarray) -> LinearizedModel:
        scale = float(problem.network_size) if self.curvature == "network" else 1.0
        w, gradient = _checks.floats("w", w, problem.dtype), _checks.floats("gradient", gradient, problem.dtype)
        return LinearizedModel(problem, w, gradient, scale, self.tau)


M = TypeVar("M", bound=SurrogateModel)


class BlockModel(NamedTuple, Generic[M]):
    """Surrogate models of a block of agents, which are minimised over each slice of coordinates by itself."""

    model: M  # of the split surrogate
    slices: tuple[slice, ...]

    @property
    def w(self) -> np.ndarray:
        return self.model.w


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
        return bool(_checks.completed(self.surrogate, SurrogateDefaults).needs_model)

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
