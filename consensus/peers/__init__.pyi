from consensus.peers.certificates import keys as keys
from consensus.peers.checks import Finding as Finding
from consensus.peers.checks import check as check
from consensus.peers.engine import Peers as Peers
