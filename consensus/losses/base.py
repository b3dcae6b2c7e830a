"""The base class of losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from consensus import kernels
from consensus.losses.arrays import aligned, columns_of, summed

if TYPE_CHECKING:
    import cvxpy
    import jax
    from jaxtyping import Float, Real

Outputs: TypeAlias = "Float[np.ndarray, '*agents samples outputs']"
Targets: TypeAlias = "Real[np.ndarray, '*agents samples columns']"
Curvatures: TypeAlias = "Float[np.ndarray, '*agents samples outputs'] | Float[np.ndarray, '*agents samples outputs outputs']"


class LossDefaults:
    """Members of every :class:`Loss` that one of another class need not have."""

    convex: bool = True
    regression: bool = False
    over: Literal["samples", "batch"] = "samples"
    least: int = 1  # samples of an agent that a loss of a batch needs
    curvature_bound: float | None = None
    settled: Callable[[np.ndarray, int, tuple[int, ...]], Any] | None = None  # it by all targets, outputs and their shape

    def label_weights(self, targets: Targets) -> Float[np.ndarray, "*agents samples"] | float:
        """Return the weight of each sample in a mean loss, by whose sum over the network ``reduction="mean"`` divides.

        Parameters
        ----------
        targets : ndarray
            As in `value`.

        Returns
        -------
        ndarray (..., samples) or float
            Weights of at least 0; a number, by default 1, if it is that of every possible sample.
        """
        return 1.0

    def label_counts(self, targets: Targets) -> Float[np.ndarray, "*agents samples"] | float:
        """Return the number of labels of each sample that `error` counts: its weight in the mean error of a test set.

        Parameters
        ----------
        targets : ndarray
            As in `value`.

        Returns
        -------
        ndarray (..., samples) or float
            Numbers of labels; a number, by default 1, if it is that of every possible sample.
        """
        return 1.0


class Loss(LossDefaults, ABC):
    """A function ``l(f, d)`` of a sample's outputs f and its target d, convex in f unless it says otherwise.

    A subclass defines `value`, `gradient` and `curvature`; the other methods have defaults. `curvature_root` is called by
    :class:`consensus.solvers.AdaptiveNEXT` and by local solvers: a closed form saves them a factorization per sample if the
    loss is not separable. `check` is called when a problem is made, `error` for test sets, `expression` by
    :class:`consensus.local.CVXPYSolver`. :func:`consensus.testing.check_loss` tries one of your own.

    Attributes
    ----------
    separable : bool
        Whether l is a sum over outputs, so that its curvature is diagonal. Default True.
    convex : bool
        Whether l is convex in the outputs. Default True. If it is False, solvers that use gradients only take the loss, and the
        curvature is asked for by nobody else.
    quadratic : bool
        Whether the curvature is constant, so that local problems are linear systems. Default False.
    over : {"samples", "batch"}
        Whether l is a loss of each sample by itself, the default, or of all samples of a call, as a partial likelihood is. In
        the second case calls have the samples of one agent, without padding, and values are parts of its loss.
    curvature_bound : float or None
        Upper bound on the eigenvalues of the curvature, from which step sizes are chosen. None, the default, if none is known.

    regression : bool
        Whether targets are numbers, not codes of classes, so that shards of classes are refused. Default False.

    Notes
    -----
    - Methods work sample by sample and keep the dtype of the outputs. Leading axes, if any, are agents.
    - Results are new arrays, and arguments are not changed. Several threads may call a loss at the same time.
    - Smaller shards are padded with samples of weight zero, whose features and targets are zero: a loss must be finite there.
      Local solvers evaluate it at outputs far from any target: values and derivatives may be infinite there, but not NaN.
    - Unless the regularizer is quadratic, local solvers expect curvatures of at most ``curvature_bound``, or of about one if
      there is none.
    - A run can be resumed with a loss of the same attributes.

    Examples
    --------
    >>> import consensus
    >>> class Quartic(consensus.losses.Loss):
    ...     def value(self, outputs, targets): return ((outputs - targets) ** 4).sum(axis=-1) / 4
    ...     def gradient(self, outputs, targets): return (outputs - targets) ** 3
    ...     def curvature(self, outputs, targets): return 3 * (outputs - targets) ** 2
    >>> consensus.testing.check_loss(Quartic(), targets=[0.0, 1.0, 2.0]).errors["gradient is the slope of value"] < 1e-7
    True
    """

    separable: bool = True
    quadratic: bool = False

    @abstractmethod
    def value(self, outputs: Outputs, targets: Targets) -> Float[np.ndarray, "*agents samples"]:
        """Return the loss of each sample.

        Parameters
        ----------
        outputs : ndarray (..., samples, outputs)
            The outputs f.
        targets : ndarray (..., samples, outputs)
            The targets d; for :class:`CrossEntropy` (..., samples, 1), the class of each sample.

        Returns
        -------
        ndarray (..., samples)
            Values l(f, d).
        """

    @abstractmethod
    def gradient(self, outputs: Outputs, targets: Targets) -> Outputs:
        """Return the gradient dl/df of each sample's loss.

        Parameters
        ----------
        outputs, targets : ndarray
            As in `value`.

        Returns
        -------
        ndarray (..., samples, outputs)
            Gradients with respect to the outputs.
        """

    @abstractmethod
    def curvature(self, outputs: Outputs, targets: Targets) -> Curvatures:
        """Return the second derivative of each sample's loss with respect to the outputs.

        Parameters
        ----------
        outputs, targets : ndarray
            As in `value`.

        Returns
        -------
        ndarray (..., samples, outputs), or (..., samples, outputs, outputs)
            The diagonal if the loss is separable, else the matrix.
        """

    def curvature_root(self, outputs: Outputs, targets: Targets) -> Curvatures:
        """Return a matrix L with ``L L'`` equal to the curvature.

        Parameters
        ----------
        outputs, targets : ndarray
            As in `value`.

        Returns
        -------
        ndarray (..., samples, outputs), or (..., samples, outputs, outputs)
            In the form of `curvature`.
        """
        curvature = self.curvature(outputs, targets)
        if self.separable:
            return np.sqrt(curvature)
        values, vectors = np.linalg.eigh(curvature)
        return cast(np.ndarray, vectors * np.sqrt(np.maximum(values, 0))[..., None, :])

    def jax_gradient(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        """Return the gradient of one agent's losses by JAX, which :class:`consensus.models.JAX` compiles with the model.

        Parameters
        ----------
        outputs : jax.Array (samples, outputs)
            The outputs f.
        targets : jax.Array (samples, columns)
            The targets d.

        Returns
        -------
        jax.Array (samples, outputs)
            As `gradient`.
        """
        raise NotImplementedError

    def fused_sums(self) -> kernels.FusedSums | None:
        """Return kernels for the loss of a linear model with one output.

        Returns
        -------
        FusedSums or None
            None, the default, if there are none.
        """
        return None

    def expression(self, outputs: cvxpy.Expression, targets: np.ndarray, weights: np.ndarray) -> cvxpy.Expression:
        """Return the weighted sum of the losses as a CVXPY expression.

        Parameters
        ----------
        outputs : cvxpy.Expression (samples, outputs)
            An affine expression.
        targets : ndarray (samples, outputs)
            The targets d.
        weights : ndarray (samples,)
            Weights, at least 0.

        Returns
        -------
        cvxpy.Expression
            The sum over samples m of ``weights_m l(f_m, d_m)``.

        Raises
        ------
        TypeError
            If the loss defines no expression.
        """
        raise TypeError(f"{self} has no CVXPY expression: define one, or use consensus.local.Exact()")

    def error(self, outputs: Outputs, targets: Targets) -> Float[np.ndarray, "*agents samples"]:
        """Return the error that is reported for each sample of a test set, by default ``|f - d|^2``.

        Parameters
        ----------
        outputs, targets : ndarray
            As in `value`.

        Returns
        -------
        ndarray (..., samples)
            Errors: the fraction of wrong labels for losses of classification.
        """
        outputs, targets = aligned(outputs, targets)
        return summed(np.square(outputs - targets))

    def check(self, targets: np.ndarray, outputs: int) -> None:
        """Check that targets suit the loss and a model's number of outputs.

        Parameters
        ----------
        targets : ndarray (samples, columns)
            All targets.
        outputs : int
            Number of outputs of the model.

        Raises
        ------
        ValueError
            If they do not.
        """
        columns = columns_of(targets)
        if columns != outputs:
            wanted = f"{type(self).__name__} needs a target for each of the model's {outputs} outputs"
            raise ValueError(f"{wanted}; got targets with {columns} columns")
