"""Sums of losses over samples, and their gradients, by one call of a kernel for a block of agents."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from consensus.kernels.kernel import Kernel


class Prepared(NamedTuple):
    """Functions of w (agents, P), each a single call of a kernel on fixed samples.

    ``gradient`` and ``value`` are of the sums over samples; ``average`` makes gradients with the scale and the ridge, and is
    None without a ridge.
    """

    gradient: Callable[[np.ndarray], np.ndarray]
    value: Callable[[np.ndarray], np.ndarray]
    average: Callable[[np.ndarray], np.ndarray] | None


class FusedSums(NamedTuple):
    """Values and gradients of ``scale sum_m c_m l(f(w, x_m), d_m) + ridge/2 |w|^2``, each in one pass over the samples.

    A model returns an instance from ``gradient_of``. Shapes: w (agents, P), x (agents, samples, features), targets d (agents,
    samples, 1), weights c (agents, samples).

    Attributes
    ----------
    gradients, values : Kernel
        Called as ``kernel(w, x, d, c, settings, out)``, with d (agents, samples) and the settings (scale, ridge, limit); they
        skip samples of weight zero at the end.
    limit : float
        Largest slope of the loss, if that is a setting.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> sums = consensus.SquaredLoss().fused_sums()
    >>> w, x, d, c = np.array([[1.0, 0.0]]), np.eye(2)[None], np.array([[[3.0], [4.0]]]), np.ones((1, 2))  # errors -2 and -4
    >>> gradients, values = np.empty((1, 2)), np.empty(1)
    >>> sums(w, x, d, c, gradients)
    >>> sums.value(w, x, d, c, values)
    >>> gradients.tolist(), values.tolist()
    ([[-2.0, -4.0]], [10.0])
    """

    gradients: Kernel
    values: Kernel
    limit: float = math.inf

    def __call__(
        self,
        w: np.ndarray,
        x: np.ndarray,
        d: np.ndarray,
        c: np.ndarray,
        out: np.ndarray,
        scale: float = 1.0,
        ridge: float = 0.0,
    ) -> None:
        """Write the gradients into ``out`` (agents, P), for parameters, features, targets and weights.

        ``scale`` and ``ridge`` are factors of the sum and of ``|w|^2 / 2``.
        """
        self.gradients.of(out.dtype)(np.ascontiguousarray(w), *self._samples(x, d, c, scale, ridge), out)

    def value(self, w: np.ndarray, x: np.ndarray, d: np.ndarray, c: np.ndarray, out: np.ndarray) -> None:
        """Write the sums of the losses into ``out`` (agents,).

        Parameters
        ----------
        w, x, d, c : ndarray
            Parameters, features, targets and weights.
        out : ndarray (agents,)
            The result.
        """
        self.values.of(out.dtype)(np.ascontiguousarray(w), *self._samples(x, d, c), out)

    def prepared(self, x: np.ndarray, d: np.ndarray, c: np.ndarray, scale: float, ridge: float | None) -> Prepared:
        """Return functions of w for fixed samples, so that a call costs little more than the kernel.

        Parameters
        ----------
        x, d, c : ndarray
            Features, targets and weights.
        scale, ridge : float
            Those of the average form; a ``ridge`` of None leaves that form out.

        Returns
        -------
        Prepared
            Gradient, value and gradient of the average form.
        """
        average = None if ridge is None else _of_w(self.gradients, *self._samples(x, d, c, scale, ridge))
        samples = self._samples(x, d, c)
        return Prepared(_of_w(self.gradients, *samples), _of_w(self.values, *samples), average)

    def _samples(
        self, x: np.ndarray, d: np.ndarray, c: np.ndarray, scale: float = 1.0, ridge: float = 0.0
    ) -> tuple[np.ndarray, ...]:
        """Return what both kernels take after w."""
        contiguous = np.ascontiguousarray
        return contiguous(x), contiguous(d[:, :, 0]), contiguous(c), _settings(scale, ridge, self.limit, x.dtype.char)


def _of_w(
    kernel: Kernel, x: np.ndarray, d: np.ndarray, c: np.ndarray, settings: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    function = kernel.of(x.dtype)
    return lambda w: function(np.ascontiguousarray(w), x, d, c, settings)


@functools.lru_cache(maxsize=64)
def _settings(scale: float, ridge: float, limit: float, dtype: str) -> np.ndarray:
    return np.array((scale, ridge, limit), dtype)
