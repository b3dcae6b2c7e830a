"""Communication graphs, their mixing matrices, and schedules that give one matrix a round."""

from topologies.analysis import components, spectral_gap
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
from topologies.schedules import Periodic, RandomEdges, Static
from topologies.weights import adjacency, metropolis

__all__ = [
    "Periodic",
    "RandomEdges",
    "Static",
    "adjacency",
    "barabasi_albert",
    "complete",
    "components",
    "erdos_renyi",
    "grid",
    "hypercube",
    "metropolis",
    "path",
    "random_geometric",
    "random_regular",
    "ring",
    "small_world",
    "spectral_gap",
    "star",
    "torus",
]
