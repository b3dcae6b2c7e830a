"""The time of a gradient of one perceptron whose matrices are spread over workers, and what it would be on other clusters."""

import math
from typing import NamedTuple

import numpy as np

from consensus.centralized import SplitMLP
from consensus.costs import Load
from consensus.models import MLP
from experiments.shared.layer_passes import CPU, SERIAL, given, gradients, machines
from experiments.shared.results import Outcome, Run

POWERS = {"1d": 1, "2d": 2, "3d": 3}
NAMES = {"1d": "1-D", "2d": "2-D", "3d": "3-D"}


class Sizes(NamedTuple):
    """Of a perceptron with one hidden layer, and its samples."""

    width: int
    hidden: int
    samples: int

    @property
    def widths(self):
        return [self.width, self.hidden, self.width]

    def split(self, split, workers):
        return SplitMLP(self.widths, workers, split=split)

    def serial(self):
        """Return the work of one process by itself."""
        flops = 2.0 * self.samples * self.width * self.hidden * 5  # no gradient by the features
        return Load(np.zeros(1), np.zeros(1), np.array([flops]), 1)


def on(split, workers):
    """The column of the seconds of a gradient."""
    return f"seconds of a gradient, {NAMES[split]} on {workers}"


def run(sizes, places, repeats):
    """A run that times gradients, serial and in ``places``, pairs of a split and workers, and messages, in turns."""

    def work(engine):
        network = MLP(sizes.widths)
        w, x, u = given(network, sizes.samples)
        split = {on(*place): sizes.split(*place) for place in places}
        return Outcome(gradients({SERIAL: network} | split, w, x, u, sizes.samples * sizes.width * 8, repeats), w)

    return Run({"what": "seconds", **sizes._asdict()}, {"repeats": repeats, "places": [list(place) for place in places]}, work)


def seconds(history, name):
    """Medians of the seconds of a gradient by the clock, and of a processor (of the busiest worker)."""
    return tuple(float(np.median(history[name + of])) for of in ("", CPU))


def clusters(history, sizes):
    """See :func:`experiments.shared.layer_passes.machines`."""
    return machines(history, float(sizes.serial().flops[0]), sizes)


def counts(split, most):
    """Numbers of workers up to ``most`` that are powers of two, squares of them or cubes."""
    power = POWERS[split]
    return [2 ** (power * k) for k in range(int(math.log2(most)) // power + 1)]


def predicted(cluster, sizes, split, most):
    """``{workers: seconds}`` of a gradient."""
    return {count: float(cluster.seconds(sizes.split(split, count).load(sizes.samples))[0]) for count in counts(split, most)}
