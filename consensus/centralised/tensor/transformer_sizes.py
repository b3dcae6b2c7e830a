"""The sizes of a transformer block, and where its parameters are."""

from typing import Generic, NamedTuple, TypeVar

import numpy as np

from consensus import _checks
from consensus.models.activations import ACTIVATIONS

T = TypeVar("T")


class Arrays(NamedTuple, Generic[T]):
    """One entry for each layer normalisation and linear map of a transformer block, in their order."""

    before_attention: T
    attention: T
    projection: T
    before_hidden: T
    hidden: T
    outputs: T


class TransformerSizes(NamedTuple):
    """Columns of a token, heads of the attention, hidden units, tokens of a sequence, and the name of the activation."""

    width: int
    heads: int
    hidden: int
    sequence: int
    activation: str

    @classmethod
    def checked(cls, width: int, heads: int, hidden: int, sequence: int, activation: str) -> "TransformerSizes":
        """Return the sizes; raise ``ValueError`` if they do not fit together."""
        _checks.choice("activation", activation, tuple(ACTIVATIONS))
        for name, value in (("width", width), ("heads", heads), ("hidden", hidden), ("sequence", sequence)):
            _checks.count(name, value)
        sizes = cls(int(width), int(heads), int(hidden), int(sequence), activation)
        if sizes.width % sizes.heads:
            raise ValueError(f"width must be a multiple of {sizes.heads}, the number of heads; got {sizes.width}")
        return sizes

    @property
    def features(self) -> int:
        """Numbers of a sequence, which is one sample."""
        return self.sequence * self.width

    @property
    def outputs(self) -> int:
        """Numbers of a sequence."""
        return self.features

    @property
    def parameters(self) -> int:
        """P."""
        return sum(int(np.prod(shape)) for shape in self._shapes())

    def arrays(self, w: np.ndarray) -> Arrays[tuple[np.ndarray, np.ndarray]]:
        """Return views of the parameters w (P,): pairs of gain and shift, or of W (inputs, outputs) and b."""
        found, start = [], 0
        for shape in self._shapes():
            size = int(np.prod(shape))
            found.append(w[start : start + size].reshape(shape))
            start += size
        return Arrays(*zip(found[::2], found[1::2], strict=True))

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random start (P,): gains 1, W normal with variance 2 / (inputs + outputs), all else 0."""
        _checks.offers("rng", rng, ("normal",), "a NumPy generator, such as numpy.random.default_rng(0)")
        w = np.zeros(self.parameters)
        for weights, _ in self.arrays(w):
            weights[...] = 1 if weights.ndim == 1 else rng.normal(scale=np.sqrt(2 / sum(weights.shape)), size=weights.shape)
        return w

    def _shapes(self) -> list[tuple[int, ...]]:
        maps = ((self.width, 3 * self.width), (self.width, self.width), (self.width, self.hidden), (self.hidden, self.width))
        of_maps = [[shape, shape[1:]] for shape in maps]
        norm: list[tuple[int, ...]] = [(self.width,), (self.width,)]
        return [*norm, *of_maps[0], *of_maps[1], *norm, *of_maps[2], *of_maps[3]]

    def _check(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``w`` and ``x`` as arrays of floats; raise ``ValueError`` if they do not fit."""
        w, x = _checks.floats("w", w), _checks.floats("x", x)
        if w.ndim != 2 or w.shape[1] != self.parameters:
            raise ValueError(f"w must have shape (agents, {self.parameters}) for {self}; got {w.shape}")
        if x.ndim != 3 or x.shape[2] != self.features or x.shape[0] not in (1, len(w)):
            raise ValueError(f"x must have shape ({len(w)}, samples, {self.features}) for {self}; got {x.shape}")
        return w, x
