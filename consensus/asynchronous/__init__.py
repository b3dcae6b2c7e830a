"""Solvers without rounds, whose agents wake when they like and whose messages come late or never, and engines for them."""

from consensus.asynchronous.ad_psgd import ADPSGD
from consensus.asynchronous.arcs import Arcs
from consensus.asynchronous.asy_sonata import ASYSONATA
from consensus.asynchronous.asynchronous_dgd import AsynchronousDGD
from consensus.asynchronous.base import AsynchronousSolver
from consensus.asynchronous.overlap_sgp import OverlapSGP
from consensus.asynchronous.processes import AsyncProcesses
from consensus.asynchronous.ranks import AsyncMPI
from consensus.asynchronous.rasgp import RASGP
from consensus.asynchronous.simulated import Simulated
from consensus.asynchronous.torch_ranks import AsyncTorch

__all__ = [
    "ADPSGD",
    "ASYSONATA",
    "RASGP",
    "Arcs",
    "AsyncMPI",
    "AsyncProcesses",
    "AsyncTorch",
    "AsynchronousDGD",
    "AsynchronousSolver",
    "OverlapSGP",
    "Simulated",
]
