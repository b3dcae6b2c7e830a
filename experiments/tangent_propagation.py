"""Tangent propagation: digits under small rotations from few samples, with derivatives, without, and with rotated copies."""

import sys

import numpy as np
from scipy import ndimage

import consensus
from consensus.models import MLP, Convolutional, WithTangents
from consensus.solvers import AutoGT
from experiments.shared import cases
from experiments.shared.curves import own_legend, panels, plain, points
from experiments.shared.studies import Folder, options, trained
from experiments.shared.tables import Spread, Table, last

TRAIN, TEST = 200, 1000  # samples
WEIGHTS = (0.0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)  # of the squares of derivatives
COPIES = "copies"  # instead of derivatives: every sample three times, at these angles
TURNED = (-15, 0, 15)  # degrees
TOLD = 0.003  # the weight that the figure by angle shows, and the paper's text
SHOWN = {0.0: "without", TOLD: f"derivatives, weight {TOLD:g}", COPIES: f"copies at {TURNED[0]}, 0, {TURNED[-1]} degrees"}
ANGLES = tuple(range(-30, 31, 5))  # degrees
NEAR = 15  # degrees, up to which errors are averaged
NETWORKS = {"perceptron": 50, "convolutions": (8, 16)}  # units, filters
DECAY = consensus.L2(1e-4)


def main(arguments=None):
    quick = {"seeds": 1, "rounds": 20, "agents": 4}
    given = options(__doc__, arguments, quick, dataset=["digits"], agents=10, seeds=3, rounds=2000)
    folder, weights = Folder(given, "tangent_propagation"), (0.0, TOLD) if given.quick else WEIGHTS
    over = {"data": given.dataset, "network": list(NETWORKS), "method": [*weights, COPIES]}
    # AutoGT's agents set their steps by the curvature that they see: no weight is favoured by a step chosen for it.
    runs = trained(given, folder, case, over, {1: {"AutoGT": AutoGT()}}, rows=4, agents=given.agents)
    found = {key[:-1]: done for key, done in runs.items()}
    errors = {curve: np.array([by_angle(done.made(), done.w) for done in outcomes]) for curve, outcomes in found.items()}
    folder.figure(figure(errors, given.dataset, weights))
    folder.table(table(errors, found))


def case(seed, data, network, method, agents, every):
    """A network to train on few samples; ``method`` is a weight of the derivatives along rotations, or COPIES."""
    X, y = cases.load(data)
    side, classes = int(np.sqrt(X.shape[1])), int(y.max()) + 1
    if side**2 != X.shape[1] or len(X) < TRAIN + TEST:
        sys.exit(f"error: {data} must be at least {TRAIN + TEST} square images; got {len(X)} rows of {X.shape[1]} features")
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[:TRAIN], order[TRAIN : TRAIN + TEST]
    images = (X / X.max()).reshape(-1, 1, side, side)
    angles = TURNED if method == COPIES else (0,)
    samples = np.stack([rotated(images[train], angle) for angle in angles], axis=1).reshape(-1, *images.shape[1:])
    labels, owners, tests = np.repeat(y[train], len(angles)), np.repeat(np.arange(TRAIN), len(angles)), images[test]
    if network == "perceptron":
        model, directions = MLP([side**2, NETWORKS[network], classes]), of_rows
        samples, tests = (part.reshape(len(part), -1) for part in (samples, tests))
    else:
        model, directions = Convolutional((1, side, side), NETWORKS[network], classes), of_images
    loss, shards = consensus.CrossEntropy(), consensus.partition(samples, labels, agents, groups=owners)  # copies stay together
    if method not in (COPIES, 0.0):
        model, loss = WithTangents(model, directions), consensus.TangentPropagation(loss, method)
    problem = consensus.Problem(model, loss, shards, DECAY)
    return problem, cases.graph(agents, seed), {"test": (tests, y[test]), "record_every": every}


def rotated(images, degrees):
    """Images (..., side, side) turned about their centre, by linear interpolation, with zeros around them."""
    return ndimage.rotate(images, degrees, axes=(-2, -1), reshape=False, order=1, mode="grid-constant")


