"""Communication graphs, their mixing matrices, and schedules that give one matrix a round."""

from typing import TYPE_CHECKING

from lazy_loader import attach

if TYPE_CHECKING:
    from topologies import analysis as analysis
    from topologies import graphs as graphs
    from topologies import pattern as pattern
    from topologies import schedules as schedules
    from topologies import weights as weights
    from topologies.analysis import *  # noqa: F403
    from topologies.graphs import *  # noqa: F403
    from topologies.pattern import adjacency as adjacency
    from topologies.schedules import *  # noqa: F403
    from topologies.weights import *  # noqa: F403
else:
    __getattr__, __dir__, __all__ = attach(
        __name__,
        submodules=["analysis", "graphs", "pattern", "schedules", "weights"],
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
                "grid",
                "hypercube",
                "path",
                "random_geometric",
                "random_regular",
                "ring",
                "small_world",
                "star",
                "torus",
            ],
            "pattern": ["adjacency"],
            "schedules": [
                "AgentFailure",
                "LinkFailure",
                "Matchings",
                "Mobile",
                "OnePeerExponential",
                "Periodic",
                "RandomEdges",
                "ScheduleLike",
                "Sequence",
                "Static",
                "Temporal",
                "schedule_from_matrix",
            ],
            "weights": ["fastest", "from_matrix", "laplacian", "lazy", "max_degree", "metropolis", "pull", "push", "sinkhorn"],
        },
    )
