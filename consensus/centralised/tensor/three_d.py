"""Linear maps over a cube of ranks."""

import numpy as np

from consensus.centralised.tensor.block import Block
from consensus.centralised.tensor.split import Split


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
