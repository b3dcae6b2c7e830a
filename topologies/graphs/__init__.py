"""Undirected graphs by name and size, with the nodes 0, ..., agents - 1 in that order, and graphs of files."""

from topologies.graphs.files import read_graph
from topologies.graphs.fixed import complete, grid, hypercube, path, ring, star, torus
from topologies.graphs.random import barabasi_albert, erdos_renyi, geometric, random_geometric, random_regular, small_world

__all__ = [
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
]
