"""What the tests of stochastic methods share."""

from problems import problem
from steps_by_hand import MLP, SCHEDULES

import consensus
import topologies
from consensus import Minibatches
from consensus.step_sizes import InverseSqrt

RULE = Minibatches(3, seed=2)
LAZY = topologies.Static(SCHEDULES["static"].graph(0), weights=topologies.lazy(topologies.metropolis))
FALLING = InverseSqrt(0.05)


def curved():
    """A neural network on shards of 4, 16, 9, 11, 7 and 13 samples."""
    return problem("squared", consensus.L2(0.01), MLP, scheme="sizes")
