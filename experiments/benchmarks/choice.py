"""The way in which a local problem is solved against the fastest way, for shapes from 1 to 10^6."""

import functools
import itertools
from unittest import mock

import numpy as np
from tqdm import tqdm

import consensus
from consensus._arrays.parallel import one_blas_thread
from consensus.local import Exact, semismooth
from consensus.problems.state import Cache
from consensus.surrogates import PartialLinearization
from experiments.shared.timing import Rows, options, timed

SIZES = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
NETWORKS = ([10, 5, 1], [20, 50, 1], [64, 100, 1], [30, 20, 5], [64, 32, 10], [784, 300, 100, 1])
LARGEST = 5_000_000  # numbers in a Jacobian
MOST, DEAR = 4000, 3e10  # order of a system, and multiply-adds in one, beyond which a way is out of the question
REGULARIZERS = {"L2": consensus.L2(1e-3), "L1": consensus.L1(1e-2), "L2Ball": consensus.L2Ball(1.0)}
WAYS = ("rows", "gram", "columns", "iterative")


def made(samples, widths, regularizer, seed=0):
    """One agent's problem; a network without a hidden layer is linear, but nothing of it is kept from round to round."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((samples, widths[0]))
    y = X[:, :1] + rng.standard_normal((samples, widths[-1]))
    problem = consensus.Problem(consensus.MLP(widths), consensus.SquaredLoss(), consensus.partition(X, y, 1), regularizer)
    w = problem.model.init(rng)[None]
    return problem, PartialLinearization(0.1).at(problem, w, problem.gradient(w))


def runs(problem, model):
    """A function a way, and one for what is chosen: each solves once, from nothing kept."""

    def solve(local, costs=None):
        problem.cache = Cache()
        with mock.patch.object(semismooth.Systems, "costs", costs or semismooth.Systems.costs):
            local.solve(model, np.zeros_like(model.w), problem.regularizer)

    found = {"chosen": lambda: solve(Exact())}
    if problem.regularizer.quadratic:
        n, P = problem.shards.targets.size, problem.parameters
        orders = {"primal": P, "dual": n, "iterative": 0}
        return found | {way: functools.partial(solve, Exact(way)) for way, order in orders.items() if order <= MOST}
    predicted = semismooth.Systems.costs
    asked = {way: [] for way in WAYS}

    def only(systems, z, way):
        costs = predicted(systems, z)
        asked[way].append(costs.get(way, np.inf) < DEAR)
        return {way: 0.0} if asked[way][-1] else costs

    for way in WAYS:
        solve(Exact(), functools.partialmethod(only, way=way))
        if all(asked[way]):
            found[way] = functools.partial(solve, Exact(), functools.partialmethod(only, way=way))
    return found


def least_seconds(functions):
    """The least time of each of several functions, run in turn: what others do on the machine only adds to it."""
    least = dict.fromkeys(functions, np.inf)
    for repeat in range(12):
        for name, function in functions.items():
            if repeat < 3 or least[name] < 0.2:
                least[name] = min(least[name], timed(function)[0])
    return least


def main():
    given = options(__doc__, regularizers=(list(REGULARIZERS), "of the local problems"))
    shapes = [(n, [P, 1]) for P in SIZES for n in SIZES if n * P <= LARGEST]
    shapes += [(n, widths) for widths in NETWORKS for n in (10, 50, 200, 1000)]
    rows = Rows("regularizer", 12, {"samples": "", "widths": ">15", "chosen [ms]": ".2f", "best [ms]": ".2f", "ratio": ".2f"})
    worst = 0.0
    with one_blas_thread:
        for name, (n, widths) in tqdm(list(itertools.product(given.regularizers, shapes)), disable=None):
            times = least_seconds(runs(*made(n, widths, REGULARIZERS[name])))
            chosen = times.pop("chosen")
            best = min(times, key=times.get, default=None)
            least = min(times.get(best, chosen), chosen)
            worst = max(worst, chosen / least)
            rows.add(name, n, "-".join(map(str, widths)), chosen * 1e3, least * 1e3, chosen / least, f" {best}")
    print(f"largest ratio {worst:.2f} (to reach: 1.5)")


if __name__ == "__main__":
    main()
