"""The time of a pass of one network whose units are split over workers."""

from contextlib import ExitStack

import numpy as np

from consensus._arrays.parallel import cores
from consensus.centralized import SplitMLP
from consensus.history import History
from experiments.shared.results import Outcome, Run
from experiments.shared.tables import Table
from experiments.shared.timing import timed

SECONDS, CROSSED = "seconds of a pass, workers: ", "bytes between workers: "  # columns of the history, but for the number


def run(widths):
    """A run that times the forward and backward pass of one network, its units split over 1, 2, 4, ... workers, in turns."""
    samples, repeats, counts = 1024, 25, [2**k for k in range(cores().bit_length())]

    def work(engine):
        rng, history = np.random.default_rng(0), History()
        with ExitStack() as stack:
            models = {workers: stack.enter_context(SplitMLP(widths, workers)) for workers in counts}
            w, x, u = (
                rng.standard_normal((1, *shape)) for shape in ((models[1].parameters,), (samples, widths[0]), (samples, 10))
            )
            for repeat in range(-1, repeats):  # the first starts the workers
                row = {"round": repeat}
                for workers, model in models.items():
                    crossed = model.crossed_bytes
                    row[f"{SECONDS}{workers}"] = timed(model.vjp, w, x, u)[0]
                    row[f"{CROSSED}{workers}"] = model.crossed_bytes - crossed
                if repeat >= 0:
                    history.append(row)
        return Outcome(history, w)

    return Run({"model": f"mlp {widths}"}, {"samples": samples, "repeats": repeats, "workers": counts}, work)


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
