"""A nonconvex cost of one weight, and its two convex surrogates at a point."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

x = np.random.default_rng(0).uniform(0.5, 2.0, 12)
d, tau, centre = np.tanh(1.5 * x), 0.1, 0.2
f, slope = np.tanh(centre * x), x / np.cosh(centre * x) ** 2
w = np.linspace(-0.6, 2.6, 400)
cost = 0.5 * np.mean((np.tanh(np.multiply.outer(w, x)) - d) ** 2, axis=1)
at = 0.5 * np.mean((f - d) ** 2)
full = at + np.mean((f - d) * slope) * (w - centre) + tau / 2 * (w - centre) ** 2
partial = (
    0.5 * np.mean((f + np.multiply.outer(w - centre, slope) - d) ** 2, axis=1) + tau / 2 * (w - centre) ** 2
)
ax = plt.figure(figsize=(7, 3.4), layout="constrained").gca()
ax.plot(w, cost, color="black", linewidth=2, label="cost of the agent")
ax.plot(w, full, "--", color="#d97700", label="full linearization: its slope")
ax.plot(w, partial, "-.", color="#0072b2", label="partial linearization: the model's slope inside the loss")
ax.plot(centre, at, "o", color="black")
ax.plot(w[partial.argmin()], partial.min(), "o", color="#0072b2")
ax.set(xlabel="w", ylabel="cost", ylim=(-0.35, 0.6))
ax.legend(fontsize=8)
plt.savefig(Path(__file__).with_suffix(".png"), dpi=110)
