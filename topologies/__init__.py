"""Communication graphs, their mixing matrices, and schedules that give one matrix a round."""

from typing import TYPE_CHECKING

from lazy_loader import attach

from topologies import _strangers

if TYPE_CHECKING:
    from topologies import analysis as analysis
    from topologies import graphs as graphs
    from topologies import schedules as schedules
    from topologies import weights as weights
    from topologies.analysis import Check as Check
    from topologies.analysis import Conditions as Conditions
    from topologies.analysis import GapEstimate as GapEstimate
    from topologies.analysis import check as check
    from topologies.analysis import components as components
    from topologies.analysis import contraction as contraction
    from topologies.analysis import estimate_gap as estimate_gap
    from topologies.analysis import joint_connectivity as joint_connectivity
    from topologies.analysis import lowest_eigenvalue as lowest_eigenvalue
    from topologies.analysis import mixing_time as mixing_time
    from topologies.analysis import spectral_gap as spectral_gap
    from topologies.analysis.conditions import conditions as conditions
    from topologies.graphs import barabasi_albert as barabasi_albert
    from topologies.graphs import complete as complete
    from topologies.graphs import erdos_renyi as erdos_renyi
    from topologies.graphs import geometric as geometric
    from topologies.graphs import grid as grid
    from topologies.graphs import hypercube as hypercube
    from topologies.graphs import path as path
    from topologies.graphs import random_geometric as random_geometric
    from topologies.graphs import random_regular as random_regular
    from topologies.graphs import read_graph as read_graph
    from topologies.graphs import ring as ring
    from topologies.graphs import small_world as small_world
    from topologies.graphs import star as star
    from topologies.graphs import torus as torus
    from topologies.pattern import adjacency as adjacency
    from topologies.schedules import AgentFailure as AgentFailure
    from topologies.schedules import AlternatingExponentialRing as AlternatingExponentialRing
    from topologies.schedules import BaseGraph as BaseGraph
    from topologies.schedules import EquiDyn as EquiDyn
    from topologies.schedules import EquiStatic as EquiStatic
    from topologies.schedules import GilbertElliott as GilbertElliott
    from topologies.schedules import HyperHypercube as HyperHypercube
    from topologies.schedules import LinkFailure as LinkFailure
    from topologies.schedules import Matchings as Matchings
    from topologies.schedules import Mobile as Mobile
    from topologies.schedules import OnePeerExponential as OnePeerExponential
    from topologies.schedules import Periodic as Periodic
    from topologies.schedules import RandomActivation as RandomActivation
    from topologies.schedules import RandomEdges as RandomEdges
    from topologies.schedules import ScheduleLike as ScheduleLike
    from topologies.schedules import Sequence as Sequence
    from topologies.schedules import SimpleBaseGraph as SimpleBaseGraph
    from topologies.schedules import Static as Static
    from topologies.schedules import Temporal as Temporal
    from topologies.schedules import schedule_from_matrix as schedule_from_matrix
    from topologies.weights import from_matrix as from_matrix
    from topologies.weights import max_degree as max_degree
    from topologies.weights import pull as pull
    from topologies.weights import push as push
    from topologies.weights.fastest import fastest as fastest
    from topologies.weights.laplacian import laplacian as laplacian
    from topologies.weights.lazy import lazy as lazy
    from topologies.weights.metropolis import metropolis as metropolis
    from topologies.weights.sinkhorn import sinkhorn as sinkhorn
else:
    __getattr__, __dir__, __all__ = attach(
        __name__,
        submodules=["analysis", "graphs", "schedules", "weights"],
        submod_attrs={
            "analysis": [
                "Check",
                "Conditions",
                "GapEstimate",
                "check",
                "components",
                "conditions",
                "contraction",
                "estimate_gap",
                "joint_connectivity",
                "lowest_eigenvalue",
                "mixing_time",
                "spectral_gap",
            ],
            "graphs": [
                "barabasi_albert",
                "complete",
                "erdos_renyi",
                "geometric",
                "grid",
                "hypercube",
                "path",
                "random_geometric",
                "random_regular",
                "read_graph",
                "ring",
                "small_world",
                "star",
                "torus",
            ],
            "pattern": ["adjacency"],
            "schedules": [
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
                "ScheduleLike",
                "Sequence",
                "SimpleBaseGraph",
                "Static",
                "Temporal",
                "schedule_from_matrix",
            ],
            "weights": ["fastest", "from_matrix", "laplacian", "lazy", "max_degree", "metropolis", "pull", "push", "sinkhorn"],
        },
    )

_strangers.warn()
