"""Runs of agents with models of their own, to be compared between engines."""

import networkx as nx
import numpy as np

from consensus.solvers import EXTRA, GradientTracking, Personalised, SharedBody


def personal(graph, smooth, single):
    """``{name: (problem, solver)}``: with weights of pairs, and by batches in single precision."""
    numbers = np.arange(len(graph))
    weights = nx.to_numpy_array(graph, weight=None) * np.add.outer(numbers, numbers)
    return {
        "personalised, weights": (smooth, Personalised(weights, 0.3)),
        "shared body, EXTRA": (smooth, SharedBody(EXTRA(0.05), own=[4, 0])),
        "shared body, batches": (single, SharedBody(GradientTracking(0.05, batch=3), own="1")),
        "personalised, batches": (single, Personalised(l=0.2, step_size=0.05, batch=3)),
    }
