"""Methods that send compressed messages: one file each."""

from consensus.solvers.compressed.beer import BEER
from consensus.solvers.compressed.cgt import CGT
from consensus.solvers.compressed.choco_sgd import ChocoSGD
from consensus.solvers.compressed.compressed import Compressed
from consensus.solvers.compressed.lead import LEAD
from consensus.solvers.compressed.motef import MoTEF
from consensus.solvers.compressed.power_gossip import PowerGossip

__all__ = ["BEER", "CGT", "LEAD", "ChocoSGD", "Compressed", "MoTEF", "PowerGossip"]
