"""Mixing that bears liars, and agents that lie."""

from consensus.robust.attack import Attack
from consensus.robust.base import Robust
from consensus.robust.clipped_gossip import ClippedGossip
from consensus.robust.cs_plus import CSPlus
from consensus.robust.labels import flip_labels
from consensus.robust.lies import ALIE, IPM, Dissensus, SignFlip
from consensus.robust.nna import NNA

__all__ = ["ALIE", "IPM", "NNA", "Attack", "CSPlus", "ClippedGossip", "Dissensus", "Robust", "SignFlip", "flip_labels"]
