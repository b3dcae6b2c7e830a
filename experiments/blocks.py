"""The local step in 1, 2, 4 and 8 blocks: its speed-up on the available cores, and the rounds that training then takes."""

import itertools
import time

import numpy as np
from threadpoolctl import threadpool_limits

from consensus._arrays import parallel as _parallel
from consensus.history import History
from consensus.local import Exact
from consensus.solvers import NEXT
from consensus.step_sizes import Diminishing
from consensus.surrogates import Blocks, PartialLinearization
from experiments.shared.cases import graph
from experiments.shared.curves import draw, own_legend, panels, points
from experiments.shared.harness import Experiment
from experiments.shared.results import Outcome, Run
from experiments.shared.tables import Spread, Table

BLOCKS = (1, 2, 4, 8)
AVAILABLE = _parallel.cores()
CORES = [2**k for k in range(AVAILABLE.bit_length())]  # 1, 2, 4, ... of them
SYSTEMS = {"normal equations": "primal", "by size": "auto"}  # how the linear systems of a local step are solved
HIDDEN, ROWS = 100, 2000  # units, for a step that is worth cutting; at most so many rows, on one agent
TIMES = 11  # that a step is timed; the median counts
SURROGATE, STEP = PartialLinearization(tau=0.3), Diminishing(0.5, 0.01)


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "repeats": 1, "rounds": 20}
    experiment = Experiment("blocks", __doc__, arguments, datasets=["kin8nm"], repeats=3, rounds=100, quick=quick)

    def timed(curve, seed):
        data, system, cores, count = curve
        settings = {"dataset": data, "system": system, "cores": cores, "blocks": count, "seed": seed}
        whole, times = experiment.case(data, 1, seed, hidden=HIDDEN, rows=ROWS), 3 if experiment.quick else TIMES
        return local_step(settings, whole, SYSTEMS[system], cores, count, times=times, seed=seed)

    def trained(data, count, seed):
        case = experiment.case(data, experiment.agents, seed, rows=ROWS)
        return case, graph(experiment.agents, seed), NEXT(cut(count), STEP)

    datasets = experiment.datasets
    times = experiment.repeat(timed, itertools.product(datasets, SYSTEMS, CORES, BLOCKS), "local steps")
    runs = experiment.train(("dataset", "blocks"), itertools.product(datasets, BLOCKS), trained, "training")
    experiment.figure(figure(times, runs, datasets))
    experiment.table(table(times), "timing")


def cut(count):
    return SURROGATE if count == 1 else Blocks(SURROGATE, count)


def local_step(settings, whole, system, cores, count, *, times, seed):
    """A run that times the local step of an agent that has all the data, at the start; its w is the step's result."""
    problem = whole.problem
    start = problem.model.init(np.random.default_rng(seed))
    config = {"surrogate": str(cut(count)), "system": system, "times": times, **whole.identity(start)}

    def work(engine):
        w = start[None]
        gradient = problem.gradient(w)
        history = History()
        with threadpool_limits(cores, user_api="blas"):  # the package's own threads heed it too
            for repeat in range(times):
                begin = time.perf_counter()
                best, _ = Exact(system).solve(cut(count).at(problem, w, gradient), 0 * gradient, problem.regularizer)
                history.append({"round": repeat, "seconds": time.perf_counter() - begin})
        return Outcome(history, best)

    return Run(settings, config, work)


def milliseconds(outcomes):
    """Of a step in each repeat."""
    return [1e3 * float(np.median(outcome.history["seconds"])) for outcome in outcomes]


def speed_up(times, data, system, cores, count):
    """Over one block on one core."""
    ours, whole = milliseconds(times[data, system, cores, count]), milliseconds(times[data, system, 1, 1])
    return Spread.of(b / a for a, b in zip(ours, whole, strict=True))


def figure(times, runs, datasets):
    canvas, axes = panels(2 * len(datasets), columns=2, size=(3.4, 2.8))
    for data, left, right in zip(datasets, axes[::2], axes[1::2], strict=True):
        for index, (system, cores) in enumerate(itertools.product(SYSTEMS, CORES)):
            spreads = [speed_up(times, data, system, cores, count) for count in BLOCKS]
            points(left, BLOCKS, spreads, f"{system}, {cores} core{'s' if cores > 1 else ''}", index)
        left.set_xscale("log", base=2)
        left.set_xticks(BLOCKS, BLOCKS)
        left.set_ylim(bottom=0)
        left.set(title=f"{data}, local step", xlabel="blocks", ylabel="speed-up over one block, one core")
        own_legend(left)
        draw(right, {f"{count} block{'s' if count > 1 else ''}": runs[data, count] for count in BLOCKS}, "objective")
        own_legend(right)
        right.set(title=f"{data}, training", ylabel="objective U at the agents' mean")
    return canvas


def table(times):
    rows = Table({"data set": "", "linear systems": "", "cores": "d", "blocks": "d", "milliseconds": ".1f", "speed-up": ".1f"})
    for (data, system, cores, count), outcomes in times.items():
        rows.add(data, system, cores, count, Spread.of(milliseconds(outcomes)), speed_up(times, data, system, cores, count))
    return rows


if __name__ == "__main__":
    main()
