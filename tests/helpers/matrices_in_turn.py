"""A user's schedule of given matrices in turn, without graphs and union."""

from typing import NamedTuple

import numpy as np
from scipy import sparse


class MatricesInTurn(NamedTuple):
    matrices: list

    @property
    def agents(self):
        return np.asarray(self.matrices[0]).shape[0]

    @property
    def static(self):
        return len(self.matrices) == 1

    def key(self, round):
        return round % len(self.matrices)

    def weights(self, key):
        return sparse.csr_array(self.matrices[key])
