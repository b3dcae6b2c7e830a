"""Directions: what an agent steps along, by its local or tracked gradients."""

from consensus.directions.adam import Adam
from consensus.directions.adamw import AdamW
from consensus.directions.base import Direction
from consensus.directions.clip import Clip
from consensus.directions.momentum import Momentum
from consensus.directions.muon import Muon

__all__ = ["Adam", "AdamW", "Clip", "Direction", "Momentum", "Muon"]
