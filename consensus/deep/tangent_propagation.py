"""A loss that also penalises derivatives of outputs along directions in the features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from consensus import _checks
from consensus.losses.arrays import scores, summed
from consensus.losses.base import Loss

if TYPE_CHECKING:
    import cvxpy


@dataclass(frozen=True)
class TangentPropagation(Loss):
    """``l(f, d) + (weight / 2) sum_t |D f v_t|^2`` for the outputs of a :class:`consensus.models.WithTangents`.

    Along directions v_t in which a sample's class does not change, such as derivatives of the rotated image, outputs are kept
    from changing: the network learns an invariance without more samples. `error` and targets are those of l.

    Parameters
    ----------
    loss : Loss
        The loss l of the model's own outputs f.
    weight : float
        Weight of the derivatives, at least 0.
    directions : int
        Number T of directions.

    Raises
    ------
    ValueError
        If ``weight`` or ``directions`` is out of range. A problem rejects models whose outputs are no (1 + T) equal parts.
    TypeError
        If ``loss`` is none.

    References
    ----------
    Simard, Victorri, LeCun, Denker, "Tangent Prop - a formalism for specifying selected invariances in an adaptive network",
    NIPS 1991.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> loss = consensus.TangentPropagation(consensus.SquaredLoss(), weight=0.1)
    >>> outputs = np.array([[1.0, 2.0]])  # f, and its derivative along one direction
    >>> loss.value(outputs, np.array([[3.0]]))
    array([2.2])
    """

    loss: Loss
    weight: float
    directions: int = 1

    separable: bool = field(init=False, repr=False)
    convex: bool = field(init=False, repr=False)
    quadratic: bool = field(init=False, repr=False)
    curvature_bound: float | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Loss):
            raise TypeError(f"loss must be a consensus.losses.Loss; got {_checks.shown(self.loss)}")
        _checks.count("directions", self.directions)
        object.__setattr__(self, "weight", _checks.number("weight of TangentPropagation", self.weight, least=0))
        bound = self.loss.curvature_bound
        settings = {"separable": self.loss.separable, "convex": self.loss.convex, "quadratic": self.loss.quadratic}
        for name, value in (settings | {"curvature_bound": None if bound is None else max(bound, self.weight)}).items():
            object.__setattr__(self, name, value)

    def _parts(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return f and the derivatives, of which there are T times as many."""
        outputs = scores(outputs)
        if outputs.shape[-1] % (1 + self.directions):
            raise ValueError(
                f"outputs must be f and derivatives along directions={self.directions}, {1 + self.directions} parts of equal "
                f"length; got shape {outputs.shape}"
            )
        own = outputs.shape[-1] // (1 + self.directions)
        return outputs[..., :own], outputs[..., own:]

    def value(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        f, derivatives = self._parts(outputs)
        return np.asarray(self.loss.value(f, targets) + f.dtype.type(self.weight / 2) * summed(np.square(derivatives)))

    def gradient(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        f, derivatives = self._parts(outputs)
        return np.concatenate([self.loss.gradient(f, targets), f.dtype.type(self.weight) * derivatives], axis=-1)

    def curvature(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        f, _ = self._parts(outputs)
        return self._blocks(scores(outputs), self.loss.curvature(f, targets), self.weight)

    def curvature_root(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        f, _ = self._parts(outputs)
        return self._blocks(scores(outputs), self.loss.curvature_root(f, targets), np.sqrt(self.weight))

    def _blocks(self, outputs: np.ndarray, own: np.ndarray, weight: float) -> np.ndarray:
        """Return the diagonal, or the matrices, with the block of l and a multiple of the identity."""
        if self.separable:
            found = np.full_like(outputs, weight)
            found[..., : own.shape[-1]] = own
            return found
        count = own.shape[-1]
        whole = np.zeros((*np.shape(outputs), np.shape(outputs)[-1]), own.dtype)
        np.einsum("...kk->...k", whole)[..., count:] = weight
        whole[..., :count, :count] = own
        return whole

    def label_weights(self, targets: np.ndarray) -> np.ndarray | float:
        return self.loss.label_weights(targets)

    def label_counts(self, targets: np.ndarray) -> np.ndarray | float:
        return self.loss.label_counts(targets)

    def expression(self, outputs: cvxpy.Expression, targets: np.ndarray, weights: np.ndarray) -> cvxpy.Expression:
        import cvxpy as cp

        own = outputs.shape[-1] // (1 + self.directions)
        derivatives = cp.sum(cp.square(outputs[:, own:]), axis=1)
        return self.loss.expression(outputs[:, :own], targets, weights) + self.weight / 2 * (weights @ derivatives)

    def error(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self.loss.error(self._parts(outputs)[0], targets)

    def check(self, targets: np.ndarray, outputs: int) -> None:
        own, rest = divmod(outputs, 1 + self.directions)
        if rest:
            raise ValueError(
                f"directions of TangentPropagation must be those of the model, models.WithTangents(model, directions), whose "
                f"{outputs} outputs are no {1 + self.directions} equal parts; got {self.directions}"
            )
        self.loss.check(targets, own)
