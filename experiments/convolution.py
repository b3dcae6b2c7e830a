"""A convolutional network learns digits, each agent from one label: NEXT, gradient tracking and D-PSGD by cost."""

import functools
import itertools

import numpy as np

import consensus
from consensus.local import Exact
from consensus.solvers import DGD, NEXT, GradientTracking
from consensus.step_sizes import CosineAnnealing
from consensus.surrogates import PartialLinearization
from experiments.shared import cases
from experiments.shared.curves import after_start, draw, legend, panels
from experiments.shared.studies import Folder, options, trained
from experiments.shared.tables import END, Spread, ends

GOAL = 0.04  # of the test set, wrong
TEST = 0.2  # of the data
FILTERS, DECAY, BATCH = (8, 16), consensus.L2(1e-4), 32
MORE = 5  # rounds of D-PSGD for one of the others
XS = ("exchanges", "bytes", "seconds")


def solvers(rounds):
    """Two for all rounds, and one for more of them."""
    # An agent's own label bends a few directions. In all others tau alone bounds the step, as 1 / alpha does a gradient's,
    # and the running average of the batches' gradients is a momentum, which lets tau be less than all samples would.
    step, surrogate = CosineAnnealing(0.9, rounds=rounds), PartialLinearization(1.0, curvature="local")
    return {
        1: {
            "NEXT, partial linearization": NEXT(surrogate, step, Exact("iterative"), tolerance=0.5, batch=BATCH, averaging=0.1),
            "gradient tracking": GradientTracking(CosineAnnealing(0.7, rounds=rounds)),
        },
        MORE: {"D-PSGD": DGD(CosineAnnealing(0.5, rounds=MORE * rounds), batch=BATCH)},
    }


def main(arguments=None):
    quick = {"dataset": ["digits"], "agents": 3, "rounds": 3}  # runs are timed: there is one at a time
    given = options(__doc__, arguments, quick, workers=1, dataset=["mnist"], agents=10, seeds=1, rounds=400)
    folder, over = Folder(given, "convolution"), {"data": given.dataset}
    found = trained(given, folder, case, over, solvers(given.rounds), rows=50, agents=given.agents)
    folder.figure(figure(found, given.dataset))
    columns = {"test error": ("test_error", ".3g"), "worst agent's": ("test_error_worst", ".3g")}
    columns |= {"disagreement": END["disagreement"]}
    columns |= {f"{x} to {1 - GOAL:.0%} everywhere": (functools.partial(first, x=x), ".3g") for x in XS}
    folder.table(ends(found, {"data set": "", "solver": ""}, columns))


def network(parameters, x):
    """Two convolutions with SiLU, each after a mean over squares of 2 x 2 in large images, and a linear layer."""
    import jax

    x = x.transpose(1, 2, 0)[None]  # samples last: sums over few channels are then sums of long rows
    for layer, (kernel, bias) in enumerate(parameters[:-1]):
        x = _halved(x) if layer or x.shape[1] >= 16 else x
        x = jax.nn.silu(_convolved(x, kernel) + bias[:, None, None, None])
    weights, bias = parameters[-1]
    return x.reshape(-1, x.shape[-1]).T @ weights + bias


def _convolved(x, kernel):
    """The kernel (filters, channels, size, size) over images (channels, side, side, samples), as one product of matrices."""
    import jax

    filters, channels, size, _ = kernel.shape
    side = x.shape[1] - size + 1
    shifted = [x[:, row : row + side, column : column + side] for row in range(size) for column in range(size)]
    patches = jax.numpy.stack(shifted, axis=1).reshape(channels * size * size, -1)
    return (kernel.reshape(filters, -1) @ patches).reshape(filters, side, side, -1)


def _halved(x):
    channels, height, width, samples = x.shape
    return x.reshape(channels, height // 2, 2, width // 2, 2, samples).mean((2, 4))


def start(side, classes, seed):
    """Parameters for images of that side: He's variances."""
    end = ((side // 2 if side >= 16 else side) - 2) // 2 - 2
    shapes = [(FILTERS[0], 1, 3, 3), (FILTERS[1], FILTERS[0], 3, 3), (FILTERS[1] * end * end, classes)]
    fans = [np.prod(shape[1:]) for shape in shapes[:-1]] + [shapes[-1][0]]
    normal = np.random.default_rng(seed).standard_normal
    biases = [np.zeros(size) for size in (*FILTERS, classes)]
    return [(normal(shape) * np.sqrt(2 / fan), bias) for shape, fan, bias in zip(shapes, fans, biases, strict=True)]


def case(seed, data, agents, every):
    """Images without their mean image, on one scale, in single precision; an agent has neighbouring labels."""
    (X, y), classes = cases.load(data), cases.load(data).classes
    order = np.random.default_rng(seed).permutation(len(X))[: cases.ROWS]
    kept = int(TEST * len(order))
    test, train = order[:kept], order[kept:]
    side = int(np.sqrt(X.shape[1]))
    images = X.reshape(-1, side, side).astype(np.float32)
    images = (images - images[train].mean(axis=0)) / images[train].std()
    shards = consensus.partition(images[train], y[train], agents=agents, scheme="sorted")
    model = consensus.models.JAX(network, start(side, len(classes), seed))
    problem = consensus.Problem(model, consensus.CrossEntropy(), shards, DECAY)
    return problem, cases.neighbours(agents, seed), {"test": (images[test], y[test]), "record_every": every}


def figure(found, datasets):
    canvas, axes = panels(len(datasets) * len(XS), columns=len(XS), share="row")
    for ax, (data, x) in zip(axes, itertools.product(datasets, XS), strict=True):
        draw(ax, {name: after_start(done) for (place, name), done in found.items() if place == data}, "test_error_worst", x)
        ax.axhline(GOAL, color="0.6", linewidth=2, zorder=1)
        ax.set_title(data if len(datasets) > 1 else f"by {x}")
    legend(canvas, axes[0])
    return canvas


def first(outcomes, x):
    """Return the ``x`` used until the worst agent's recorded test error was first at the goal; infinite if it never was."""
    there = [np.flatnonzero(outcome.history["test_error_worst"] <= GOAL) for outcome in outcomes]
    return Spread.of(one.history[x][rows[0]] if len(rows) else np.inf for one, rows in zip(outcomes, there, strict=True))


if __name__ == "__main__":
    main()
