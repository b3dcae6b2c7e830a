"""
A model in JAX
==============

A model is any function of parameters and samples. JAX differentiates and compiles it for all agents of a process at
once. Here it is a small convolutional network on images of digits; each agent has seen two or three digits only.
"""

# %%

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus.solvers import GradientTracking

X, y = consensus.datasets.load("digits")
images = (X / 16).reshape(-1, 8, 8, 1)
train, test = np.arange(len(y)) % 5 > 0, np.arange(len(y)) % 5 == 0
shards = consensus.partition(images[train], y[train], agents=6, scheme="dirichlet", concentration=0.2)


def network_of(parameters, x):
    x = jax.lax.conv_general_dilated(
        x, parameters["filters"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jnp.tanh(x).reshape(len(x), -1) @ parameters["out"] + parameters["bias"]


rng = np.random.default_rng(0)
start = {
    "filters": 0.3 * rng.standard_normal((3, 3, 1, 8)),
    "out": 0.1 * rng.standard_normal((128, 10)),
    "bias": np.zeros(10),
}
model = consensus.models.JAX(network_of, start)
problem = consensus.Problem(model, consensus.CrossEntropy(), shards, consensus.L2(1e-4))
result = consensus.solve(
    problem,
    topologies.ring(6),
    GradientTracking(0.2, batch=64),
    rounds=250,
    record_every=10,
    test=(images[test], y[test]),
)

# %%

_, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
consensus.plotting.convergence(result.history, "test_error", "epochs", ax=left)
filters = model.unflatten(result.mean)["filters"]
right.imshow(np.hstack([np.pad(np.asarray(filters)[:, :, 0, k], 1) for k in range(8)]), cmap="RdBu")
right.set(title="the eight filters", xticks=[], yticks=[])
plt.show()
