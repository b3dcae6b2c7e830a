"""The network as a solver sees it: exchanges with neighbours, their messages, and sums over a spanning tree."""

from typing import TYPE_CHECKING

from consensus._elsewhere import elsewhere
from consensus.communication.block import BlockNetwork
from consensus.communication.codec import Codec
from consensus.communication.edges import Edges
from consensus.communication.flooding import Flooding
from consensus.communication.messages import Messages
from consensus.communication.network import Network
from consensus.communication.packed import Packed
from consensus.communication.states import flatten, joined, rebuild

if TYPE_CHECKING:
    from consensus.privacy.fixed_point import SecureSums as SecureSums
    from consensus.trees.tree import Tree as Tree

__getattr__, __dir__ = elsewhere(
    __name__,
    {
        "SecureSums": "consensus.privacy.fixed_point",
        "Tree": "consensus.trees.tree",
    },
)

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
