"""
Four hospitals, four CSV files
==============================

Each hospital has a file with the stays of its patients. They want one model of the length of a stay, and no row may
leave its hospital. This script is the rehearsal: all four files are on one machine. The same script runs on four
machines (:doc:`/owners`).
"""

# %%
# The files are made up here. The third hospital has a ward C that the others do not have, and the fourth has few
# patients, who are old.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import consensus
import topologies

rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())


def stays(size, oldest, wards):
    frame = pd.DataFrame(
        {"age": rng.integers(20, oldest, size), "smokes": (rng.random(size) < 0.3).astype(int)}
    )
    frame["ward"] = rng.choice(wards, size)
    frame["days"] = 2 + 0.05 * frame.age + 3 * frame.smokes + (frame.ward == "B") + rng.normal(0, 0.7, size)
    return frame


tables = [
    stays(40, 50, ["A", "B"]),
    stays(25, 50, ["A", "B"]),
    stays(30, 60, ["A", "B", "C"]),
    stays(12, 95, ["A", "B"]),
]
files = [folder / f"hospital-{owner}.csv" for owner in range(4)]
for file, table in zip(files, tables, strict=True):
    table.to_csv(file, index=False)

# %%
# ``own`` lets the owners agree on columns, categories and scalers. It exchanges names, counts and sums, and lists all
# of them:

owned = consensus.data.own(files, target="days", categories=["ward"], test_size=0.3)
print(owned.revealed.to_string(index=False))

# %%
# Then they train one linear model on a ring, as if the files were one.

features = len(owned.pipeline.columns.features)
problem = consensus.Problem(
    consensus.Linear(features), consensus.SquaredLoss(), owned.shards, consensus.L2(1e-3)
)
result = consensus.solve(problem, topologies.ring(4), rounds=60, test=owned.test)
predictor = result.predictor(owned.pipeline)
print(predictor.predict(pd.DataFrame({"ward": ["C"], "smokes": [1], "age": [44]})), "days")

# %%
# What does a hospital gain? To compare, each also fits a model to its own training rows alone, and all models predict
# stays that none of them has seen.

new = pd.concat([stays(200, 95, ["A", "B"]), stays(100, 95, ["C"])])
common = np.sqrt(np.mean((predictor.predict(new) - new.days) ** 2))
alone = []
for owner in range(4):
    mine = owned.shards.weights[owner] > 0
    shard = consensus.Shards.from_list(
        [(owned.shards.features[owner][mine], owned.shards.targets[owner][mine])]
    )
    single = consensus.Problem(consensus.Linear(features), consensus.SquaredLoss(), shard, consensus.L2(1e-3))
    w = consensus.solve(single, topologies.complete(1), rounds=30).mean
    outputs = owned.pipeline.original(single.model.predict(w, owned.pipeline.transform(new)))
    alone.append(np.sqrt(np.mean((np.ravel(outputs) - new.days) ** 2)))

ax = plt.figure(figsize=(6, 3.5), layout="constrained").gca()
ax.bar(
    [*(f"hospital {owner}\nalone" for owner in range(4)), "together"],
    [*alone, common],
    color=["0.7"] * 4 + ["#0072b2"],
)
ax.axhline(0.7, color="black", linestyle=":", label="noise in the data")
ax.set(ylabel="error on new patients [days]", ylim=(0, 1.25 * max(alone)))
ax.legend()
plt.show()
