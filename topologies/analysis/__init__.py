"""Analysis of mixing matrices and schedules: connectivity, speed of agreement, conditions of theorems."""

from topologies.analysis.conditions import Conditions, conditions
from topologies.analysis.connectivity import components, crossing, joint_connectivity, parts
from topologies.analysis.estimate import GapEstimate, estimate_gap
from topologies.analysis.needs import Check, check
from topologies.analysis.rates import contraction, mixing_time
from topologies.analysis.spectrum import lowest_eigenvalue, spectral_gap

__all__ = [
    "Check",
    "Conditions",
    "GapEstimate",
    "check",
    "components",
    "conditions",
    "contraction",
    "crossing",
    "estimate_gap",
    "joint_connectivity",
    "lowest_eigenvalue",
    "mixing_time",
    "parts",
    "spectral_gap",
]
