"""Maps whose weights are spread over a grid of workers: in one, two and three dimensions."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from consensus import _checks
from consensus.model_parallel.grid import DIMENSIONS, Grid, side
from consensus.workers.blocks import blocks_of


class Block(NamedTuple):
    """One of ``rows x columns`` blocks of the map ``x W + b``, or one of its ``parts`` equal parts.

    The block (row, column) of W goes with the piece ``row`` of the numbers of b for these columns. So the products of the
    blocks of a column sum up to ``x W + b``, and no rank has another's number. A block is flat: W's numbers row by row, then
    b's. Its parts have equal lengths, the last one with zeros at its end if need be.
    """

    inputs: int
    outputs: int
    row: int = 0
    rows: int = 1
    column: int = 0
    columns: int = 1
    part: int = 0
    parts: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        """Inputs and outputs of the block."""
        return self.inputs // self.rows, self.outputs // self.columns

    @property
    def piece(self) -> slice:
        """The block's outputs to which it adds a bias."""
        return blocks_of(self.shape[1], self.rows)[self.row]

    @property
    def numbers(self) -> int:
        """Numbers of W and b in the block."""
        m, k = self.shape
        return m * k + int(self.piece.stop - self.piece.start)

    @property
    def size(self) -> int:
        """Numbers of a part."""
        return -(-self.numbers // self.parts)

    def views(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the W and b of a whole block (numbers,), as views."""
        m, k = self.shape
        return flat[: m * k].reshape(m, k), flat[m * k : self.numbers]

    def own(self, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """Return the part (size,) of W (inputs, outputs) and b (outputs,) that this rank has."""
        flat = np.zeros(self.size, weights.dtype)
        for whole, theirs, its in self._meetings(weights, bias):
            flat[its] = whole.flat[theirs]
        return flat

    def write(self, flat: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> None:
        """Write the part that this rank has to where it belongs in W and b."""
        for whole, theirs, its in self._meetings(weights, bias):
            whole.flat[theirs] = flat[its]

    def _meetings(self, weights: np.ndarray, bias: np.ndarray) -> list[tuple[np.ndarray, slice, slice]]:
        """Return the block's views of W and b, which of their numbers are in this part, and where."""
        (m, k), piece, first, found = self.shape, self.piece, self.part * self.size, []
        block = weights[self.row * m : (self.row + 1) * m, self.column * k : (self.column + 1) * k]
        for view, start in ((block, 0), (bias[self.column * k + piece.start : self.column * k + piece.stop], m * k)):
            low, high = max(first, start), min(first + self.size, start + view.size)
            if low < high:
                found.append((view, slice(low - start, high - start), slice(low - first, high - first)))
        return found

    def add_product(self, x: np.ndarray, flat: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return x W plus the own piece of b, added to ``out`` if given."""
        weights, bias = self.views(flat)
        y: np.ndarray = x @ weights
        y[:, self.piece] += bias
        if out is None:
            return y
        out += y
        return out

    def slopes(self, x: np.ndarray, dy: np.ndarray, room: int | None = None) -> np.ndarray:
        """Return the gradient by the block, flat, with zeros up to ``room`` numbers if given."""
        flat = np.zeros(self.numbers if room is None else room, dy.dtype)
        weights, bias = self.views(flat)
        np.matmul(x.T, dy, out=weights)
        np.sum(dy[:, self.piece], axis=0, out=bias)
        return flat


class Split(ABC):
    """Distribution of matrices and linear maps over a grid of ranks.

    Linear maps come in pairs. Matrices are in ``stage`` 0 before the first one of a pair and after the second one, and in stage
    1 between them. In each stage the rows of a matrix are split along some axes of the grid, one after another, and its columns
    along one other axis or none.
    """

    row_axes: ClassVar[tuple[tuple[int, ...], tuple[int, ...]]]  #: by stage
    column_axis: ClassVar[tuple[int | None, int | None]]  #: by stage

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    @abstractmethod
    def block(self, stage: int, inputs: int, outputs: int) -> Block:
        """Return this rank's block of a linear map of matrices in a stage to those in the other one."""

    @abstractmethod
    def forward(self, stage: int, block: Block, x: np.ndarray, flat: np.ndarray) -> np.ndarray:
        """Return this rank's block of ``x W + b``, from its blocks of x in a stage and of the map."""

    def incoming(self, stage: int, dy: np.ndarray) -> np.ndarray:
        """Return what the two methods below need of the gradient by the result, from this rank's block of it."""
        return dy

    @abstractmethod
    def slopes(self, stage: int, block: Block, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
        """Return this rank's block of the gradient by the map, from what :meth:`incoming` returns."""

    @abstractmethod
    def below(self, stage: int, block: Block, flat: np.ndarray, dy: np.ndarray) -> np.ndarray:
        """Return this rank's block of the gradient by x, from what :meth:`incoming` returns."""

    def backward(
        self, stage: int, block: Block, x: np.ndarray, flat: np.ndarray, dy: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return this rank's blocks of the gradients by x and by the map."""
        dy = self.incoming(stage, dy)
        return self.below(stage, block, flat, dy), self.slopes(stage, block, x, dy)

    @property
    def row_parts(self) -> int:
        """Number of parts that rows are split into, in both stages."""
        return int(self.grid.side ** len(self.row_axes[0]))

    def rows(self, stage: int, count: int) -> slice:
        """Return which of ``count`` rows this rank has, a multiple of :meth:`row_parts`."""
        start = 0
        for axis in self.row_axes[stage]:
            count //= self.grid.side
            start += self.grid.at[axis] * count
        return slice(start, start + count)

    def columns(self, stage: int, count: int) -> slice:
        """Return which of ``count`` columns this rank has."""
        axis = self.column_axis[stage]
        if axis is None:
            return slice(0, count)
        count //= self.grid.side
        return slice(self.grid.at[axis] * count, (self.grid.at[axis] + 1) * count)

    def taken(self, stage: int, whole: np.ndarray, unit: int = 1) -> np.ndarray:
        """Return this rank's block of a matrix; ``unit`` rows stay together, with zeros after the last ones if need be."""
        rows = self._padded(stage, len(whole), unit)
        own = whole[rows, self.columns(stage, whole.shape[1])]
        block = np.zeros((rows.stop - rows.start, own.shape[1]), whole.dtype)
        block[: len(own)] = own
        return block

    def put(self, stage: int, block: np.ndarray, whole: np.ndarray, unit: int = 1) -> None:
        """Write this rank's block to where it belongs in a matrix, but the rows of zeros; of equal blocks, the first rank's."""
        if self.column_axis[stage] is None and self.grid.ranks.me:
            return
        room = whole[self._padded(stage, len(whole), unit), self.columns(stage, whole.shape[1])]
        room[...] = block[: len(room)]

    def _padded(self, stage: int, count: int, unit: int) -> slice:
        """Return which rows this rank has of ``count`` and those of zeros after them."""
        each = unit * self.row_parts
        return self.rows(stage, -(-count // each) * each)


def side_in_words(split: str, workers: int) -> str:
    """Return what the side of a grid is, for messages."""
    grid = " x ".join([str(side(split, workers))] * DIMENSIONS[split])
    return "the number of workers" if split == "1d" else f"the side of {grid} workers"


def divided(name: str, values: Any, parts: int, split: str, what: str) -> None:  # noqa: ANN401 (a number or several)
    """Raise ``ValueError`` if one of the ``values`` is no multiple of ``parts``."""
    several = isinstance(values, list | tuple)
    for place, value in enumerate(values if several else [values]):
        if value % parts:
            of = f"{name}[{place}]" if several else name
            raise ValueError(f"{of} must be a multiple of {parts}, {what} for split={split!r}; got {_checks.shown(value)}")


class OneD(Split):
    """The first map of a pair is split by its outputs, the second one by its inputs.

    Matrices between them are split by columns. The products of the second map are summed over all ranks, as are the gradients
    by the first one's inputs: these matrices are whole on every rank.

    References
    ----------
    Shoeybi, Patwary, Puri, LeGresley, Casper, Catanzaro, "Megatron-LM: training multi-billion parameter language models using
    model parallelism", 2019, section 3.
    """

    row_axes = ((), ())
    column_axis: ClassVar[tuple[int | None, int | None]] = (None, 0)

    def block(self, stage: int, inputs: int, outputs: int) -> Block:
        here, count = self.grid.at[0], self.grid.side
        if stage == 0:
            return Block(inputs, outputs, column=here, columns=count)
        return Block(inputs, outputs, row=here, rows=count)

    def forward(self, stage: int, block: Block, x: np.ndarray, flat: np.ndarray) -> np.ndarray:
        y = block.add_product(x, flat)
        return y if stage == 0 else self.grid.total(y, 0)

    def slopes(self, stage: int, block: Block, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
        return block.slopes(x, dy)

    def below(self, stage: int, block: Block, flat: np.ndarray, dy: np.ndarray) -> np.ndarray:
        dx: np.ndarray = dy @ block.views(flat)[0].T
        return dx if stage else self.grid.total(dx, 0)


class TwoD(Split):
    """Every matrix is split in q x q blocks: its rows along the first axis of the grid, its columns along the second one.

    In each of q steps a column of blocks of x is broadcast along the grid's rows, and a row of blocks of W along its columns.
    Backward, ``dx = dy W'`` broadcasts W and reduces dx, and ``dW = x' dy`` broadcasts x and reduces dW.

    References
    ----------
    van de Geijn, Watts, "SUMMA: scalable universal matrix multiplication algorithm", Concurrency: Practice and Experience,
    1997.
    Xu, Li, Gong, You, "An efficient 2D method for training super-large deep learning models", 2021.
    """

    row_axes = ((0,), (0,))
    column_axis = (1, 1)

    def block(self, stage: int, inputs: int, outputs: int) -> Block:
        (i, j), q = self.grid.at, self.grid.side
        return Block(inputs, outputs, row=i, rows=q, column=j, columns=q)

    def forward(self, stage: int, block: Block, x: np.ndarray, flat: np.ndarray) -> np.ndarray:
        y: np.ndarray | None = None
        for step in range(self.grid.side):
            across = self.grid.broadcast(x, x.size, step, 1).reshape(x.shape)
            there = block._replace(row=step)
            y = there.add_product(across, self.grid.broadcast(flat, there.numbers, step, 0), y)
        assert y is not None, "a grid has ranks"
        return y

    def slopes(self, stage: int, block: Block, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
        def product(step: int) -> np.ndarray:
            across = self.grid.broadcast(x, x.size, step, 1).reshape(x.shape)
            return block._replace(row=step).slopes(across, dy)

        return self._reduced(product, 0)

    def below(self, stage: int, block: Block, flat: np.ndarray, dy: np.ndarray) -> np.ndarray:
        def product(step: int) -> np.ndarray:
            there = block._replace(row=step)
            dx: np.ndarray = dy @ there.views(self.grid.broadcast(flat, there.numbers, step, 0))[0].T
            return dx

        return self._reduced(product, 1)

    def _reduced(self, product: Callable[[int], np.ndarray], axis: int) -> np.ndarray:
        """Return the sum of the products of the step in which this rank is the root."""
        sums = [self.grid.reduce(product(step), step, axis) for step in range(self.grid.side)]
        (own,) = (each for each in sums if each is not None)
        return own


class ThreeD(Split):
    """The rank (i, j, l) computes the product of the block (i, l) of x and the block (l, j) of W.

    The block (i, l) of x is spread over all j, by rows, and that of W over all i; they are gathered for the product. The
    products are summed over l and spread, by rows. So every rank has the same share of x, W and the result. The next map swaps
    the roles of j and l. Backward, ``dx = dy W'`` is spread over j, ``dW = x' dy`` over i.

    References
    ----------
    Bian, Xu, Wang, You, "Maximizing parallelism in distributed training for huge neural networks", 2021. Agarwal, Balle,
    Gustavson, Joshi, Palkar, "A three-dimensional approach to parallel matrix multiplication", IBM Journal of Research and
    Development, 1995.
    """

    row_axes = ((0, 1), (0, 2))
    column_axis = (2, 1)

    def block(self, stage: int, inputs: int, outputs: int) -> Block:
        at, q = self.grid.at, self.grid.side
        row, column = at[self.column_axis[stage]], at[self.column_axis[1 - stage]]
        return Block(inputs, outputs, row=row, rows=q, column=column, columns=q, part=at[0], parts=q)

    def forward(self, stage: int, block: Block, x: np.ndarray, flat: np.ndarray) -> np.ndarray:
        y = block.add_product(self._whole(x, self.column_axis[1 - stage]), self.grid.gather(flat, 0).reshape(-1))
        return self._spread(y, self.column_axis[stage])

    def incoming(self, stage: int, dy: np.ndarray) -> np.ndarray:
        return self._whole(dy, self.column_axis[stage])

    def slopes(self, stage: int, block: Block, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
        whole = block.slopes(self._whole(x, self.column_axis[1 - stage]), dy, block.size * block.parts)
        return self.grid.scatter_sum(whole.reshape(block.parts, block.size), 0)

    def below(self, stage: int, block: Block, flat: np.ndarray, dy: np.ndarray) -> np.ndarray:
        weights, _ = block.views(self.grid.gather(flat, 0).reshape(-1))
        return self._spread(dy @ weights.T, self.column_axis[1 - stage])

    def _whole(self, x: np.ndarray, axis: int) -> np.ndarray:
        """Return the rows of all ranks on a line."""
        return self.grid.gather(x, axis).reshape(-1, x.shape[1])

    def _spread(self, x: np.ndarray, axis: int) -> np.ndarray:
        """Return this rank's rows of the sum over a line."""
        return self.grid.scatter_sum(x.reshape(self.grid.side, -1, x.shape[1]), axis)


_SPLITS: dict[str, type[Split]] = {"1d": OneD, "2d": TwoD, "3d": ThreeD}


def split_on(grid: Grid) -> Split:
    """Return the split that a grid is for."""
    return _SPLITS[grid.split](grid)
