"""Muon: momenta of matrices, orthogonalised by Newton-Schulz iterations."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeAlias, cast

import numpy as np

from consensus import _checks
from consensus._arrays.parallel import for_chunks
from consensus._arrays.rows import combined, empty
from consensus.directions.adam import Adam, AdamState, AdamW, as_decay, check_decay, decayed
from consensus.directions.base import Direction
from consensus.problems import BaseProblem
from consensus.regularizers import L2

Chosen: TypeAlias = Callable[[str, tuple[int, ...]], bool]  # of an array's name and shape


class _Named(Protocol):
    """A named array in the parameter vector, as in :class:`consensus.Model`'s ``layout``."""

    @property
    def name(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def outputs(self) -> int: ...


class Place(NamedTuple):
    """Place of a layer's weights in the parameter vector: from ``start`` on, (rows, columns) row by row.

    Rows are outputs, or with ``transposed`` inputs.
    """

    start: int
    rows: int
    columns: int
    transposed: bool

    def read(self, w: np.ndarray) -> np.ndarray:
        """Return the weights (agents, outputs, inputs) out of ``w`` (agents, P), a new array or a view."""
        found = w[:, self.start : self.start + self.rows * self.columns].reshape(len(w), self.rows, self.columns)
        return found.swapaxes(1, 2) if self.transposed else found

    def write(self, w: np.ndarray, weights: np.ndarray) -> None:
        """Write the weights (agents, outputs, inputs) into ``w`` (agents, P)."""
        found = weights.swapaxes(1, 2) if self.transposed else weights
        w[:, self.start : self.start + self.rows * self.columns] = found.reshape(len(w), self.rows * self.columns)


class Weights(NamedTuple):
    """The places of the layers' weights, and the slices of all other parameters."""

    matrices: tuple[Place, ...]
    others: tuple[slice, ...]

    def taken(self, w: np.ndarray) -> np.ndarray:
        """Return the other parameters (agents, others) out of ``w`` (agents, P)."""
        return np.concatenate([w[:, :0], *(w[:, part] for part in self.others)], axis=1)

    def put(self, w: np.ndarray, others: np.ndarray) -> None:
        """Write the other parameters into ``w`` (agents, P)."""
        start = 0
        for part in self.others:
            end = start + part.stop - part.start
            w[:, part] = others[:, start:end]
            start = end


def weights_of(problem: BaseProblem, chosen: Chosen | None = None, whole: bool = False) -> Weights:
    """Return where the layers' weights of a problem's model are, of all or of the ``chosen`` ones.

    ``whole`` asks whether the layout covers all parameters.

    Raises
    ------
    TypeError
        If there is no model, or it has no ``layout``.
    ValueError
        If the layout does not cover the parameters.
    """
    model = problem.model
    layout: tuple[_Named, ...] | None = getattr(model, "layout", None)
    if layout is None:
        lacks = f"{problem} has no model" if model is None else f"{model} has none"
        raise TypeError(
            f"Muon needs the shapes of the layers' weights, the model's layout, and {lacks}: take MLP, Linear, models.Torch or "
            "models.JAX, give your model a layout (see consensus.Model), or use consensus.directions.AdamW"
        )
    covered = sum(math.prod(part.shape) for part in layout) if whole else problem.parameters
    if covered != problem.parameters:
        raise ValueError(f"the layout of {model} must cover its {problem.parameters} parameters; it covers {covered}")
    matrices, others = [], []
    for part in layout:
        size = math.prod(part.shape)
        if len(part.shape) < 2 or not (chosen is None or chosen(part.name, part.shape)):
            others.append(slice(part.start, part.start + size))
        else:
            outputs = part.shape[part.outputs]
            inputs, last = size // outputs, part.outputs != 0
            matrices.append(Place(part.start, *((inputs, outputs) if last else (outputs, inputs)), last))
    return Weights(tuple(matrices), tuple(others))


def orthogonalized(b: np.ndarray, coefficients: tuple[float, float, float], steps: int, eps: float) -> np.ndarray:
    """Return approximations of ``U V'`` for matrices ``B = U S V'``, as :class:`consensus.directions.Muon` describes them.

    Parameters
    ----------
    b : ndarray (agents, m, k)
        The matrices.
    coefficients : (float, float, float)
        a, b and c of a step.
    steps : int
        Number of steps.
    eps : float
        Least number by which a matrix is divided.

    Returns
    -------
    ndarray (agents, m, k)
        The factors, a new array.
    """
    agents, m, k = b.shape
    norms = np.linalg.norm(b.reshape(agents, m * k), axis=1)
    x = np.copy(b.swapaxes(1, 2) if m > k else b, order="C") / np.maximum(norms, eps)[:, None, None]
    one, cube, fifth = coefficients
    for _ in range(steps):
        gram = x @ x.swapaxes(1, 2)
        x = one * x + (cube * gram + fifth * (gram @ gram)) @ x
    return cast(np.ndarray, x.swapaxes(1, 2) if m > k else x)


_ADAMW = AdamW()


class MuonState(NamedTuple):
    """Momenta m (agents, P), and the state of AdamW for the parameters that are no matrices."""

    m: np.ndarray
    others: AdamState


@dataclass(frozen=True)
class Muon(Direction):
    """Step along the nearest semi-orthogonal matrix of the momentum, for each layer's weights; AdamW for all other parameters.

    With the gradient G of a layer's weights W, (outputs, inputs), and M_0 = 0,

        M+ = mu M + (1 - mu) G ,    B = (1 - mu) G + mu M+   (B = M+ without Nesterov) ,

        d = s NS(B) + weight_decay W ,    s = max(1, outputs / inputs)^(1/2) .

    NS is some steps of Newton and Schulz for U V' of the singular value decomposition ``B = U S V'``. From ``X = B / |B|_F``,
    with the shorter side as rows, a step is ``X+ = a X + b (X X') X + c (X X')^2 X``. Weights of more than two axes, as of a
    convolution, count as a matrix with a row for each output. It is the rule of ``torch.optim.Muon``, which computes NS in
    bfloat16; here it is in the dtype of the problem. ``GradientTracking(alpha, direction=Muon(nesterov=False, scale="none",
    weight_decay=0.0))`` is DeMuon.

    Parameters
    ----------
    momentum : float
        Weight mu of the past, in [0, 1).
    nesterov : bool
        Whether B is Nesterov's.
    weight_decay : float or L2
        Decay of the layers' weights: see :class:`AdamW`.
    scale : {"original", "match_rms_adamw", "none"}
        The factor s: as above, ``0.2 max(outputs, inputs)^(1/2)``, or 1.
    coefficients : (float, float, float)
        The numbers a, b and c.
    eps : float
        Least number by which B is divided, > 0.
    steps : int
        Number of steps of Newton and Schulz.
    layers : callable, optional
        Takes the name and the shape of an array of parameters, as in :meth:`consensus.L2.by_name`, to whether it is a layer's
        weights; by default all arrays with more than one axis are. Embeddings and last layers are better left to AdamW.
    others : AdamW
        The rule for all other parameters, such as biases and norms.
    others_step : float
        Their step as a multiple of the solver's, > 0.

    Raises
    ------
    TypeError
        When a run begins, if the problem's model does not say which of its parameters are a layer's weights, by ``layout``:
        :class:`consensus.Model` describes it.

    References
    ----------
    Jordan, Jin, Boza, You, Cesista, Newhouse, Bernstein, "Muon: an optimizer for hidden layers in neural networks", 2024; Liu
    et al., "Muon is scalable for LLM training", arXiv 2502.16982, 2025, for "match_rms_adamw"; He, Ren, Mao, Larsson, "DeMuon:
    a decentralized Muon for matrix optimization over graphs", arXiv 2510.01377, 2025.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.directions import Muon
    >>> data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    >>> shards = consensus.partition(data.X, data.y, agents=5)
    >>> problem = consensus.Problem(consensus.MLP([10, 8, 1]), consensus.SquaredLoss(), shards)
    >>> solver = consensus.solvers.GradientTracking(0.01, direction=Muon(weight_decay=0.0))
    >>> history = consensus.solve(problem, topologies.ring(5), solver, rounds=60).history
    >>> bool(history["objective"][-1] < 0.7 * history["objective"][0])
    True
    """

    scale_free = True

    momentum: float = field(default=0.95, metadata={"least": 0, "below": 1})
    nesterov: bool = True
    weight_decay: float | L2 = 0.1
    scale: Literal["original", "match_rms_adamw", "none"] = "original"
    coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315)
    eps: float = field(default=1e-7, metadata={"above": 0})
    steps: int = field(default=5, metadata={"count": 1})
    layers: Chosen | None = None
    others: AdamW = _ADAMW
    others_step: float = field(default=1.0, metadata={"above": 0})

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "weight_decay", as_decay(self.weight_decay, "Muon"))
        _checks.choice("scale of Muon", self.scale, ("original", "match_rms_adamw", "none"))
        if not isinstance(self.coefficients, tuple | list) or len(self.coefficients) != 3:
            raise ValueError(f"coefficients of Muon must be three numbers (a, b, c); got {_checks.shown(self.coefficients)}")
        numbers = [_checks.number(f"coefficients[{place}] of Muon", one) for place, one in enumerate(self.coefficients)]
        object.__setattr__(self, "coefficients", tuple(numbers))
        if self.layers is not None and not callable(self.layers):
            raise TypeError(f"layers of Muon must be a function (name, shape) -> bool; got {_checks.shown(self.layers)}")
        if not isinstance(self.others, AdamW):
            raise TypeError(f"others of Muon must be an AdamW; got {_checks.shown(self.others)}")

    def check(self, problem: BaseProblem) -> None:
        weights_of(problem, self.layers, whole=True)
        for decay in (self.weight_decay, self.others.weight_decay):
            check_decay(decay, problem, "Muon")

    def init(self, problem: BaseProblem, w: np.ndarray) -> MuonState:
        return MuonState(np.zeros_like(w), self.others.init(problem, weights_of(problem, self.layers).taken(w)))

    def step(self, problem: BaseProblem, state: MuonState, gradient: np.ndarray, w: np.ndarray) -> tuple[MuonState, np.ndarray]:
        weights, mu = weights_of(problem, self.layers), self.momentum
        m = combined(mu, state.m, 1 - mu, gradient)
        d = combined(1 - mu, gradient, mu, m) if self.nesterov else m
        d = decayed(self._orthogonal(d, weights), self.weight_decay, w)
        decay, vectors = self.others.weight_decay, weights.taken(w)
        slope = decay * vectors if isinstance(decay, float) else weights.taken(decay.gradient(w))  # an L2 has P weights
        others, own = Adam.step(self.others, problem, state.others, weights.taken(gradient), vectors)
        weights.put(d, self.others_step * (own + slope))
        return MuonState(m, others), d

    def _orthogonal(self, b: np.ndarray, weights: Weights) -> np.ndarray:
        """Return ``s NS(B)`` of each layer in its place, and zeros elsewhere."""
        result = empty(b.shape, b.dtype) if type(b) is np.ndarray else np.empty_like(b)  # on a device
        for part in weights.others:
            result[:, part] = 0

        def chunk(rows: slice) -> None:
            for place in weights.matrices:
                matrices = place.read(b[rows])
                d = orthogonalized(matrices, self.coefficients, self.steps, self.eps)
                place.write(result[rows], self._factor(*matrices.shape[1:]) * d)

        for_chunks(chunk, len(b), 4 * b[0].nbytes)
        return result

    def _factor(self, outputs: int, inputs: int) -> float:
        if self.scale == "original":
            return math.sqrt(max(1, outputs / inputs))
        return 0.2 * math.sqrt(max(outputs, inputs)) if self.scale == "match_rms_adamw" else 1.0
