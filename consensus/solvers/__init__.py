"""Decentralised methods: one file each."""

from consensus.solvers.adaptive import AdaptiveNEXT
from consensus.solvers.auto_gt import AutoGT
from consensus.solvers.base import Solver
from consensus.solvers.check import check_needs
from consensus.solvers.datos import DATOS
from consensus.solvers.dgd import DGD
from consensus.solvers.gossip import Gossip
from consensus.solvers.gradient_tracking import GradientTracking
from consensus.solvers.kgt import KGT
from consensus.solvers.led import LED
from consensus.solvers.needs import Needs
from consensus.solvers.next import NEXT
from consensus.solvers.prox_skip import ProxSkip
from consensus.solvers.push_diging import PushDIGing
from consensus.solvers.push_pull import PushPull
from consensus.solvers.sonata import SONATA
from consensus.solvers.table import table

__all__ = [
    "DATOS",
    "DGD",
    "KGT",
    "LED",
    "NEXT",
    "SONATA",
    "AdaptiveNEXT",
    "AutoGT",
    "Gossip",
    "GradientTracking",
    "Needs",
    "ProxSkip",
    "PushDIGing",
    "PushPull",
    "Solver",
    "check_needs",
    "table",
]
