"""The multilayer perceptron."""

from collections.abc import Sequence

from consensus import _checks
from consensus.models.activations import ACTIVATIONS
from consensus.models.layers import Layered


class MLP(Layered):
    """A multilayer perceptron: ``h_l = s(h_{l-1} W_l + b_l)``, the last layer without the activation s.

    Parameters
    ----------
    widths : sequence of int
        ``[inputs, hidden, ..., outputs]``.
    activation : {"tanh", "relu", "sigmoid", "softplus", "quadratic"}
        Activation of the hidden layers; ``quadratic`` is a^2. The theory of the methods
        asks for differentiable ones (``relu`` is not).

    Notes
    -----
    The parameter vector holds layer after layer W_l (inputs, outputs) row by row, then b_l.

    ``init`` draws normal W_l with variance gain * 2 / (inputs + outputs), and b_l = 0; the gain is 2 for relu and 1 otherwise.

    References
    ----------
    Glorot, Bengio, "Understanding the difficulty of training deep feedforward neural networks", AISTATS 2010, eq. (12), for
    the start; He, Zhang, Ren, Sun, "Delving deep into rectifiers", ICCV 2015, for its gain.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import MLP
    >>> model = MLP([13, 20, 1])
    >>> model.parameters
    301
    >>> model.predict(np.zeros((10, 301)), np.ones((10, 5, 13))).shape
    (10, 5, 1)
    """

    def __init__(self, widths: Sequence[int], activation: str = "tanh") -> None:
        if _checks.dense("widths", widths).ndim != 1 or len(widths) < 2:
            raise ValueError(f"widths must be [inputs, hidden, ..., outputs]; got {widths!r}")
        widths = [_checks.count(f"widths[{layer}]", width) for layer, width in enumerate(widths)]
        self.activation = _checks.choice("activation", activation, tuple(ACTIVATIONS))
        super().__init__(widths, True, ACTIVATIONS[activation])

    def __repr__(self) -> str:
        return f"MLP({list(self.widths)}, activation={self.activation!r})"
