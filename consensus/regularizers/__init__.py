"""Regularizers: the convex term r that all agents share."""

from consensus.regularizers.elastic_net import ElasticNet
from consensus.regularizers.l1 import L1
from consensus.regularizers.l2 import L2

__all__ = ["L1", "L2", "ElasticNet"]
