"""Figures of runs and networks. Colours and line styles differ in grey print too."""

from consensus.plotting.animation import animate
from consensus.plotting.networks import topology
from consensus.plotting.properties import degrees, spectrum
from consensus.plotting.runs import COLORS, DASHES, LABELS, MARKERS, adaptation, convergence

COLOURS = COLORS

__all__ = ["COLORS", "DASHES", "LABELS", "MARKERS", "adaptation", "animate", "convergence", "degrees", "spectrum", "topology"]
