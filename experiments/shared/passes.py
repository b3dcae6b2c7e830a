"""The time of a pass of one network whose units are split over workers."""

from contextlib import ExitStack

import numpy as np

from consensus.centralized import SplitMLP
from consensus.history import History
from experiments.shared.tables import Table
from experiments.shared.timing import timed

SECONDS, CROSSED = "seconds of a pass, workers: ", "bytes between workers: "  # columns of the history, but for the number


def seconds(widths, cores, samples=1024, repeats=25):
    """The history of forward and backward passes of one network, its units split over 1, 2, 4, ... workers, in turns."""
    rng, history = np.random.default_rng(0), History()
    with ExitStack() as stack:
        models = {2**k: stack.enter_context(SplitMLP(widths, 2**k)) for k in range(cores.bit_length())}
        w, x, u = (
            rng.standard_normal((1, *shape)) for shape in ((models[1].parameters,), (samples, widths[0]), (samples, widths[-1]))
        )
        for repeat in range(-1, repeats):  # the first starts the workers
            row = {"round": repeat}
            for workers, model in models.items():
                crossed = model.crossed_bytes
                row[f"{SECONDS}{workers}"] = timed(model.vjp, w, x, u)[0]
                row[f"{CROSSED}{workers}"] = model.crossed_bytes - crossed
            if repeat >= 0:
                history.append(row)
    return history


def gained(split):
    """``{workers: speed-up}``, the median over passes."""
    counts = [int(name.removeprefix(SECONDS)) for name in split if name.startswith(SECONDS)]
    return {workers: float(np.median(split[f"{SECONDS}1"] / split[f"{SECONDS}{workers}"])) for workers in counts}


def table(split):
    rows = Table({"workers": "d", "ms a pass": ".3g", "speed-up": ".2f", "kB between workers": ".3g"})
    for workers, gain in gained(split).items():
        milliseconds = 1e3 * float(np.median(split[f"{SECONDS}{workers}"]))
        rows.add(workers, milliseconds, gain, split[f"{CROSSED}{workers}"][-1] / 1e3)
    return rows
