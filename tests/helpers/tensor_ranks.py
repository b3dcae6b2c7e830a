"""Under mpiexec: a perceptron whose matrices are spread over the ranks, for the tests to look at what comes out.

usage: tensor_ranks.py split folder
"""

import json
import sys
import tracemalloc
from pathlib import Path

import numpy as np

from consensus.centralised import Grid, ShardedMLP
from consensus.engines import MPI
from consensus.models import MLP

MODEL, SAMPLES = MLP([144, 288, 144, 432]), 72


def given():
    """Parameters, features and cotangents."""
    rng = np.random.default_rng(0)
    return MODEL.init(rng), rng.standard_normal((SAMPLES, MODEL.features)), rng.standard_normal((SAMPLES, MODEL.outputs))


def main(split, folder):
    w, x, u = given()
    engine = MPI()
    network = ShardedMLP(MODEL.widths, Grid(engine.ranks, split))
    x, u = network.block(x), network.block(u, outputs=True)
    tracemalloc.start()
    network.take(w)
    parameters = tracemalloc.get_traced_memory()[0]
    block = network.forward(x)
    activations = tracemalloc.get_traced_memory()[0] - parameters - block.nbytes + x.nbytes
    forward = network.grid.numbers
    slopes = network.backward(u)
    said = {"memory": (parameters, activations), "held": network.held, "sent": (forward, network.grid.numbers - forward)}
    outputs, gradient = np.zeros((SAMPLES, MODEL.outputs)), np.zeros(MODEL.parameters)
    network.put(block, outputs)
    network.write(slopes, gradient)
    # The blocks of different ranks are apart: the sum of all is the whole.
    everyone = engine.ranks.allgather((outputs, gradient, said))
    if engine.root:
        outputs, gradient = (sum(part[k] for part in everyone) for k in range(2))
        np.savez(folder / "found.npz", outputs=outputs, gradient=gradient)
        print(json.dumps([part[2] for part in everyone]))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
