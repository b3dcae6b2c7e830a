"""Weights: functions from a graph to a mixing matrix."""

from topologies.weights.directed import pull, push
from topologies.weights.fastest import fastest
from topologies.weights.given import from_matrix
from topologies.weights.laplacian import laplacian, max_degree
from topologies.weights.lazy import lazy
from topologies.weights.metropolis import metropolis
from topologies.weights.sinkhorn import sinkhorn

__all__ = ["fastest", "from_matrix", "laplacian", "lazy", "max_degree", "metropolis", "pull", "push", "sinkhorn"]
