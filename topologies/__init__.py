"""Communication graphs, their mixing matrices, and schedules that give one matrix a round."""

from topologies.analysis import components, spectral_gap
from topologies.analysis_conditions import Conditions, conditions
from topologies.analysis_connectivity import joint_connectivity
from topologies.analysis_rates import contraction, mixing_time
from topologies.check import Check, check
from topologies.estimate import GapEstimate, estimate_gap
from topologies.failures import AgentFailure, LinkFailure
from topologies.gossip import Matchings, OnePeerExponential
from topologies.graphs import (
    barabasi_albert,
    complete,
    erdos_renyi,
    grid,
    hypercube,
    path,
    random_geometric,
    random_regular,
    ring,
    small_world,
    star,
    torus,
)
from topologies.mobile import Mobile
from topologies.schedules import Periodic, RandomEdges, Static
from topologies.schedules_sequence import Sequence
from topologies.temporal import Temporal
from topologies.weights import adjacency, metropolis
from topologies.weights_directed import pull, push
from topologies.weights_fastest import fastest
from topologies.weights_laplacian import laplacian, max_degree
from topologies.weights_lazy import lazy
from topologies.weights_matrix import from_matrix, schedule_from_matrix
from topologies.weights_sinkhorn import sinkhorn

__all__ = [
    "AgentFailure",
    "Check",
    "Conditions",
    "GapEstimate",
    "LinkFailure",
    "Matchings",
    "Mobile",
    "OnePeerExponential",
    "Periodic",
    "RandomEdges",
    "Sequence",
    "Static",
    "Temporal",
    "adjacency",
    "barabasi_albert",
    "check",
    "complete",
    "components",
    "conditions",
    "contraction",
    "erdos_renyi",
    "estimate_gap",
    "fastest",
    "from_matrix",
    "grid",
    "hypercube",
    "joint_connectivity",
    "laplacian",
    "lazy",
    "max_degree",
    "metropolis",
    "mixing_time",
    "path",
    "pull",
    "push",
    "random_geometric",
    "random_regular",
    "ring",
    "schedule_from_matrix",
    "sinkhorn",
    "small_world",
    "spectral_gap",
    "star",
    "torus",
]
