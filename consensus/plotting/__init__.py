"""Figures of runs and networks. Colours and line styles differ in grey print too."""

from consensus.plotting.animation import animate
from consensus.plotting.networks import degrees, spectrum, topology
from consensus.plotting.runs import COLOURS, DASHES, LABELS, MARKERS, adaptation, convergence

__all__ = [
    "COLOURS",
    "DASHES",
    "LABELS",
    "MARKERS",
    "adaptation",
    "animate",
    "convergence",
    "degrees",
    "spectrum",
    "topology",
]
