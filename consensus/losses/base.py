"""What every loss offers."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from consensus import _checks

if TYPE_CHECKING:
    import cvxpy


class Loss(ABC):
    """A convex function ``l(f, d)`` of a sample's outputs f, given its target d.

    Outputs have shape ``(..., samples, outputs)`` and targets the same (:class:`CrossEntropy`: one class a sample). The
    leading axes, if any, are agents. All methods are elementwise over samples and keep the dtype of the outputs.

    A loss of one's own needs :meth:`value`, :meth:`gradient` and :meth:`curvature`. What may be relied on and what is expected:

    - Results are new arrays, and arguments are left as they are. Several threads may call a loss at the same time.
    - Agents with fewer samples are filled up with samples whose features and targets are zero, which count with weight zero: a
      loss must be finite there. Local solvers try outputs far from any target: a value may be infinite there, never NaN.
    - Where r is not quadratic, local solvers take curvatures to be at most about one, as all losses of the package have them.
    - Its attributes are its settings: a run is resumed with a loss that has the same ones.

    The other methods have defaults: ``curvature_root`` is called by :class:`consensus.solvers.AdaptiveNEXT` and by local
    solvers, for whom a closed form saves a factorization a sample where the loss is not separable; ``check`` when a problem is
    made; ``error`` for a test set; ``expression`` by :class:`consensus.local.CVXPYSolver` alone.

    Attributes
    ----------
    separable : bool
        Whether l is a sum over outputs, so that its curvature is diagonal; True by default.
    quadratic : bool
        Whether the curvature is constant, so that local problems are linear systems; False by default.
    curvature_bound : float or None
        What no eigenvalue of the curvature exceeds, anywhere: steps are chosen by it. None, the default, where none is known.
    """

    separable: bool = True
    quadratic: bool = False
    curvature_bound: ClassVar[float | None] = None

    @abstractmethod
    def value(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """l(f, d) of each sample, shape (..., samples)."""

    @abstractmethod
    def gradient(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """dl/df, shape (..., samples, outputs); a new array."""

    @abstractmethod
    def curvature(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """d2l/df2: its diagonal (..., samples, outputs) if separable, else (..., samples, outputs, outputs)."""

    def curvature_root(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """A matrix L with L L' = d2l/df2, in the same form as :meth:`curvature`."""
        curvature = self.curvature(outputs, targets)
        if self.separable:
            return np.sqrt(curvature)
        values, vectors = np.linalg.eigh(curvature)
        return vectors * np.sqrt(np.maximum(values, 0))[..., None, :]

    def expression(self, outputs: "cvxpy.Expression", targets: np.ndarray, weights: np.ndarray) -> "cvxpy.Expression":
        """``sum_m weights_m l(f_m, d_m)`` as a CVXPY expression of ``outputs`` (samples, outputs), an affine expression.

        Raises
        ------
        TypeError
            Where a loss states none.
        """
        raise TypeError(f"{self} has no CVXPY expression: define one, or use consensus.local.Exact()")

    def error(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """What a test set reports of each sample (..., samples): here the squared error ``|f - d|^2``."""
        outputs, targets = aligned(outputs, targets)
        return np.square(outputs - targets).sum(axis=-1)

    def check(self, targets: np.ndarray, outputs: int) -> None:
        """Raise ``ValueError`` unless ``targets`` (samples, columns) suit a model with that number of outputs."""
        columns = columns_of(targets)
        if columns != outputs:
            raise ValueError(
                f"{type(self).__name__} needs a target for each of the model's {outputs} outputs; "
                f"got targets with {columns} columns"
            )


def columns_of(targets: np.ndarray) -> int:
    """How many columns ``targets`` (samples, columns) have."""
    targets = _checks.array("targets", targets)
    if targets.ndim < 1:
        raise ValueError(f"targets must have shape (samples, columns); got {targets.shape}")
    return targets.shape[-1]


def scores(outputs: Any) -> Any:
    """``outputs`` as an array of floats, or a CVXPY expression as it is; raise ``TypeError`` or ``ValueError`` otherwise."""
    if not hasattr(outputs, "is_affine"):
        outputs = _checks.floats("outputs", outputs)
    if outputs.ndim < 2 or not outputs.shape[-1]:
        raise ValueError(f"outputs must have shape (..., samples, outputs); got {outputs.shape}")
    return outputs


def aligned(outputs: Any, targets: np.ndarray) -> tuple[Any, np.ndarray]:
    """``(outputs, targets)``, the targets with the outputs' axes and dtype; what NumPy would broadcast is refused."""
    outputs, targets = scores(outputs), _checks.array("targets", targets)
    if targets.ndim == outputs.ndim - 1:
        targets = targets[..., None]
    if targets.shape != outputs.shape:
        raise ValueError(f"targets must have the shape of the outputs, {outputs.shape}; got {targets.shape}")
    if isinstance(outputs, np.ndarray):  # a CVXPY expression has no dtype
        targets = targets.astype(outputs.dtype, copy=False)
    return outputs, targets
