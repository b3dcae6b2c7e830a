"""Communication and work of a rank of a grid for linear maps, from formulas."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from consensus.costs import Load
from consensus.model_parallel.grid import side
from consensus.model_parallel.transformer import TransformerSizes


class Sent(NamedTuple):
    """Communication of one rank in a pass: ``numbers`` sent, ``exchanges``, and numbers that it ``adds`` up."""

    numbers: float = 0.0
    exchanges: int = 0
    adds: float = 0.0

    def __add__(self, other: "Sent") -> "Sent":  # type: ignore[override]
        return Sent(self.numbers + other.numbers, self.exchanges + other.exchanges, self.adds + other.adds)


class LinearMap(NamedTuple):
    """A linear map of ``inputs`` to ``outputs`` on a grid, in a ``stage``; ``wanted``: with gradients by its inputs.

    With M rows, N inputs and K outputs on p workers, q a side of their grid, a rank has a = M N / p, c = M K / p and
    f = (N + 1) K / p numbers of the inputs, the outputs and the map. It sends

    ====== ============================================== ================================================
    split  forward                                        backward
    ====== ============================================== ================================================
    1d     0, then 2 (p - 1) c                            2 (p - 1) a if wanted, then 0 (in stages 0 and 1)
    2d     (q - 1) (a + f)                                (q - 1) (a + f), twice that if wanted
    3d     (q - 1) (a + f + c)                            (q - 1) (a + f + c), and (q - 1) (a + f) if wanted
    ====== ============================================== ================================================

    where sizes are multiples, q^2 of outputs among them; others are rounded up.
    """

    split: str
    workers: int
    stage: int
    rows: int
    inputs: int
    outputs: int
    wanted: bool = True

    @property
    def _sizes(self) -> tuple[int, float, float, float]:
        p = self.workers
        q = side(self.split, p)
        a, c = -(-self.rows * self.inputs // p), -(-self.rows * self.outputs // p)
        return q, a, c, -(-(self.inputs + 1) * self.outputs // p)

    def forward(self) -> Sent:
        """Return what a rank sends and adds up in the pass forward."""
        q, a, c, f = self._sizes
        if self.split == "1d":
            return Sent(2 * (q - 1) * c, 2, (q - 1) * c) if self.stage else Sent()
        if self.split == "2d":
            return Sent((q - 1) * (a + f), 2 * q)
        return Sent((q - 1) * (a + f + c), 3, (q - 1) * c)

    def backward(self) -> Sent:
        """Return what a rank sends and adds up in the pass backward."""
        q, a, c, f = self._sizes
        if self.split == "1d":
            return Sent(2 * (q - 1) * a, 2, (q - 1) * a) if self.wanted and not self.stage else Sent()
        if self.split == "2d":
            below = Sent((q - 1) * (f + a), 2 * q, (q - 1) * a) if self.wanted else Sent()
            return Sent((q - 1) * (a + f), 2 * q, (q - 1) * f) + below
        below = Sent((q - 1) * (f + a), 2, (q - 1) * a) if self.wanted else Sent()
        return Sent((q - 1) * (c + a + f), 3, (q - 1) * f) + below

    @property
    def operations(self) -> float:
        """Floating-point operations of a rank, forward and backward."""
        return (6.0 if self.wanted else 4.0) * self.rows * self.inputs * self.outputs / self.workers


class NormMap(NamedTuple):
    """Layer normalisation of ``rows`` of ``width`` columns on a grid.

    With M rows on p workers, q a side of their grid, a rank has r = M / q rows in a square and M / q^2 in a cube, and
    v = 2 width / p numbers of gain and shift. It sends, in a square, 4 (q - 1) r / q numbers for means and (q - 1) v for gain
    and shift forward, as many for means and twice as many for gain and shift backward; in a cube, (q^2 - 1) v in place of
    (q - 1) v; on a line none.
    """

    split: str
    workers: int
    rows: int
    width: int

    def forward(self) -> Sent:
        """Return what a rank sends and adds up in the pass forward."""
        return self._means(1) + self._means(1) + self._vector()

    def backward(self) -> Sent:
        """Return what a rank sends and adds up in the pass backward."""
        gathered = self._vector()
        return gathered + gathered._replace(adds=gathered.numbers) + self._means(2)

    @property
    def operations(self) -> float:
        """Those of linear maps alone are counted: none."""
        return 0.0

    @property
    def _axes(self) -> int:
        return {"1d": 0, "2d": 1, "3d": 2}[self.split]

    def _means(self, columns: int) -> Sent:
        q = side(self.split, self.workers)
        if not self._axes:
            return Sent()
        each = -(-columns * self.rows // q ** (self._axes + 1))
        return Sent(2 * (q - 1) * each, 2, (q - 1) * each)

    def _vector(self) -> Sent:
        parts = side(self.split, self.workers) ** self._axes
        size = -(-2 * self.width // self.workers)
        return Sent((parts - 1) * size, self._axes)


def maps_of(widths: tuple[int, ...], split: str, workers: int, rows: int) -> list[LinearMap]:
    """Return the linear maps of a perceptron on a grid, for so many ``rows`` of samples."""
    return [
        LinearMap(split, workers, layer % 2, rows, inputs, outputs, layer > 0)
        for layer, (inputs, outputs) in enumerate(itertools.pairwise(widths))
    ]


def maps_of_transformer(sizes: TransformerSizes, split: str, workers: int, samples: int) -> list[LinearMap | NormMap]:
    """Return the maps of a transformer block on a grid, without the products of queries, keys and values, which none sends."""
    rows = samples * sizes.sequence
    norm = NormMap(split, workers, rows, sizes.width)
    ends = (sizes.width, 3 * sizes.width), (sizes.width, sizes.width), (sizes.width, sizes.hidden), (sizes.hidden, sizes.width)
    maps = [LinearMap(split, workers, place % 2, rows, *pair) for place, pair in enumerate(ends)]
    return [norm, norm, *maps]


def load_of(maps: Sequence[LinearMap | NormMap], itemsize: int = 8) -> Load:
    """Return what follows one another in a gradient, forward and backward, to be priced by a ``Cluster``.

    A rank receives as many numbers as it sends. Operations of activations are left out.
    """
    sent = sum((each.forward() + each.backward() for each in maps), Sent())
    return Load(
        exchanges=np.array([float(sent.exchanges)]) if maps[0].workers > 1 else np.zeros(1),
        bytes=np.array([2.0 * itemsize * sent.numbers]),
        flops=np.array([sum(each.operations for each in maps)]),
        waits=float(maps[0].workers),
        adds=np.array([sent.adds]),
    )
