"""Linear maps over a square of ranks, by SUMMA."""

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

    def backward(
        self, stage: int, block: Block, x: np.ndarray, flat: np.ndarray, dy: np.ndarray, wanted: bool
    ) -> tuple[np.ndarray | None, np.ndarray]:
        dx: np.ndarray | None = None
        slopes: np.ndarray | None = None
        for step in range(self.grid.side):
            there = block._replace(row=step)
            if wanted:
                weights, _ = there.views(self.grid.broadcast(flat, there.numbers, step, 0))
                summed = self.grid.reduce(dy @ weights.T, step, 1)
                dx = summed if summed is not None else dx
            across = self.grid.broadcast(x, x.size, step, 1).reshape(x.shape)
            summed = self.grid.reduce(there.slopes(across, dy), step, 0)
            slopes = summed if summed is not None else slopes
        assert slopes is not None, "each rank is the root once"
        return dx, slopes
