"""Arguments of :func:`consensus.solve`, converted."""

from __future__ import annotations

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

import topologies
from consensus import _checks
from consensus.problems import BaseProblem
from topologies.schedules import ScheduleLike


def schedule(network: object, directed: str | None = None) -> ScheduleLike:
    """Return ``network`` as a schedule; a graph becomes a static one, a directed one with the weights of that name."""
    if isinstance(network, nx.Graph):
        if network.is_directed() and directed:
            return topologies.Static(network, weights=getattr(topologies, directed))
        return topologies.Static(network)
    if isinstance(network, np.ndarray) or (hasattr(network, "shape") and (sp.issparse(network) or hasattr(network, "columns"))):
        raise TypeError(
            f"network must be a schedule or a networkx graph; got a matrix {network.shape}: topologies.Static(matrix) takes it "
            "as the adjacency of a graph, topologies.schedule_from_matrix(matrix) as the weights that agents mix with"
        )
    if isinstance(network, list | tuple):
        raise TypeError(
            f"network must be a schedule or a networkx graph; got a {type(network).__name__} of {len(network)}: "
            "topologies.Periodic(graphs) takes one graph after another, round by round"
        )
    wanted = "a schedule or a networkx graph, such as topologies.ring(10)"
    found: ScheduleLike = _checks.offers("network", network, ("agents", "key", "weights"), wanted)
    return found


def start(problem: BaseProblem, start: ArrayLike | None, seed: int | np.random.Generator) -> np.ndarray:
    """Return the start as a stack (agents, P) in the problem's dtype; draw it where none is given.

    One start for all agents is in memory once: the stack is a view of it that cannot be written.
    """
    rng = _checks.seed(seed)
    if start is None:
        model = getattr(problem, "model", None)
        start = rng.standard_normal(problem.parameters) if model is None else model.init(rng)
    start = _checks.dense("start", start)
    shape = (problem.network_size, problem.parameters)
    if start.shape not in (shape, shape[1:]):
        raise ValueError(f"start must have shape (P,) = {shape[1:]} or (agents, P) = {shape}; got {start.shape}")
    if start.dtype.kind not in "fiu" or not np.isfinite(start).all():
        raise ValueError(f"start must hold finite real numbers; got {start!r}")
    return np.broadcast_to(np.array(start, problem.dtype, order="C"), shape)
