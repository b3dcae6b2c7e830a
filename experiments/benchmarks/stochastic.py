"""Seconds to a test accuracy on MNIST by batches of 32: against full batches, PyTorch, and the bare matrix products.

Each ratio is printed beside the bar that it is to keep below. All steps are the best of grids that grow until the best lies
inside, by the rounds to the level.
"""

import sys
import time
from importlib.util import find_spec

import numpy as np
from tqdm import tqdm

import consensus
import topologies
from consensus import datasets
from consensus._arrays.parallel import for_chunks, one_blas_thread
from consensus.solvers import DGD, GradientTracking
from experiments.shared import tuning
from experiments.shared.cases import graph
from experiments.shared.timing import options, timed
from experiments.shared.tuning import Axis, Family

AGENTS, BATCH, WIDTHS, DECAY = 10, 32, [784, 64, 10], 1e-4
NETWORK = topologies.Static(graph(AGENTS, 0))
BARS = {"full": 0.5, "torch": 1.0, "products": 1.3}
CASES = {"sorted": (0.92, GradientTracking, 0.2), "iid": (0.94, DGD, 1.2)}  # a test accuracy, the method with batches, a step
FULL = 1.0  # a step of full-batch tracking


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


def ours(problem, test, solver, level, rounds, every):
    """``(seconds, rounds)`` on the history's clock until the mean and every agent are at the ``level``; infinite if never."""

    def there(seen):
        return "there" if max(seen["test_error"], seen["test_error_worst"]) <= 1 - level else None

    result = consensus.solve(
        problem, NETWORK, solver, rounds=rounds, start=start(problem), record_every=every, test=test, callbacks=[there]
    )
    seconds, done = result.history["seconds"], int(result.history["round"][-1])
    return (seconds[-1] - seconds[0] if result.reason == "there" else np.inf), done


def quickest(problem, test, make, step, level, rounds, every):
    """The step with the fewest rounds to the ``level``, of a grid that grows from ``step`` until the best lies inside."""

    def run(points):
        return {at: ours(problem, test, make(*at[1]), level, rounds, every) for at in points}

    def merits(found, key, outcome):
        seconds, done = outcome
        return {"rounds": done if seconds < np.inf else np.inf}

    families = {("",): Family(make, (Axis("step", (step,)),))}
    found = tuning.tuned(run, families, merits)
    return tuning.best(found, ("",), merits)["rounds"][0]


def start(problem):
    return problem.model.init(np.random.default_rng(0))


def in_torch(problem, test, solver, level, rounds, every):
    """The same of a plain loop; batches are drawn before its clock starts."""
    import torch
    from torch.func import grad, vmap

    m, k, classes = WIDTHS
    first, second = m * k, m * k + k + k * classes

    def cost(w, x, d):
        h = torch.tanh(x @ w[:first].view(m, k) + w[first : first + k])
        logits = h @ w[first + k : second].view(k, classes) + w[second:]
        return torch.nn.functional.cross_entropy(logits, d)

    X = torch.from_numpy(problem.shards.features)
    y = torch.from_numpy(problem.shards.targets[..., 0]).long()
    W = torch.from_numpy(NETWORK.weights(NETWORK.key(0)).toarray()).to(X.dtype)
    X_test, y_test = (torch.from_numpy(part) for part in test)
    agents, alpha = torch.arange(AGENTS)[:, None], solver.step_size
    slope = vmap(grad(cost))
    places = [torch.tensor(solver.batch.at(problem, n).indices) for n in range(rounds + 1)]
    w = torch.from_numpy(np.tile(start(problem), (AGENTS, 1))).to(X.dtype)

    def gradient(w, n):
        return slope(w, X[agents, places[n]], y[agents, places[n]]) + DECAY * w

    def right(w):
        logits = torch.tanh(X_test @ w[:first].view(m, k) + w[first : first + k]) @ w[first + k : second].view(k, classes)
        return (logits + w[second:]).argmax(1).eq(y_test).double().mean().item()

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
                return seconds, n + 1
            since = time.perf_counter()
    return np.inf, rounds


