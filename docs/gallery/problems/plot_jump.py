"""
Following a target that jumps
=============================

Ten sensors measure a filter whose four taps change sign after 300 rounds. In every round each measures once, and steps along
the gradient of its squared error: least mean squares over a network. A long step forgets fast, and ends with more noise.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus.problems import Online
from consensus.solvers import DGD

agents, rounds, taps = 10, 600, np.array([1.0, -1.0, 0.5, 0.0])
rng = np.random.default_rng(0)
h, noise = rng.standard_normal((rounds + 1, agents, 4)), 0.1 * rng.standard_normal((rounds + 1, agents))


def target(round):
    return taps if round < 300 else -taps


def error(w, round):
    return (h[round] * (w - target(round))).sum(axis=1) - noise[round]


problem = Online(
    lambda w, round: error(w, round) ** 2 / (2 * agents),
    lambda w, round: error(w, round)[:, None] * h[round] / agents,
    agents=agents,
    parameters=4,
    optimum=target,
)
network = topologies.erdos_renyi(agents, 0.4, seed=0)

# %%
# Neighbours average their noise, and nobody becomes slower for it: the grey line is the same step without a network.

_, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
w, alone = np.zeros((agents, 4)), []
for round in range(rounds + 1):
    alone.append(np.sqrt(((w - target(round)) ** 2).sum(axis=1).mean()))
    w = w - 0.1 * error(w, round)[:, None] * h[round]
axes.semilogy(alone, ":", color="#777777", label="step 0.1, alone")
for step, color, style in [(0.1, "#0072b2", "-"), (0.02, "#d55e00", "--")]:
    history = consensus.solve(
        problem, network, DGD(step), rounds=rounds, start=np.zeros(4), record_every=1
    ).history
    axes.semilogy(
        history["round"], history["tracking_error"], style, color=color, label=f"step {step}, with neighbours"
    )
axes.axvline(300, color="black", linewidth=0.6)
axes.annotate("the target jumps", (300, 0.0055), xytext=(6, 0), textcoords="offset points", fontsize=8)
axes.set(xlabel="round", ylabel="distance from the target (root mean square)", ylim=(0.005, 4))
axes.legend(fontsize=8, loc="upper right")
plt.show()
