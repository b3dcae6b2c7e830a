"""Under mpiexec: a network whose matrices are spread over the ranks, for the tests to look at what comes out.

usage: tensor_ranks.py (perceptron | transformer) split folder
"""

import json
import sys
import tracemalloc
from pathlib import Path

import numpy as np

from consensus.centralized import Grid, ShardedMLP, ShardedTransformer
from consensus.engines import MPI
from consensus.model_parallel.transformer import TransformerSizes
from consensus.models import MLP

SAMPLES = 72
SIZES = {
    "perceptron": MLP([144, 288, 144, 432]),
    "transformer": TransformerSizes.checked(width=24, heads=6, hidden=48, sequence=5, activation="tanh"),
}


def given(kind):
    """Parameters, features and cotangents."""
    rng, sizes = np.random.default_rng(0), SIZES[kind]
    return sizes.init(rng), rng.standard_normal((SAMPLES, sizes.features)), rng.standard_normal((SAMPLES, sizes.outputs))


def main(kind, split, folder):
    w, x, u = given(kind)
    engine, sizes = MPI(), SIZES[kind]
    grid = Grid(engine.ranks, split)
    network = ShardedMLP(sizes.widths, grid) if kind == "perceptron" else ShardedTransformer(*sizes[:4], grid, sizes.activation)
    x, u = network.block(x), network.block(u, outputs=True)
    tracemalloc.start()
    network.take(w)
    parameters = tracemalloc.get_traced_memory()[0]
    block = network.forward(x)
    activations = tracemalloc.get_traced_memory()[0] - parameters - block.nbytes
    if kind == "perceptron":
        activations += x.nbytes  # which its first layer needs; layer normalisation keeps what it made of them
    forward = network.grid.numbers
    slopes = network.backward(u)
    said = {"memory": (parameters, activations), "held": network.held, "sent": (forward, network.grid.numbers - forward)}
    outputs, gradient = np.full((SAMPLES, sizes.outputs), np.nan), np.full(sizes.parameters, np.nan)
    network.put(block, outputs)
    network.write(slopes, gradient)
    # Each rank fills its blocks; those that are equal on all ranks of a line are written by several.
    everyone = engine.ranks.allgather((outputs, gradient, said))
    if engine.root:
        outputs, gradient = (np.nanmax([part[k] for part in everyone], axis=0) for k in range(2))
        np.savez(folder / "found.npz", outputs=outputs, gradient=gradient)
        print(json.dumps([part[2] for part in everyone]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
