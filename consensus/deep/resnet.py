"""The residual network."""

import numpy as np

from consensus import _checks
from consensus.deep.resnet_linearized import ResidualLayers, ResidualLinearization
from consensus.models.activations import ACTIVATIONS


class ResNet(ResidualLayers):
    """A residual network of fully connected layers: an ordinary differential equation, solved by forward Euler.

    With the activation s, L layers and the step h, from the features x to the outputs f,

        u_0 = s(x W_0 + b_0),     u_k = u_{k-1} + h s(u_{k-1} W_k + b_k)  for k = 1, ..., L,     f = u_L W_{L+1} + b_{L+1} .

    Parameters
    ----------
    features : int
        Number of features of a sample.
    width : int
        Length of the states u_k.
    layers : int
        L, the residual layers, without the opening one and the linear head.
    outputs : int
        Number of outputs of a sample.
    step : float, optional
        Step h > 0 of forward Euler; by default 1 / L: more layers then solve the same equation over a unit of time more finely.
    activation : {"tanh", "relu", "sigmoid", "softplus", "quadratic"}
        Activation of all layers but the head; ``quadratic`` is a^2. The theory of the methods
        asks for differentiable ones (``relu`` is not).

    Notes
    -----
    The parameter vector holds layer after layer W_k (inputs, outputs) row by row, then b_k.

    ``init`` draws normal W_k with variance gain * 2 / (inputs + outputs), and b_k = 0; the gain is 2 for relu and 1 otherwise.

    References
    ----------
    He, Zhang, Ren, Sun, "Deep residual learning for image recognition", CVPR 2016; Haber, Ruthotto, "Stable architectures for
    deep neural networks", Inverse Problems, 2018, for the differential equation.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.models import ResNet
    >>> model = ResNet(features=13, width=8, layers=100, outputs=1)
    >>> model, model.parameters
    (ResNet(13, width=8, layers=100, outputs=1, step=0.01, activation='tanh'), 7321)
    >>> model.predict(np.zeros((10, 7321)), np.ones((10, 5, 13))).shape
    (10, 5, 1)
    """

    _linearization = ResidualLinearization

    def __init__(
        self, features: int, width: int, layers: int, outputs: int, step: float | None = None, activation: str = "tanh"
    ) -> None:
        self.width, self.layers = _checks.count("width", width), _checks.count("layers", layers)
        ends = _checks.count("features", features), _checks.count("outputs", outputs)
        self.step = 1 / self.layers if step is None else _checks.number("step", step, above=0)
        self.activation = _checks.choice("activation", activation, tuple(ACTIVATIONS))
        super().__init__([ends[0], *[self.width] * (self.layers + 1), ends[1]], True, ACTIVATIONS[activation])

    def __repr__(self) -> str:
        return (
            f"ResNet({self.features}, width={self.width}, layers={self.layers}, outputs={self.outputs}, step={self.step!r}, "
            f"activation={self.activation!r})"
        )

    def _joined(self, layer: int, inputs: np.ndarray | None, h: np.ndarray) -> np.ndarray:
        if layer == 0:
            return h
        state = self.step * h
        if inputs is not None:
            state += inputs
        return state

    def _joined_adjoint(self, layer: int, u: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        return (None, u) if layer == 0 else (u, self.step * u)
