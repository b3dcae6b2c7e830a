"""Seconds to a test accuracy on MNIST by batches of 32 and by AdaptiveNEXT: against full batches and PyTorch.

All steps are the best of grids that grow until the best lies inside, by the rounds to the level.
"""

import sys
import time
from functools import partial
from importlib.util import find_spec

import numpy as np
from tqdm import tqdm

import consensus
import topologies
from consensus import datasets
from consensus.solvers import DGD, AdaptiveNEXT, GradientTracking
from experiments.benchmarks.core import layers
from experiments.shared.cases import graph
from experiments.shared.timing import Rows, in_turn, options

AGENTS, BATCH, WIDTHS, DECAY = 10, 32, [784, 64, 10], 1e-4
NETWORK = topologies.Static(graph(AGENTS, 0))
CASES = {"sorted": (0.92, GradientTracking, 0.2), "iid": (0.94, DGD, 1.2)}  # a test accuracy, the method with batches, a step
FULL, MOST = 1.0, 50  # a step of full-batch tracking; rounds of AdaptiveNEXT


def images(dtype):
    """``(X, y)`` of 8,000 images, and of 2,000 others for the test."""
    try:
        X, y = datasets.load("mnist")
    except OSError as error:
        sys.exit(f"error: {error}")
    order = np.random.default_rng(0).permutation(len(X))[:10_000]
    X, y = X.astype(dtype), y.astype(dtype)
    return (X[order[2000:]], y[order[2000:]]), (X[order[:2000]], y[order[:2000]])


def problem_of(train, scheme):
    shards = consensus.partition(*train, agents=AGENTS, scheme=scheme)
    return consensus.Problem(consensus.MLP(WIDTHS), consensus.CrossEntropy(), shards, consensus.L2(DECAY))


def start(problem):
    return problem.model.init(np.random.default_rng(0))


def ours(problem, test, level, rounds, every, solver):
    """``(seconds, rounds, MB)`` by the history's clock until the mean and all agents are at the level; infinite if never."""

    def there(seen):
        return "there" if max(seen["test_error"], seen["test_error_worst"]) <= 1 - level else None

    options = {"rounds": rounds, "start": start(problem), "record_every": every, "test": test, "callbacks": [there]}
    result = consensus.solve(problem, NETWORK, solver, **options)
    done, seconds = result.history["round"][-1], np.ptp(result.history["seconds"])
    return seconds if result.reason == "there" else np.inf, done, result.history["bytes"][-1] / 1e6


def quickest(run, make, step):
    """The solver with the fewest rounds to the level, of a grid that grows from ``step`` until the best lies inside."""
    found, missing = {}, [step]
    while missing and len(found) < 40:
        for at in missing:
            seconds, rounds, _ = run(make(at))
            found[at] = rounds if seconds < np.inf else np.inf
        best = min(found, key=lambda at: (found[at], at))
        missing = [at for at in (best / 2, 2 * best) if at not in found]
    return make(best)


def in_torch(problem, test, level, rounds, every, solver):
    """The same of a plain loop; batches are drawn before its clock starts."""
    import torch
    from torch.func import grad, vmap

    def outputs(w, x):
        (W1, b1), (W2, b2) = layers(WIDTHS, w)
        return torch.tanh(x @ W1 + b1) @ W2 + b2

    slope = vmap(grad(lambda w, x, d: torch.nn.functional.cross_entropy(outputs(w, x), d)))
    X = torch.from_numpy(problem.shards.features)
    y = torch.from_numpy(problem.shards.targets[..., 0]).long()
    W = torch.from_numpy(NETWORK.weights(NETWORK.key(0)).toarray()).to(X.dtype)
    X_test, y_test = (torch.from_numpy(part) for part in test)
    agents, alpha = torch.arange(AGENTS)[:, None], solver.step_size
    places = [torch.tensor(solver.batch.at(problem, n).indices) for n in range(rounds + 1)]
    w = torch.from_numpy(np.tile(start(problem), (AGENTS, 1))).to(X.dtype)

    def gradient(w, n):
        return slope(w, X[agents, places[n]], y[agents, places[n]]) + DECAY * w

    def right(w):
        return outputs(w, X_test).argmax(1).eq(y_test).double().mean().item()

    tracking = isinstance(solver, GradientTracking)
    gradient(w, 0)  # what is made at the first call
    seconds, since = 0.0, time.perf_counter()
    v = old = gradient(w, 0)
    for n in range(rounds):
        if tracking:
            w = W @ (w - alpha * v)
            new = gradient(w, n + 1)
            v, old = W @ (v + new - old), new
        else:
            w = W @ w - alpha * gradient(w, n)
        if (n + 1) % every == 0:
            seconds += time.perf_counter() - since
            if min(map(right, (w.mean(0), *w))) >= level:
                return seconds, n + 1, np.nan
            since = time.perf_counter()
    return np.inf, rounds, np.nan


def to_a_test_accuracy(dtype, repeats, epochs):
    train, test = images(dtype)
    print(f"\nSeconds until the mean and all agents have a test accuracy, medians of {repeats} runs in turn, {np.dtype(dtype)}")
    print("(wanted: batches at most 0.5 of full batches' and 1.0 of PyTorch's, AdaptiveNEXT 1.0, 10 rounds and 100 MB)")
    columns = {"accuracy": ".0%", "by": ">12", "step": "g", "rounds": ".0f", "MB": ".0f", "seconds": ".2f"}
    rows = Rows("shards", 8, columns | {"of full": ".2f", "of PyTorch": ".2f"})
    for scheme, (level, method, step) in CASES.items():
        problem = problem_of(train, scheme)
        every = -(-problem.shards.features.shape[1] // BATCH)  # an epoch
        common = problem, test, level
        few, many = (*common, epochs * every, every), (*common, 10 * epochs, 10)
        batches = quickest(partial(ours, *few), partial(method, batch=BATCH), step)
        full = quickest(partial(ours, *many), GradientTracking, FULL)
        runs = {"batches": partial(ours, *few, batches), "full": partial(ours, *many, full)}
        if find_spec("torch"):
            runs["PyTorch"] = partial(in_torch, *few, batches)
        if scheme == "sorted":
            runs["AdaptiveNEXT"] = partial(ours, *common, MOST, 1, AdaptiveNEXT())
        turns = tqdm(range(repeats), f"{scheme}, {np.dtype(dtype)}", leave=False)
        found = dict(zip(runs, np.median([in_turn(runs.values(), 1)[0] for _ in turns], axis=0), strict=True))
        steps = {"batches": batches.step_size, "full": full.step_size, "PyTorch": batches.step_size}
        for name, (seconds, rounds, sent) in found.items():
            over = seconds / found["full"][0], seconds / found["PyTorch"][0] if "PyTorch" in found else None
            rows.add(scheme, level, name, steps.get(name), rounds, sent, seconds, *over)


def main():
    given = options(__doc__, repeats=(3, "of which medians are printed"), epochs=(100, "at most"))
    for dtype in (np.float64, np.float32):
        to_a_test_accuracy(dtype, given.repeats, given.epochs)


if __name__ == "__main__":
    main()
