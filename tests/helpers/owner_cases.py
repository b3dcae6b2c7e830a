"""Runs of owners, to be compared between engines: models of their own, and masked sums."""

import networkx as nx
import numpy as np

from consensus.privacy import SecureSums
from consensus.solvers import EXTRA, GradientTracking, Personalized, SharedBody, TreeLBFGS, TreeNewton


def of_owners(graph, smooth, single):
    """``{name: (problem, solver)}``: with weights of pairs, and by batches in single precision; sums of both precisions."""
    numbers = np.arange(len(graph))
    weights = nx.to_numpy_array(graph, weight=None) * np.add.outer(numbers, numbers)
    return {
        "personalised, weights": (smooth, Personalized(weights, 0.3)),
        "shared body, EXTRA": (smooth, SharedBody(EXTRA(0.05), own=[4, 0])),
        "shared body, batches": (single, SharedBody(GradientTracking(0.05, batch=3), own="1")),
        "TreeLBFGS, masked": (smooth, TreeLBFGS(secure=SecureSums())),
        "TreeLBFGS, float64, masked": (single, TreeLBFGS(rounded=False, secure=SecureSums(30))),
        "TreeNewton, masked": (smooth, TreeNewton(columns=3, secure=SecureSums())),
        "personalised, batches": (single, Personalized(l=0.2, step_size=0.05, batch=3)),
    }
