"""A transformer whose weights are spread over a grid of workers."""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from consensus import _checks
from consensus.model_parallel.grid import Grid, side
from consensus.model_parallel.maps import Norm, activated, attention, attention_slopes, sloped
from consensus.model_parallel.splits import Block, divided, side_in_words, split_on
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


class ShardedTransformer:
    """A rank's part of a transformer block: attention and a perceptron, each after layer normalisation and added to its inputs.

    With layer normalisations n_1 and n_2 and an activation s, for the tokens x of a sequence

        y = x + attention(n_1(x) W_1 + b_1) W_2 + b_2 ,     f = y + s(n_2(y) W_3 + b_3) W_4 + b_4 .

    A sample is a sequence, its features are the numbers of its tokens, one after another. All ranks of the grid call each
    method together. Linear maps are those of :class:`ShardedMLP`; each rank has the attention of some heads in some sequences.
    On a line x, y, f, the normalised tokens and the gains and shifts are whole on every rank.

    Parameters
    ----------
    width : int
        Numbers of a token; a multiple of the heads.
    heads : int
        Heads of the attention; a multiple of the grid's side.
    hidden : int
        Units of the perceptron; a multiple of the grid's side.
    sequence : int
        Tokens of a sequence.
    grid : Grid
        The ranks.
    activation : str
        One of those of :class:`consensus.MLP`.

    Attributes
    ----------
    sizes : tuple
        The block as a whole: its ``parameters``, ``features`` and ``outputs``, ``init(rng)`` and ``arrays(w)``, views of the
        parameters. The columns of W_1 hold head after head, each with its query, key and value.
    own : list of ndarray
        This rank's parameters, flat arrays in the order of ``sizes.arrays``.
    below : ndarray (tokens, columns)
        This rank's block of the gradient by the features, after :meth:`backward`: a block before this one takes it.

    Raises
    ------
    ValueError
        If a size is not a multiple of what it must be.

    References
    ----------
    Vaswani et al., "Attention is all you need", NeurIPS 2017. Xiong et al., "On layer normalization in the transformer
    architecture", ICML 2020, for layer normalisation before each part.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.centralized import Grid, ShardedTransformer
    >>> class Alone:
    ...     me, size = 0, 1
    ...     def exchange(self, receives, sends): ...
    >>> block = ShardedTransformer(8, heads=2, hidden=16, sequence=5, grid=Grid(Alone()))
    >>> block.take(block.sizes.init(np.random.default_rng(0)))
    >>> block.forward(block.block(np.ones((3, 40)))).shape
    (15, 8)
    """

    def __init__(self, width: int, heads: int, hidden: int, sequence: int, grid: Grid, activation: str = "relu") -> None:
        self.sizes, self.grid = TransformerSizes.checked(width, heads, hidden, sequence, activation), grid
        check_sizes(self.sizes, grid.split, grid.ranks.size)
        self.split, of = split_on(grid), self.sizes
        norm, block = Norm(self.split, of.width), self.split.block
        self._attention, self._projection = block(0, of.width, 3 * of.width), block(1, of.width, of.width)
        self._hidden, self._outputs = block(0, of.width, of.hidden), block(1, of.hidden, of.width)
        self._norm = norm
        self._parts: tuple[Norm | Block, ...] = norm, self._attention, self._projection, norm, self._hidden, self._outputs
        self._heads, self._activation = of.heads // grid.side, ACTIVATIONS[activation]
        self.own: list[np.ndarray] = []
        self.below = np.zeros((0, 0))
        self._kept: dict[str, Any] = {}

    def take(self, w: np.ndarray) -> None:
        """Take this rank's parameters from those of the whole block.

        Parameters
        ----------
        w : ndarray (P,)
            All parameters.
        """
        self.own = [part.own(*pair) for part, pair in zip(self._parts, self.sizes.arrays(w), strict=True)]

    def block(self, whole: np.ndarray, outputs: bool = False) -> np.ndarray:
        """Return this rank's block of features or cotangents.

        Sequences of zeros, which add nothing to gradients, fill the samples up to a multiple of q or q^2.

        Parameters
        ----------
        whole : ndarray (samples, sequence * width)
            Features or cotangents.
        outputs : bool
            Whether they are cotangents of the outputs, which are spread as the features are.

        Returns
        -------
        ndarray (tokens, columns)
            This rank's block.
        """
        return self.split.taken(0, whole.reshape(-1, self.sizes.width), self.sizes.sequence)

    def put(self, block: np.ndarray, whole: np.ndarray) -> None:
        """Write this rank's block of the outputs to where it belongs.

        Parameters
        ----------
        block : ndarray (tokens, columns)
            From :meth:`forward`.
        whole : ndarray (samples, sequence * width)
            To be filled, contiguous; of blocks that are equal on several ranks, the first rank writes its own.
        """
        self.split.put(0, block, whole.reshape(-1, self.sizes.width), self.sizes.sequence)

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return this rank's block of the outputs; the pass is remembered.

        Parameters
        ----------
        x : ndarray (tokens, columns)
            This rank's block of the features.

        Returns
        -------
        ndarray (tokens, columns)
            This rank's block of the outputs.
        """
        own, forward = Arrays(*self.own), self.split.forward
        normal, first = self._norm.forward(x, own.before_attention)
        mixed = forward(0, self._attention, normal, own.attention)
        heads, weights = attention(mixed, self.sizes.sequence, self._heads)
        y: np.ndarray = x + forward(1, self._projection, heads, own.projection)
        normal, second = self._norm.forward(y, own.before_hidden)
        a = forward(0, self._hidden, normal, own.hidden)
        h, kept = activated(self._activation, a)
        self._kept = {
            "first": first,
            "mixed": mixed,
            "weights": weights,
            "heads": heads,
            "second": second,
            "h": h,
            "kept": kept,
        }
        y += forward(1, self._outputs, h, own.outputs)
        return y

    def backward(self, u: np.ndarray) -> list[np.ndarray]:
        """Return this rank's part of J' u, for the last pass forward; ``below`` has the gradient by the features.

        Parameters
        ----------
        u : ndarray (tokens, columns)
            This rank's block of the cotangents.

        Returns
        -------
        list of ndarray
            Flat arrays, as those of ``own``.
        """
        own, kept, backward = Arrays(*self.own), self._kept, self.split.backward
        d, outputs = backward(1, self._outputs, kept["h"], own.outputs, u)
        d = sloped(self._activation, d, kept["kept"])
        gain, shift = self._norm.whole(own.before_hidden)
        d, hidden = backward(0, self._hidden, kept["second"].rows * gain + shift, own.hidden, d)
        d, before_hidden = self._norm.backward(d, kept["second"], gain)
        d += u
        through, projection = backward(1, self._projection, kept["heads"], own.projection, d)
        through = attention_slopes(kept["mixed"], kept["weights"], through)
        gain, shift = self._norm.whole(own.before_attention)
        through, of_attention = backward(0, self._attention, kept["first"].rows * gain + shift, own.attention, through)
        through, before_attention = self._norm.backward(through, kept["first"], gain)
        self.below = d + through
        return [before_attention, of_attention, projection, before_hidden, hidden, outputs]

    def write(self, slopes: Sequence[np.ndarray], gradient: np.ndarray) -> None:
        """Write this rank's part of a gradient to where it belongs.

        Parameters
        ----------
        slopes : sequence of ndarray
            From :meth:`backward`.
        gradient : ndarray (P,)
            To be filled.
        """
        for part, flat, pair in zip(self._parts, slopes, self.sizes.arrays(gradient), strict=True):
            part.write(flat, *pair)

    @property
    def held(self) -> tuple[int, int]:
        """Bytes that this rank has of parameters, and of activations since the last pass forward."""
        arrays = [a for kept in self._kept.values() for a in (kept if isinstance(kept, tuple) else (kept,))]
        kept = {array.ctypes.data: array.nbytes for array in arrays}  # of views of one array, one
        return sum(flat.nbytes for flat in self.own), sum(kept.values())


def check_sizes(sizes: TransformerSizes, split: str, workers: int) -> None:
    """Raise ``ValueError`` if so many workers are no grid, or a size is not a multiple of its side."""
    what = side_in_words(split, workers)
    for name in ("heads", "hidden"):
        divided(name, getattr(sizes, name), side(split, workers), split, what)
