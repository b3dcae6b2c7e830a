"""The linear model."""

import numpy as np

from consensus import _checks
from consensus.models.layers import Layered


class Linear(Layered):
    """``f = x W + b``: W (features, outputs) row by row, then b (outputs,), in the parameter vector.

    Parameters
    ----------
    features, outputs : int
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

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """Zeros (P,), the customary start of a convex problem; ``rng`` is not used."""
        return np.zeros(self.parameters)
