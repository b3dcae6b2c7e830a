"""The iterates of eight agents with unlike quadratic costs: DGD, and gradient tracking."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus.solvers import DGD, GradientTracking

rng = np.random.default_rng(1)
centres, curvature = rng.normal(0, 1, (8, 1)), rng.uniform(0.3, 2.0, (8, 1))
problem = consensus.Problem.from_functions(
    lambda w, rows: 0.5 * (curvature[rows] * (w - centres[rows]) ** 2).sum(axis=1),
    lambda w, rows: curvature[rows] * (w - centres[rows]),
    agents=8,
    parameters=1,
)
_, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
for ax, (name, solver) in zip(
    axes, {"DGD": DGD(0.02), "gradient tracking": GradientTracking(0.02)}.items(), strict=True
):
    rows = []
    consensus.solve(
        problem,
        topologies.ring(8),
        solver,
        rounds=60,
        record_every=1,
        callbacks=[lambda info, rows=rows: rows.append(info.w[:, 0])],
    )
    ax.plot(np.array(rows), color="#0072b2", linewidth=0.9)
    ax.axhline((curvature * centres).sum() / curvature.sum(), color="black", linestyle=":")
    ax.set(title=name, xlabel="rounds")
axes[0].set_ylabel("w of each agent")
plt.savefig(Path(__file__).with_suffix(".png"), dpi=110)
