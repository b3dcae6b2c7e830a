"""A multilayer perceptron of which each rank has a block of every layer."""

import itertools
from collections.abc import Sequence

import numpy as np

from consensus.model_parallel.grid import Grid, side
from consensus.model_parallel.maps import activated, sloped
from consensus.model_parallel.splits import divided, side_in_words, split_on
from consensus.models import MLP


class ShardedMLP:
    """A rank's part of a :class:`consensus.MLP`: blocks of parameters, activations and gradients.

    All ranks of the grid call each method together. Linear maps are the grid's:

    - "1d": split by outputs and by inputs in turns, as in Megatron; activations inside a pair of maps are split by columns,
      the others are whole on every rank;
    - "2d": q x q blocks of every matrix, by SUMMA;
    - "3d": each of q x q x q ranks has one part in q^3 of all parameters and all activations.

    While it computes, a rank of a cube also has blocks of q times that size.

    Parameters
    ----------
    widths : sequence of int
        ``[inputs, hidden, ..., outputs]``, multiples of the grid's side.
    grid : Grid
        The ranks.
    activation : str
        One of those of :class:`consensus.MLP`.

    Attributes
    ----------
    model : MLP
        The network as a whole, without parameters.
    own : list of ndarray
        This rank's parameters, a flat array a layer.

    Raises
    ------
    ValueError
        If a width is not a multiple of the grid's side.

    References
    ----------
    Shoeybi et al., "Megatron-LM: training multi-billion parameter language models using model parallelism", 2019, for "1d".
    van de Geijn, Watts, "SUMMA: scalable universal matrix multiplication algorithm", 1997, for "2d".
    Bian, Xu, Wang, You, "Maximizing parallelism in distributed training for huge neural networks", 2021, for "3d".

    Examples
    --------
    Under ``mpiexec -n 8``, or on one rank:

    >>> import numpy as np
    >>> from consensus.centralized import Grid, ShardedMLP
    >>> class Alone:
    ...     me, size = 0, 1
    ...     def exchange(self, receives, sends): ...
    >>> network = ShardedMLP([4, 8, 2], Grid(Alone(), "3d"))
    >>> network.take(network.model.init(np.random.default_rng(0)))
    >>> network.forward(network.block(np.ones((3, 4)))).shape
    (3, 2)
    >>> [slope.size for slope in network.backward(np.ones((3, 2)))]
    [40, 18]
    """

    def __init__(self, widths: Sequence[int], grid: Grid, activation: str = "tanh") -> None:
        self.model, self.grid, self.split = MLP(widths, activation), grid, split_on(grid)
        divisible(self.model.widths, grid.split, grid.ranks.size)
        pairs = itertools.pairwise(self.model.widths)
        self.blocks = [self.split.block(layer % 2, m, k) for layer, (m, k) in enumerate(pairs)]
        self.own: list[np.ndarray] = []
        self._inputs: list[np.ndarray] = []
        self._kept: list[np.ndarray] = []

    def take(self, w: np.ndarray) -> None:
        """Take this rank's parameters from those of the whole network.

        Parameters
        ----------
        w : ndarray (P,)
            Parameters of ``model``.
        """
        self.own = [
            block.own(weights, bias[0]) for block, (weights, bias) in zip(self.blocks, self.model._split(w), strict=True)
        ]

    def block(self, whole: np.ndarray, outputs: bool = False) -> np.ndarray:
        """Return this rank's block of features or cotangents.

        Rows of zeros, which add nothing to gradients, fill the samples up to a multiple of q or q^2.

        Parameters
        ----------
        whole : ndarray (samples, inputs) or (samples, outputs)
            Features or cotangents.
        outputs : bool
            Whether they are cotangents of the outputs.

        Returns
        -------
        ndarray (rows, columns)
            This rank's block.
        """
        return self.split.taken(self._last if outputs else 0, whole)

    @property
    def _last(self) -> int:
        return len(self.blocks) % 2

    def put(self, block: np.ndarray, whole: np.ndarray) -> None:
        """Write this rank's block of the outputs to where it belongs.

        Parameters
        ----------
        block : ndarray (rows, columns)
            From :meth:`forward`.
        whole : ndarray (samples, outputs)
            To be filled; of blocks that are equal on several ranks, the first rank writes its own.
        """
        self.split.put(self._last, block, whole)

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return this rank's block of the outputs; the pass is remembered.

        Parameters
        ----------
        x : ndarray (rows, columns)
            This rank's block of the features.

        Returns
        -------
        ndarray (rows, columns)
            This rank's block of the outputs.
        """
        activation = self.model._activation
        assert activation is not None, "an MLP has one"
        self._inputs, self._kept, last = [], [], len(self.blocks) - 1
        for layer, (block, flat) in enumerate(zip(self.blocks, self.own, strict=True)):
            self._inputs.append(x)
            x = self.split.forward(layer % 2, block, x, flat)
            if layer < last:
                x, kept = activated(activation, x)
                self._kept.append(kept)
        return x

    def backward(self, u: np.ndarray) -> list[np.ndarray]:
        """Return this rank's part of J' u, for the last pass forward.

        Parameters
        ----------
        u : ndarray (rows, columns)
            This rank's block of the cotangents.

        Returns
        -------
        list of ndarray
            A flat array for each layer, as those of ``own``.
        """
        activation, d, slopes = self.model._activation, u, [np.zeros(0)] * len(self.blocks)
        assert activation is not None, "an MLP has one"
        for layer in reversed(range(len(self.blocks))):
            stage, block = layer % 2, self.blocks[layer]
            d = self.split.incoming(stage, d)
            slopes[layer] = self.split.slopes(stage, block, self._inputs[layer], d)
            if layer > 0:
                d = sloped(activation, self.split.below(stage, block, self.own[layer], d), self._kept[layer - 1])
        return slopes

    def write(self, slopes: Sequence[np.ndarray], gradient: np.ndarray) -> None:
        """Write this rank's part of a gradient to where it belongs.

        Parameters
        ----------
        slopes : sequence of ndarray
            From :meth:`backward`.
        gradient : ndarray (P,)
            To be filled.
        """
        for block, flat, (weights, bias) in zip(self.blocks, slopes, self.model._split(gradient), strict=True):
            block.write(flat, weights, bias[0])

    @property
    def held(self) -> tuple[int, int]:
        """Bytes that this rank has of parameters, and of activations since the last pass forward."""
        kept = {array.ctypes.data: array.nbytes for array in (*self._inputs, *self._kept)}  # of views of one array, one
        return sum(flat.nbytes for flat in self.own), sum(kept.values())


def divisible(widths: Sequence[int], split: str, workers: int) -> None:
    """Raise ``ValueError`` if so many workers are no grid, or a width is not a multiple of its side."""
    divided("widths", tuple(widths), side(split, workers), split, side_in_words(split, workers))
