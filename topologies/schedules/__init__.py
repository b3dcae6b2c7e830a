"""Schedules: which mixing matrix the agents use in which round.

A schedule is any object with

- ``agents``: how many there are, A;
- ``key(round)``: hashable, for rounds 0, 1, 2, ...; equal keys mean equal matrices, so that callers can cache by key;
- ``weights(key)``: the mixing matrix as a CSR array (A, A); row i holds what agent i gives to each value it receives,
  so an entry (i, j) off the diagonal needs an edge from j to i;
- ``graph(round)``: a new ``networkx`` graph of that round, with nodes 0, ..., A - 1 and the node attributes of the
  graph it was made from; edge attributes are not kept;
- ``union()``: the CSR pattern of all edges that come back again and again, laid out as by `topologies.adjacency`;
- ``static``, optional: whether all rounds, without end, have the same matrix. It alone says so, to solvers and in
  `topologies.conditions`: a schedule without it counts as one that changes, however alike its first rounds are.

Schedules here keep their edges as arrays, so they are cheap to send to another process, and compare equal when they
are of one kind with equal settings. The arrays they return may be their own: copy before changing one.
"""

from topologies.schedules.base import Schedule, is_static, labels
from topologies.schedules.failures import AgentFailure, LinkFailure
from topologies.schedules.mobile import Mobile
from topologies.schedules.pairwise import Matchings, OnePeerExponential
from topologies.schedules.random_edges import RandomEdges
from topologies.schedules.sequence import Periodic, Sequence
from topologies.schedules.static import Static, schedule_from_matrix
from topologies.schedules.temporal import Temporal

__all__ = [
    "AgentFailure",
    "LinkFailure",
    "Matchings",
    "Mobile",
    "OnePeerExponential",
    "Periodic",
    "RandomEdges",
    "Schedule",
    "Sequence",
    "Static",
    "Temporal",
    "is_static",
    "labels",
    "schedule_from_matrix",
]
