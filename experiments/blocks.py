"""The local step in 1, 2, 4 and 8 blocks: its speed-up on the available cores, and the rounds that training then takes."""

import itertools
import time

import numpy as np
from threadpoolctl import threadpool_limits

from consensus._arrays import parallel as _parallel
from consensus.local import Exact
from consensus.solvers import NEXT
from consensus.step_sizes import Diminishing
from consensus.surrogates import Blocks, PartialLinearization
from experiments.shared import cases
from experiments.shared.curves import draw, own_legend, panels, points
from experiments.shared.studies import Folder, options, trained
from experiments.shared.tables import Spread, Table

BLOCKS = (1, 2, 4, 8)
AVAILABLE = _parallel.cores()
CORES = [2**k for k in range(AVAILABLE.bit_length())]  # 1, 2, 4, ... of them
SYSTEMS = {"normal equations": "primal", "by size": "auto"}  # how the linear systems of a local step are solved
HIDDEN, ROWS = 100, 2000  # units, for a step that is worth cutting; at most so many rows, on one agent
TIMES = 11  # that a step is timed; the median counts
SURROGATE, STEP = PartialLinearization(tau=0.3), Diminishing(0.5, 0.01)


def case(seed, data, agents, every):
    whole = cases.case(data, agents, seed, rows=ROWS)
    return whole.problem, cases.graph(agents, seed), {"test": whole.test, "record_every": every}


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "seeds": 1, "rounds": 20}
    given = options(__doc__, arguments, quick, dataset=["kin8nm"], agents=10, seeds=3, rounds=100)
    folder, repeats = Folder(given, "blocks"), 3 if given.quick else TIMES
    timed = folder.kept(milliseconds)
    times = {
        place: [timed(*place, repeats, seed) for seed in range(given.seeds)]
        for place in itertools.product(given.dataset, SYSTEMS, CORES, BLOCKS)
    }
    folder.table(table(times), "timing")
    solvers = {1: {f"{count} block{'s' if count > 1 else ''}": NEXT(cut(count), STEP) for count in BLOCKS}}
    runs = trained(given, folder, case, {"data": given.dataset}, solvers, agents=given.agents)
    folder.figure(figure(times, runs, given.dataset))


def cut(count):
    return SURROGATE if count == 1 else Blocks(SURROGATE, count)


def milliseconds(data, system, cores, count, times, seed):
    """The median time of the local step of an agent that has all the data, at the start."""
    problem = cases.case(data, 1, seed, hidden=HIDDEN, rows=ROWS).problem
    w, seconds = problem.model.init(np.random.default_rng(seed))[None], []
    gradient = problem.gradient(w)
    with threadpool_limits(cores, user_api="blas"):  # the package's own threads heed it too
        for _ in range(times):
            begin = time.perf_counter()
            Exact(SYSTEMS[system]).solve(cut(count).at(problem, w, gradient), 0 * gradient, problem.regularizer)
            seconds.append(time.perf_counter() - begin)
    return 1e3 * float(np.median(seconds))


def speed_up(times, data, system, cores, count):
    """Over one block on one core."""
    return Spread.of(b / a for a, b in zip(times[data, system, cores, count], times[data, system, 1, 1], strict=True))


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
        draw(right, {name: done for (place, name), done in runs.items() if place == data}, "objective")
        own_legend(right)
        right.set(title=f"{data}, training", ylabel="objective U at the agents' mean")
    return canvas


def table(times):
    rows = Table({"data set": "", "linear systems": "", "cores": "d", "blocks": "d", "milliseconds": ".1f", "speed-up": ".1f"})
    for place, own in times.items():
        rows.add(*place, Spread.of(own), speed_up(times, *place))
    return rows


if __name__ == "__main__":
    main()
