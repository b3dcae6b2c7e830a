"""Regularizers: the term r that all agents share, including constraints."""

from consensus.regularizers.base import Regularizer
from consensus.regularizers.box import Box
from consensus.regularizers.difference import DifferenceOfConvex
from consensus.regularizers.elastic_net import ElasticNet
from consensus.regularizers.group_l1 import GroupL1
from consensus.regularizers.l1 import L1
from consensus.regularizers.l2 import L2
from consensus.regularizers.l2_ball import L2Ball
from consensus.regularizers.log_sum import LogSum
from consensus.regularizers.nonnegative import NonNegative
from consensus.regularizers.scad import SCAD
from consensus.regularizers.separable import Separable
from consensus.regularizers.weighted import WeightedElasticNet

__all__ = [
    "L1",
    "L2",
    "SCAD",
    "Box",
    "DifferenceOfConvex",
    "ElasticNet",
    "GroupL1",
    "L2Ball",
    "LogSum",
    "NonNegative",
    "Regularizer",
    "Separable",
    "WeightedElasticNet",
]
