"""The convolutional network, natively: linear maps and their adjoints."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from consensus import _checks
from consensus.deep.convolutional_linearized import ConvolutionalLinearization
from consensus.deep.image_maps import Patches, Squares
from consensus.models.activations import ACTIVATIONS
from consensus.models.layers import Layered


class Convolutional(Layered):
    """A convolutional network: convolutions with zeros beyond the edges, an activation s, means over squares; a linear head.

    With the linear map P from an image to the patches around its pixels and the map M to means over squares,

        h_l = M s(P(h_{l-1}) W_l + b_l)    for each layer of filters,        f = h_L W + b  with the pixels of h_L in a row.

    Products with the Jacobian J and its transpose are compositions of these maps and of their adjoints [1]_, so that
    <J v, u> = <v, J' u> holds layer by layer.

    Parameters
    ----------
    shape : tuple of int
        (channels, height, width) of a sample.
    filters : sequence of int
        Filters of each convolution.
    outputs : int
        Number of outputs of a sample.
    kernel : int
        Side of the kernels, an odd number.
    pool : int
        Side of the squares after each convolution, which divides height and width; 1 for none.
    activation : {"tanh", "relu", "sigmoid", "softplus", "quadratic"}
        Activation of the convolutions; ``quadratic`` is a^2. The theory of the methods
        asks for differentiable ones (``relu`` is not).

    Notes
    -----
    The parameter vector holds, layer after layer, W_l (kernel * kernel * channels, filters) row by row, its rows by (row,
    column, channel) of the kernel, then b_l; then the head's W, its rows by (row, column, filter) of the last image, and b.

    ``init`` draws normal W_l with variance gain * 2 / (rows + columns), and b_l = 0; the gain is 2 for relu and 1 otherwise.

    References
    ----------
    .. [1] Caterini, Chang, "A geometric framework for convolutional neural networks", arXiv 1608.04374, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.models import Convolutional
    >>> model = Convolutional((1, 8, 8), filters=[4, 8], outputs=10)
    >>> model.parameters
    666
    >>> model.predict(np.zeros((10, 666)), np.ones((10, 5, 1, 8, 8))).shape
    (10, 5, 10)
    """

    _linearization = ConvolutionalLinearization

    def __init__(
        self,
        shape: tuple[int, int, int],
        filters: Sequence[int],
        outputs: int,
        kernel: int = 3,
        pool: int = 2,
        activation: str = "tanh",
    ) -> None:
        features = _checks.shape("shape", shape)
        if len(features) != 3:
            raise ValueError(f"shape must be (channels, height, width) of a sample; got {shape}")
        if _checks.dense("filters", filters).ndim != 1 or len(filters) < 1:
            raise ValueError(f"filters must be one number or more, those of each convolution; got {filters!r}")
        self.filters = tuple(_checks.count(f"filters[{layer}]", count) for layer, count in enumerate(filters))
        self.kernel, self.pool = _checks.count("kernel", kernel), _checks.count("pool", pool)
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, so that a patch has a pixel in its middle; got {kernel}")
        self.activation = _checks.choice("activation", activation, tuple(ACTIVATIONS))
        channels, height, width = features
        self._maps: list[tuple[Patches, Squares]] = []
        for inputs in (channels, *self.filters[:-1]):
            if height % self.pool or width % self.pool:
                raise ValueError(
                    f"pool must divide height and width of every layer's image; got {pool} for {height} x {width}, "
                    f"layer {len(self._maps)} of {len(self.filters)}"
                )
            self._maps.append((Patches(height, width, inputs, self.kernel), Squares(height, width, self.pool)))
            height, width = height // self.pool, width // self.pool
        self._last = height, width, self.filters[-1]
        ends = math.prod(self._last), _checks.count("outputs", outputs)
        sizes = [(patches.length, count) for (patches, _), count in zip(self._maps, self.filters, strict=True)]
        numbers = [(p.height * p.width * length, p.height * p.width * k) for (p, _), (length, k) in zip(self._maps, sizes)]
        widths = [math.prod(features), *itertools.chain(*numbers), *ends]
        super().__init__(widths, True, ACTIVATIONS[activation], [*sizes, ends])
        self.features = features

    def __repr__(self) -> str:
        return (
            f"Convolutional({self.features}, {list(self.filters)}, {self.outputs}, kernel={self.kernel}, pool={self.pool}, "
            f"activation={self.activation!r})"
        )

    def _rows(self, layer: int, h: np.ndarray) -> np.ndarray:
        if layer == len(self._maps):
            return h.reshape(*h.shape[:-3], -1)
        return self._maps[layer][0].of(np.moveaxis(h, -3, -1) if layer == 0 else h)  # features have channels first

    def _rows_adjoint(self, layer: int, u: np.ndarray) -> np.ndarray:
        if layer == len(self._maps):
            return u.reshape(*u.shape[:-1], *self._last)
        found = self._maps[layer][0].adjoint(u)
        return np.moveaxis(found, -1, -3) if layer == 0 else found

    def _joined(self, layer: int, inputs: np.ndarray | None, h: np.ndarray) -> np.ndarray:
        return self._maps[layer][1].of(h)

    def _joined_adjoint(self, layer: int, u: np.ndarray) -> tuple[None, np.ndarray]:
        return None, self._maps[layer][1].adjoint(u)