def rotation(images):
    """The derivative of images (..., side, side) in the angle, in radians, by central differences: as for ``rotated``."""
    side = images.shape[-1]
    rows, columns = np.indices((side, side)) - (side - 1) / 2
    around = np.pad(images, [(0, 0)] * (images.ndim - 2) + [(1, 1)] * 2)
    down, right = (slope[..., 1:-1, 1:-1] for slope in np.gradient(around, axis=(-2, -1)))
    return columns * down - rows * right


def of_images(x):
    """The direction of each sample x (agents, samples, 1, side, side), as :class:`consensus.models.WithTangents` takes it."""
    return rotation(x)[:, :, None]


def of_rows(x):
    """The same for samples whose pixels are a row (agents, samples, side * side)."""
    side = int(np.sqrt(x.shape[-1]))
    return rotation(x.reshape(*x.shape[:2], side, side)).reshape(*x.shape[:2], 1, -1)


def by_angle(made, w):
    """The test errors of the agents' mean on the images at each angle; one where a run diverged."""
    if not len(w):
        return np.ones(len(ANGLES))
    problem, _, options = made
    (images, labels), model = options["test"], problem.model
    model = model.model if isinstance(model, WithTangents) else model
    side = int(np.sqrt(images[0].size))
    turned = (rotated(images.reshape(-1, side, side), angle).reshape(images.shape) for angle in ANGLES)
    return np.array([np.mean(model.predict(w.mean(axis=0), part).argmax(axis=1) != labels) for part in turned])


def figure(errors, datasets, weights):
    columns = len(NETWORKS) + 1
    canvas, axes = panels(columns * len(datasets), columns=columns, size=(3.0, 2.9))
    for number, data in enumerate(datasets):
        *by_network, over = axes[columns * number : columns * (number + 1)]
        for ax, network in zip(by_network, NETWORKS, strict=True):
            for index, (method, name) in enumerate(SHOWN.items()):
                spreads = [Spread.of(column) for column in errors[data, network, method].T]
                points(ax, ANGLES, spreads, name, index)
            ax.set(title=f"{data}, {network}", xlabel="rotation, degrees", ylabel="test error")
            ax.set_xticks(ANGLES[::3])
        for index, network in enumerate(NETWORKS):
            spreads = [near(errors[data, network, weight]) for weight in weights]
            points(over, range(len(weights)), spreads, network, index)
            points(over, [len(weights)], [near(errors[data, network, COPIES])], None, index)
        over.set(title=data, xlabel="weight of derivatives", ylabel=f"mean error up to {NEAR} degrees")
        over.set_xticks(range(len(weights) + 1), [*(f"{weight:g}" for weight in weights), COPIES], rotation=45)
        for ax in (*by_network, over):
            ax.set_yscale("log")
            plain(ax.yaxis)
            own_legend(ax, columns=1)
    return canvas


def near(errors):
    """The spread over repeats of the mean error at angles up to NEAR degrees."""
    return Spread.of(errors[:, np.abs(ANGLES) <= NEAR].mean(axis=1))


def table(errors, found):
    names = {f"{angle} degrees": ".3g" for angle in ANGLES if angle >= 0 and angle % 10 == 0}
    formats = {"data set": "", "network": "", "method": "", **names, f"mean up to {NEAR}": ".3g"}
    rows = Table(formats | {"objective": ".3g", "stationarity": ".1e"})
    for (data, network, method), own in errors.items():
        at = [Spread.of(own[:, ANGLES.index(int(name.split()[0]))]) for name in names]
        ends = [last(found[data, network, method], column) for column in ("objective", "stationarity")]
        rows.add(data, network, str(method), *at, near(own), *ends)
    return rows


def stated(rows):
    """The numbers in the paper's text, from the rows of the table: without derivatives, with them, and with copies."""
    found = {"samples": TRAIN, "near": NEAR, "turned": TURNED[-1], "weight": f"{TOLD:g}"}
    for row in rows:
        name = {"0.0": "none", str(TOLD): "some", COPIES: "copies"}.get(row["method"])
        columns = {"": f"mean up to {NEAR}"} | ({} if name == "copies" else {".upright": "0 degrees"})
        for end, column in columns.items() if name else ():
            found[f"{row['network']}.{name}{end}"] = rf"{100 * float(row[column]):.1f}\,\%"
    return {f"rotations.{name}": value for name, value in found.items()}


if __name__ == "__main__":
    main()