def to_a_test_accuracy(dtype, repeats, epochs):
    train, test = images(dtype)
    print(f"\nSeconds until the mean and all agents have a test accuracy, medians of {repeats} runs in turn, {np.dtype(dtype)}")
    print(f"(batches take at most {BARS['full']} of full batches' and {BARS['torch']} of PyTorch's)")
    names = ("shards", "accuracy", "batches", "step", "rounds", "full", "step", "rounds", "ratio", "torch", "rounds", "ratio")
    print(" ".join(f"{name:>8}" for name in names))
    for scheme, (level, method, step) in CASES.items():
        problem = problem_of(train, scheme)
        every = -(-problem.shards.features.shape[1] // BATCH)  # an epoch

        def batches(step, method=method):
            return method(step, batch=BATCH)

        few, many = (level, epochs * every, every), (level, 10 * epochs, 10)
        first, second = quickest(problem, test, batches, step, *few), quickest(problem, test, GradientTracking, FULL, *many)
        few, many = (problem, test, batches(first), *few), (problem, test, GradientTracking(second), *many)
        runs = [(ours, few), (ours, many), *([(in_torch, few)] if find_spec("torch") else [])]
        turns = tqdm([turn for _ in range(repeats) for turn in runs], f"{scheme}, {np.dtype(dtype)}", unit="run", leave=False)
        found = np.array([run(*settings) for run, settings in turns]).reshape(repeats, len(runs), 2)
        (own, whole, *torch), rounds = np.median(found[:, :, 0], axis=0).tolist(), found[0, :, 1].astype(int)
        line = f"{scheme:>8} {level:>8.0%} {own:>8.2f} {first:>8g} {rounds[0]:>8} {whole:>8.2f} {second:>8g} {rounds[1]:>8} "
        line += f"{own / whole:>8.2f} "
        beside = f"{torch[0]:>8.2f} {rounds[2]:>8} {own / torch[0]:>8.2f}" if torch else "(PyTorch is not installed)"
        print(line + beside, flush=True)


def an_epoch(dtype, repeats):
    """D-PSGD on all 10,000 images, against its gradients' products on the same cores: consecutive rows, in place."""
    (X, y), (others, rest) = images(dtype)
    problem = problem_of((np.concatenate([X, others]), np.concatenate([y, rest])), "iid")
    features, rounds = problem.shards.features, -(-problem.shards.features.shape[1] // BATCH)
    solver = DGD(1e-3, batch=BATCH)
    w, gradient = (np.tile(start(problem).astype(dtype), (AGENTS, 1)) for _ in range(2))
    (W1, _), (W2, _) = problem.model._split(w)
    (G1, _), (G2, _) = problem.model._split(gradient)
    h, u = (np.ones((AGENTS, BATCH, WIDTHS[1]), dtype) for _ in range(2))
    outputs = np.zeros((AGENTS, BATCH, WIDTHS[2]), dtype)

    def bare():
        for n in range(rounds):
            x = features[:, n * BATCH : (n + 1) * BATCH]

            def products(rows, x=x, few=slice(0, x.shape[1])):
                hidden, out, slopes = (array[rows, few] for array in (h, outputs, u))
                np.matmul(x[rows], W1[rows], out=hidden)
                np.matmul(hidden, W2[rows], out=out)
                np.matmul(hidden.swapaxes(1, 2), out, out=G2[rows])
                np.matmul(out, W2[rows].swapaxes(1, 2), out=slopes)
                np.matmul(x[rows].swapaxes(1, 2), slopes, out=G1[rows])

            for_chunks(products, AGENTS, x[0].nbytes, 1e9)

    def epoch():
        seconds = consensus.solve(problem, NETWORK, solver, rounds=2 * rounds, record_every=rounds).history["seconds"]
        return seconds[2] - seconds[1]

    with one_blas_thread:
        bare(), epoch()
        times = np.array([(epoch(), timed(bare)[0]) for _ in range(repeats)])
    (mine, products), ratio = np.median(times, axis=0), np.median(times[:, 0] / times[:, 1])
    what = f"An epoch of D-PSGD on 10,000 images, {np.dtype(dtype)}: {mine:.3f} s, its products {products:.3f} s"
    print(f"{what}, ratio {ratio:.2f} (at most {BARS['products']})", flush=True)


def main():
    given = options(__doc__, repeats=(3, "of which medians are printed"), epochs=(100, "at most"))
    for dtype in (np.float64, np.float32):
        an_epoch(dtype, 4 * given.repeats)
        to_a_test_accuracy(dtype, given.repeats, given.epochs)


if __name__ == "__main__":
    main()
