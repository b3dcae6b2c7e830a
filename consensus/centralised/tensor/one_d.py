"""Linear maps over a line of ranks: by columns, then by rows."""

from typing import ClassVar

import numpy as np

from consensus.centralised.tensor.block import Block
from consensus.centralised.tensor.split import Split


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
