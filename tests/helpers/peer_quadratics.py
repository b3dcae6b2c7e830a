"""Agents with unlike quadratics of two unknowns, for peers that wake without rounds."""

import numpy as np

import consensus
from consensus.asynchronous import ASYSONATA
from consensus.surrogates import FullLinearization

H = np.array([np.diag(diagonal) for diagonal in ([1.0, 4.0], [3.0, 1.0], [2.0, 2.0], [4.0, 1.5])])
B = np.array([[1.0, -2.0], [0.5, 3.0], [-4.0, 1.0], [2.0, 2.0]])
OPTIMUM = B.sum(axis=0) / H.sum(axis=0).diagonal()
SOLVER = ASYSONATA(FullLinearization(tau=16.0), 0.8)


def quadratics(agents=4, wakes=lambda rows: None):
    """Costs ``w H_i w / 2 - b_i w``; ``wakes(rows)`` is called with each gradient."""

    def value(w, rows):
        return 0.5 * np.einsum("ap,apq,aq->a", w, H[rows], w) - (B[rows] * w).sum(axis=1)

    def gradient(w, rows):
        wakes(rows)
        return np.einsum("apq,aq->ap", H[rows], w) - B[rows]

    return consensus.Problem.from_functions(value, gradient, agents=agents, parameters=2)


def optimum(agents):
    return B[:agents].sum(axis=0) / H[:agents].sum(axis=0).diagonal()
