"""
Survival curves without moving a row
====================================

Four hospitals compare two treatments. They agree on a grid of months, and add at each of them how many patients are at
risk and how many died: a Kaplan-Meier curve and the log-rank test need nothing else. A Cox model then has each hospital
as a stratum, with a baseline hazard of its own.
"""

# %%
# The tables are made up here: patients of the arm "new" live longer, and some are followed for a short time only.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import consensus
import topologies

rng = np.random.default_rng(0)
tables = []
for size, pace in [(120, 1.0), (80, 1.5), (200, 0.8), (60, 1.2)]:
    table = pd.DataFrame({"age": rng.integers(40, 90, size), "arm": rng.choice(["new", "old"], size)})
    life = rng.exponential(24 / pace * np.exp(-0.02 * (table.age - 65) + 0.5 * (table.arm == "new")))
    followed = rng.uniform(6, 60, size)
    table["months"], table["died"] = np.minimum(life, followed), (life <= followed).astype(int)
    tables.append(table)

owned = consensus.data.own(tables, ["months", "died"], categories=["arm"])

# %%
# Times at which fewer than five are at risk, or fewer than five died since the time before, are not in the curves.

ring = topologies.ring(4)
curves = consensus.owners.kaplan_meier(owned, grid=range(2, 49, 2), by="arm", network=ring, secure=True)
ax = curves.plot()
ax.set(xlabel="months", title=f"log-rank test: p = {curves.log_rank.p:.2g}")
plt.show()

# %%
# The Cox model takes age into account, and that hospitals differ.

print(consensus.owners.fit(owned, "cox", network=ring, secure=True))
