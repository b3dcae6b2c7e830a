"""Aggregation rules that tolerate Byzantine agents, and attacks by such agents."""

from consensus.robust.attack import Attack
from consensus.robust.attacks import ALIE, IPM, Dissensus, SignFlip
from consensus.robust.base import Robust
from consensus.robust.bucketing import Bucketing
from consensus.robust.clipped_gossip import ClippedGossip
from consensus.robust.cs_plus import CSPlus
from consensus.robust.labels import flip_labels
from consensus.robust.nna import NNA
from consensus.robust.nnm import NNM
from consensus.robust.pre_aggregation import PreAggregation

__all__ = [
    "ALIE",
    "IPM",
    "NNA",
    "NNM",
    "Attack",
    "Bucketing",
    "CSPlus",
    "ClippedGossip",
    "Dissensus",
    "PreAggregation",
    "Robust",
    "SignFlip",
    "flip_labels",
]
