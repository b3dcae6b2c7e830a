"""
Generators that meet a demand
=============================

Each generator chooses its own power, and only the sum is prescribed. What travels are prices, one number per
constraint: nobody tells others its costs, its limits or its power.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus.problems import Coupled, QuadraticCosts
from consensus.solvers import TrackingADMM

rng = np.random.default_rng(0)
curvature, offset, capacity = 10 ** rng.uniform(-1, 1, 12), rng.uniform(0, 2, 12), rng.uniform(1, 4, 12)
demand = 0.6 * capacity.sum()
costs = QuadraticCosts(curvature[:, None], offset[:, None], lower=0.0, upper=capacity[:, None])
problem = Coupled(costs, A=np.ones((12, 1, 1)), b=[demand])
network = topologies.RandomEdges(topologies.erdos_renyi(12, 0.4, seed=1), 0.5, seed=0)

prices, supply = [], []


def watch(info):
    prices.append(-info.w[:, 0].copy())
    supply.append(np.ravel(problem.primal(info.w)).sum())


result = consensus.solve(problem, network, TrackingADMM(), rounds=150, record_every=1, callbacks=[watch])

# %%
# The generators' prices become one, and the supply meets the demand.

_, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.plot(prices, color="#0072b2", linewidth=0.8)
left.set(xlabel="round", ylabel="price of each generator")
right.plot(supply, color="black")
right.axhline(demand, color="#d97700", linestyle="--", label="demand")
right.set(xlabel="round", ylabel="supply")
right.legend()
plt.show()

# %%
# The optimum: a generator below its capacity has a marginal cost equal to the price.

power, price = np.ravel(problem.primal(result.w)), -result.mean[0]
inside = (power > 1e-9) & (power < capacity - 1e-9)
print(f"price {price:.6f}; marginal costs {np.round((curvature * power + offset)[inside], 6)}")
