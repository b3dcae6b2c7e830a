"""Linear maps over a square of ranks, by SUMMA."""

from collections.abc import Callable

import numpy as np

from consensus.centralised.tensor.block import Block
from consensus.centralised.tensor.split import Split


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
