"""Schedules, which give every round its mixing matrix.

`topologies.ScheduleLike` is their protocol. The schedules of this package keep edges as arrays, so that they are cheap to
pickle, and are equal if they have the same class and settings. They may return their own arrays: do not modify these.
"""

from topologies.schedules.agent_failure import AgentFailure
from topologies.schedules.base import Schedule
from topologies.schedules.base_graph import BaseGraph, SimpleBaseGraph
from topologies.schedules.bursts import GilbertElliott, RandomActivation
from topologies.schedules.equitopo import EquiDyn, EquiStatic
from topologies.schedules.exponential_ring import AlternatingExponentialRing
from topologies.schedules.finite_time import HyperHypercube
from topologies.schedules.link_failure import LinkFailure
from topologies.schedules.mobile import Mobile
from topologies.schedules.pairwise import Matchings, OnePeerExponential
from topologies.schedules.protocols import ScheduleLike, is_static, labels
from topologies.schedules.random_edges import RandomEdges
from topologies.schedules.sequence import Periodic, Sequence
from topologies.schedules.static import Static, schedule_from_matrix
from topologies.schedules.temporal import Temporal

__all__ = [
    "AgentFailure",
    "AlternatingExponentialRing",
    "BaseGraph",
    "EquiDyn",
    "EquiStatic",
    "GilbertElliott",
    "HyperHypercube",
    "LinkFailure",
    "Matchings",
    "Mobile",
    "OnePeerExponential",
    "Periodic",
    "RandomActivation",
    "RandomEdges",
    "Schedule",
    "ScheduleLike",
    "Sequence",
    "SimpleBaseGraph",
    "Static",
    "Temporal",
    "is_static",
    "labels",
    "schedule_from_matrix",
]
