"""Decentralised methods: one file each."""

from typing import TYPE_CHECKING

from consensus._elsewhere import elsewhere
from consensus.solvers.acc_gt import AccGT
from consensus.solvers.adaptive import AdaptiveNEXT
from consensus.solvers.atg import ATG
from consensus.solvers.auto import Auto
from consensus.solvers.auto_gt import AutoGT
from consensus.solvers.base import Solver
from consensus.solvers.check import check_needs
from consensus.solvers.d2 import D2
from consensus.solvers.dadmm import DADMM
from consensus.solvers.datos import DATOS
from consensus.solvers.decent_lam import DecentLaM
from consensus.solvers.dgd import DGD
from consensus.solvers.diloco import DiLoCo
from consensus.solvers.dinno import DiNNO
from consensus.solvers.dlm import DLM
from consensus.solvers.dsgdm import DSGDm
from consensus.solvers.exact_diffusion import ExactDiffusion
from consensus.solvers.extra import EXTRA
from consensus.solvers.gossip import Gossip
from consensus.solvers.gradient_tracking import GradientTracking
from consensus.solvers.gt_hsgd import GTHSGD
from consensus.solvers.gt_saga import GTSAGA
from consensus.solvers.gt_sarah import GTSARAH
from consensus.solvers.gt_vr import GTVR
from consensus.solvers.kgt import KGT
from consensus.solvers.led import LED
from consensus.solvers.ltadmm import LTADMM
from consensus.solvers.needs import Needs
from consensus.solvers.network_giant import NetworkGIANT
from consensus.solvers.newton_tracking import NewtonTracking
from consensus.solvers.next import NEXT
from consensus.solvers.nids import NIDS
from consensus.solvers.noloco import NoLoCo
from consensus.solvers.opapc import OPAPC
from consensus.solvers.pgextra import PGEXTRA
from consensus.solvers.prox_gt import ProxGT
from consensus.solvers.prox_skip import ProxSkip
from consensus.solvers.push_diging import PushDIGing
from consensus.solvers.push_pull import PushPull
from consensus.solvers.qg_dsgdm import QGDSGDm
from consensus.solvers.relay_sgd import RelaySGD
from consensus.solvers.sgp import SGP
from consensus.solvers.sonata import SONATA
from consensus.solvers.table import table
from consensus.solvers.wang_elia import WangElia

if TYPE_CHECKING:
    from consensus.compression.beer import BEER as BEER
    from consensus.compression.cgt import CGT as CGT
    from consensus.compression.choco_sgd import ChocoSGD as ChocoSGD
    from consensus.compression.compressed import Compressed as Compressed
    from consensus.compression.lead import LEAD as LEAD
    from consensus.compression.motef import MoTEF as MoTEF
    from consensus.compression.power_gossip import PowerGossip as PowerGossip
    from consensus.coupled.tracking_admm import TrackingADMM as TrackingADMM
    from consensus.personal.personalised import Personalised as Personalised
    from consensus.personal.shared_body import SharedBody as SharedBody
    from consensus.trees.tree_lbfgs import TreeLBFGS as TreeLBFGS
    from consensus.trees.tree_newton import TreeNewton as TreeNewton

__getattr__, __dir__ = elsewhere(
    __name__,
    {
        "BEER": "consensus.compression.beer",
        "CGT": "consensus.compression.cgt",
        "ChocoSGD": "consensus.compression.choco_sgd",
        "Compressed": "consensus.compression.compressed",
        "LEAD": "consensus.compression.lead",
        "MoTEF": "consensus.compression.motef",
        "Personalised": "consensus.personal.personalised",
        "PowerGossip": "consensus.compression.power_gossip",
        "SharedBody": "consensus.personal.shared_body",
        "TrackingADMM": "consensus.coupled.tracking_admm",
        "TreeLBFGS": "consensus.trees.tree_lbfgs",
        "TreeNewton": "consensus.trees.tree_newton",
    },
)

# fmt: off
__all__ = [
    "ATG", "BEER", "CGT", "D2", "DADMM", "DATOS", "DGD", "DLM", "EXTRA", "GTHSGD", "GTSAGA", "GTSARAH", "GTVR", "KGT",
    "LEAD", "LED", "LTADMM", "NEXT", "NIDS", "OPAPC", "PGEXTRA", "SGP", "SONATA", "AccGT", "AdaptiveNEXT", "Auto", "AutoGT",
    "ChocoSGD", "Compressed", "DSGDm", "DecentLaM", "DiLoCo", "DiNNO", "ExactDiffusion", "Gossip", "GradientTracking",
    "MoTEF", "Needs", "NetworkGIANT", "NewtonTracking", "NoLoCo", "Personalised", "PowerGossip", "ProxGT", "ProxSkip",
    "PushDIGing", "PushPull", "QGDSGDm", "RelaySGD", "SharedBody", "Solver", "TrackingADMM", "TreeLBFGS", "TreeNewton",
    "WangElia", "check_needs", "table",
]
# fmt: on
