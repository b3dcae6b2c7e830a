"""The network as a solver sees it: exchanges with neighbours, their messages, and sums over a spanning tree."""

from consensus.communication.block import BlockNetwork
from consensus.communication.codec import Codec
from consensus.communication.edges import Edges
from consensus.communication.fixed_point import SecureSums
from consensus.communication.flooding import Flooding
from consensus.communication.messages import Messages
from consensus.communication.network import Network
from consensus.communication.packed import Packed
from consensus.communication.states import flatten, joined, rebuild
from consensus.communication.tree import Tree

__all__ = [
    "BlockNetwork",
    "Codec",
    "Edges",
    "Flooding",
    "Messages",
    "Network",
    "Packed",
    "SecureSums",
    "Tree",
    "flatten",
    "joined",
    "rebuild",
]
