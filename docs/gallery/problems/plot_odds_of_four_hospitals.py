"""
Odds ratios of four hospitals
=============================

Four hospitals fit one logistic regression, with standard errors and confidence intervals, as to all their patients. No
row leaves its hospital: they add gradients and Hessians along a ring, under masks that hide each hospital's terms.
"""

# %%
# The tables are made up here. The hospitals differ in size, and in how old their patients are.

import contextlib
import io

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import consensus
import topologies

rng = np.random.default_rng(1)
tables = []
for size, oldest in [(60, 60), (300, 80), (150, 95), (90, 70)]:
    table = pd.DataFrame(
        {
            "decades": rng.uniform(2, oldest / 10, size),
            "smokes": (rng.random(size) < 0.3).astype(int),
            "ward": rng.choice(["A", "B"], size),
        }
    )
    odds = np.exp(-3 + 0.4 * table.decades + 0.8 * table.smokes)
    table["readmitted"] = np.where(rng.random(size) < odds / (1 + odds), "yes", "no")
    tables.append(table)

owned = consensus.data.own(tables, "readmitted", categories=["ward"])
fit = consensus.owners.fit(owned, "logistic", network=topologies.ring(4), secure=True)
print(fit)

# %%
# The forest plot has the coefficients, which are logarithms of odds ratios. Crosses are what each hospital would find by
# itself.

ax = fit.plot()
names = [label.get_text() for label in ax.get_yticklabels()]
for place, table in enumerate(tables):
    with contextlib.redirect_stdout(io.StringIO()):  # what would be sent, to nobody
        own = consensus.data.own([table], "readmitted", categories=["ward"])
    alone = consensus.owners.fit(own, "logistic").summary().coefficient
    ax.plot(alone[names], np.arange(len(names)) + 0.1 * (place - 1.5), "x", color="0.5", zorder=0)
plt.show()
