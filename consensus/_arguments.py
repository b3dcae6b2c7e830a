"""Arguments of :func:`consensus.solve`, converted."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import TypeAlias

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

import topologies
from consensus import _checks
from consensus.problems import BaseProblem
from topologies import _names
from topologies.schedules import ScheduleLike
from topologies.schedules.reordered import Reordered

_LOGGER = logging.getLogger("consensus")


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


Joined: TypeAlias = "tuple[ScheduleLike, tuple[int, ...] | None, tuple[Hashable, ...] | None]"


def joined(problem: BaseProblem, network: ScheduleLike, log: bool = True) -> Joined:
    """Return the network with its agents in the order of the problem's, that order where it is another one, and their names.

    Equal names are matched. Where one side alone has names, agents are joined by position, and the log says so.
    """
    ours, theirs = problem.labels, _names.of_run(None, network)
    order = _names.match(ours, theirs, network.agents)
    if order is not None:
        if order == tuple(range(network.agents)):
            return network, None, ours
        network = Reordered(network, order)
        if log:
            text = "agents of the network are matched with the data by name: 0, 1, ... are %s, as in the data, not %s"
            _LOGGER.info(text, *(_checks.shown(list(names or ())) for names in (ours, theirs)))
        return network, order, ours
    numbers = list(range(network.agents))
    named = [list(map(_names.identity, names)) != numbers if names is not None else False for names in (ours, theirs)]
    if log and any(named):
        side, names, other = ("data", ours, "network") if named[0] else ("network", theirs, "data")
        text = "agents are joined by position, because the %s has no names: 0, 1, ... of the %s are %s"
        _LOGGER.info(text, other, side, _checks.shown(list(names or ())))
    return network, None, ours if named[0] or theirs is None else theirs


def start(problem: BaseProblem, start: ArrayLike | None, seed: int | np.random.Generator) -> np.ndarray:
    """Return the start as a stack (agents, P) in the problem's dtype; draw it where none is given.

    One start for all agents is in memory once: the stack is a view of it that cannot be written.
    """
    rng = _checks.seed(seed)
    if start is None:
        model = problem.model
        start = rng.standard_normal(problem.parameters) if model is None else model.init(rng)
    rows, shape = _checks.dense("start", start), (problem.network_size, problem.parameters)
    if rows.shape not in (shape, shape[1:]):
        got = rows.shape or f"{_checks.shown(start)} (models.Torch(module) begins at the parameters of its module)"
        raise ValueError(f"start must have shape (P,) = {shape[1:]} or (agents, P) = {shape}; got {got}")
    if rows.dtype.kind not in "fiu" or not np.isfinite(rows).all():
        raise ValueError(f"start must hold finite real numbers; got {rows!r}")
    return np.broadcast_to(np.array(rows, problem.dtype, order="C"), shape)
