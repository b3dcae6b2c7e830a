"""
A first run
===========

Ten agents share the diabetes data and train a small network over a random graph whose links come and go.
"""

import consensus
import topologies

data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
shards = consensus.partition(data.X, data.y, agents=10, scheme="sorted")
problem = consensus.Problem(consensus.MLP([10, 20, 1]), consensus.SquaredLoss(), shards, consensus.L2(1e-2))
network = topologies.RandomEdges(topologies.erdos_renyi(10, 0.4, seed=0), probability=0.5, seed=0)
result = consensus.solve(problem, network, rounds=50, record_every=5)
consensus.plotting.convergence(result.history)
