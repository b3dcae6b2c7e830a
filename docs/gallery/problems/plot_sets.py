"""
Sensors that know sets
======================

Five sensors hear the same beacon. Each knows a disc around itself in which the beacon must be, and has a noisy fix of its
place. They agree on the place nearest to all fixes that lies in all discs, and no sensor tells another its disc.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus.solvers import NIDS

rng = np.random.default_rng(4)
beacon = np.array([0.4, 0.2])
angles, distances = 2 * np.pi * np.arange(5) / 5, rng.uniform(0.8, 1.6, 5)
sensors = beacon + distances[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
radii = 1.2 * distances
fixes = beacon + [0.5, 0.3] + 0.4 * rng.standard_normal((5, 2))


class Disc:
    """The indicator of a disc: its prox is the projection."""

    def __init__(self, centre, radius):
        self.centre, self.radius = centre, radius

    def value(self, w):
        inside = np.linalg.norm(np.asarray(w) - self.centre, axis=-1) <= self.radius * (1 + 1e-9)
        return np.where(inside, 0.0, np.inf)[()]

    def prox(self, w, step):
        away = np.asarray(w) - self.centre
        length = np.linalg.norm(away, axis=-1, keepdims=True)
        return self.centre + away * np.minimum(1, self.radius / np.maximum(length, 1e-300))


problem = consensus.Problem.from_functions(
    lambda w: ((w - fixes) ** 2).sum(axis=1) / 2,
    lambda w: w - fixes,
    agents=5,
    parameters=2,
    regularizer=[Disc(centre, radius) for centre, radius in zip(sensors, radii, strict=True)],
    lipschitz=1.0,
)
paths = []
result = consensus.solve(
    problem,
    topologies.ring(5),
    NIDS(),
    rounds=600,
    start=fixes,
    callbacks=[lambda info: paths.append(info.w.copy())],
)

# %%
# The mean of the fixes is outside; the agreed place is on the edge of the intersection.

figure, axes = plt.subplots(figsize=(9, 5.4), layout="constrained")
for centre, radius in zip(sensors, radii, strict=True):
    axes.add_patch(plt.Circle(centre, radius, fill=True, alpha=0.08, color="#0072b2"))
    axes.add_patch(plt.Circle(centre, radius, fill=False, linewidth=0.7, color="#0072b2"))
paths = np.array(paths)
axes.plot(paths[..., 0], paths[..., 1], color="grey", linewidth=0.6)
axes.plot(*sensors.T, "^", color="#0072b2", label="sensors and their discs")
axes.plot(*fixes.T, "x", color="#d55e00", label="fixes")
axes.plot(*fixes.mean(axis=0), "+", color="#d55e00", markersize=12, label="mean of the fixes")
axes.plot(*beacon, "*", color="#009e73", markersize=13, label="beacon")
axes.plot(*result.mean, "s", color="black", markersize=6, label="what they agree on")
axes.set(aspect="equal", xlabel="x", ylabel="y")
axes.autoscale_view()
figure.legend(fontsize=8, loc="outside right upper")
plt.show()
