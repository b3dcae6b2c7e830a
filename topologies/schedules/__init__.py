"""Schedules: which mixing matrix the agents use in which round.

What a schedule must have, and may have, is said in one place, `topologies.ScheduleLike`. Those here keep their edges
as arrays, so they are cheap to send to another process, and compare equal when they are of one kind with equal settings. The
arrays that they return may be their own: copy one before changing it.
"""

from topologies.schedules.agent_failure import AgentFailure
from topologies.schedules.base import Schedule, ScheduleLike, is_static, labels
from topologies.schedules.link_failure import LinkFailure
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
    "ScheduleLike",
    "Sequence",
    "Static",
    "Temporal",
    "is_static",
    "labels",
    "schedule_from_matrix",
]
