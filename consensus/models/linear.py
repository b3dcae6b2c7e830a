"""The linear model."""

import numpy as np

from consensus import _checks, kernels
from consensus.models.layers import Layered
from consensus.models.loss_methods import method_of


class Linear(Layered):
    """``f = x W + b``: W (features, outputs) row by row, then b (outputs,), in the parameter vector.

    Parameters
    ----------
    features, outputs : int
        Numbers of features and outputs of a sample.
    bias : bool
        Whether there is a b; it is a parameter like the others, and is regularized like them.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import Linear
    >>> Linear(2).predict(np.array([1.0, 2.0, 0.5]), np.array([[1.0, 1.0], [0.0, 3.0]]))
    array([[3.5],
           [6.5]])
    """

    jacobian_is_constant = True  # so that local solvers keep its factors

    def __init__(self, features: int, outputs: int = 1, bias: bool = True) -> None:
        widths = (_checks.count("features", features), _checks.count("outputs", outputs))
        super().__init__(widths, _checks.flag("bias", bias), None)

    def __repr__(self) -> str:
        return f"Linear({self.features}, outputs={self.outputs}, bias={self.bias})"

    def design(self, x: np.ndarray) -> np.ndarray:
        """Return the design matrices.

        Parameters
        ----------
        x : ndarray (agents, samples, features)
            Features.

        Returns
        -------
        ndarray (agents, samples, m)
            The features, with a column of ones if there is a bias.
        """
        x = _checks.floats("x", x)
        if x.ndim != 3:
            raise ValueError(f"x must have shape (agents, samples, features); got {x.shape}")
        return np.concatenate([x, np.ones((*x.shape[:2], 1), x.dtype)], axis=2) if self.bias else x

    def gradient_of(self, loss: object) -> kernels.FusedSums | None:
        """Return the compiled sums of a loss.

        Parameters
        ----------
        loss : Loss
            Any loss.

        Returns
        -------
        FusedSums or None
            None if nothing is compiled, the loss has no such sums, or there are several outputs.
        """
        if type(self) is not Linear or self.outputs > 1 or kernels.level() is None:
            return None
        fused = method_of(loss, "fused_sums", "value", "gradient")
        return None if fused is None else fused()

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """Return the customary start of a convex problem, zero.

        Parameters
        ----------
        rng : numpy.random.Generator
            Not used.

        Returns
        -------
        ndarray (P,)
            Zeros.
        """
        return np.zeros(self.parameters)
