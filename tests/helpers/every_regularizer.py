"""A regularizer of every kind, for points of 8 coordinates."""

import numpy as np

from consensus.regularizers import L1, L2, SCAD, Box, ElasticNet, GroupL1, L2Ball, LogSum, NonNegative, WeightedElasticNet

P = 8
GROUPS = [[6, 1], [0, 2, 3], [5]]  # 4 and 7 are in none
LOWER = np.array([-0.5, -np.inf, 0.2, -1.0, -np.inf, -0.1, 0.0, -2.0])
UPPER = np.array([0.5, 0.3, 0.2, np.inf, np.inf, 0.4, 1.0, -0.5])
CONVEX = {
    "L1": L1(0.7),
    "L1 of no weight": L1(0),
    "L2": L2(0.4),
    "L2 of each parameter": L2([0, 0.3, 1.3, 0.2, 0, 5.0, 0.4, 0]),
    "ElasticNet": ElasticNet(l1=0.6, l2=1.3),
    "ElasticNet without squares": ElasticNet(l1=0.6, l2=0),
    "ElasticNet without absolute values": ElasticNet(l1=0, l2=1.3),
    "L2 of no weight": L2(0),
    "GroupL1": GroupL1(0.5, GROUPS),
    "GroupL1 of neighbours": GroupL1(0.3, [[1, 2, 3], [4], [5, 6]], parameters=P),
    "GroupL1 of no weight": GroupL1(0, GROUPS),
    "GroupL1 of no groups": GroupL1(0.5, []),
    "WeightedElasticNet": WeightedElasticNet([0.6, 0, 0, 2.0, 0.1, 0, 0.3, 0], [0, 0, 1.3, 0.2, 0, 5.0, 0.4, 0]),
    "WeightedElasticNet without absolute values": WeightedElasticNet(np.zeros(P), [0, 0, 1.3, 0.2, 0, 5.0, 0.4, 0]),
    "Box": Box(-0.4, 0.9),
    "Box with bounds of each coordinate": Box(LOWER, UPPER),
    "Box with one bound": Box(-np.inf, UPPER),
    "NonNegative": NonNegative(),
    "L2Ball": L2Ball(1.2),
    "L2Ball with points inside": L2Ball(4.0),
}
NONCONVEX = {
    "LogSum": LogSum(0.3, epsilon=0.8),
    "LogSum that jumps": LogSum(1.5, epsilon=0.2),
    "LogSum of no weight": LogSum(0, epsilon=0.2),
    "SCAD": SCAD(0.6),
    "SCAD of another shape": SCAD(0.4, a=2.5),
    "SCAD of no weight": SCAD(0),
}
ALL = CONVEX | NONCONVEX
