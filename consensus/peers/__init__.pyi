from consensus.peers.certificates import keys as keys
from consensus.peers.engine import Peers as Peers
