"""Which solvers tolerate what: links lost one by one and in bursts, agents active at random, noise and rounding of messages."""

import contextlib
import itertools
import warnings

import consensus
import topologies
from consensus import solvers
from consensus.solvers import NEXT, Solver
from consensus.studies import Gaussian, NoisyMessages, Rounding, Study
from consensus.surrogates import FullLinearization
from experiments.shared.studies import options, ran

NETWORKS = {
    "as it is": lambda whole, seed: whole,
    "links lost, one by one": lambda whole, seed: topologies.LinkFailure(whole, 0.2, seed=seed),
    "links lost, in bursts": lambda whole, seed: topologies.GilbertElliott(whole, loss=0.2, burst=10, seed=seed),
    "agents active at random": lambda whole, seed: topologies.RandomActivation(whole, 0.5, seed=seed),
}
NOISE = {"Gaussian noise": Gaussian(1e-3), "rounding": Rounding(1e-3)}
NAMES = "DGD GradientTracking AutoGT DATOS ProxGT EXTRA NIDS ExactDiffusion WangElia DADMM DLM ATG KGT LED LTADMM AdaptiveNEXT"
SOLVERS: dict[str, Solver] = {name: getattr(solvers, name)() for name in NAMES.split()}
SOLVERS |= {"NEXT": NEXT(FullLinearization(1.0), 0.1)}


EXCHANGES = 600  # of every run, however many of them a round takes


def case(seed, network):
    """Ridge regression on diabetes, of ten agents with sorted targets on a random graph."""
    X, y = consensus.datasets.load("diabetes")
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    shards = consensus.partition(X, y, agents=10, scheme="sorted", seed=seed)
    problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    whole = topologies.Static(topologies.erdos_renyi(10, 0.4, seed=seed))
    return problem, NETWORKS[network](whole, seed), {"exchanges": EXCHANGES}


def error_left(result):
    """The larger of stationarity and disagreement at the end, over the stationarity at the start."""
    history = result.history
    return max(history["stationarity"][-1], history["disagreement"][-1]) / history["stationarity"][0]


def measured(folder, seeds, workers):
    """The table: rows solvers, columns what happens to messages; solvers that refuse to be wrapped are not run with noise.

    Steps and penalties are everywhere the defaults for the first seed on its network as it is: those for networks that change
    are shorter where theory asks for it.
    """
    problem, network, _ = case(0, "as it is")
    ready = {name: solver.prepared(problem, network) for name, solver in SOLVERS.items()}
    usual = {"seeds": seeds, "measure": error_left, "rounds": EXCHANGES}
    noisy = {}
    for (name, solver), (what, kind) in itertools.product(ready.items(), NOISE.items()):
        with contextlib.suppress(TypeError):
            noisy[f"{name}, {what}"] = NoisyMessages(solver, kind)
    lost = Study(case, over={"network": list(NETWORKS)}, solvers=ready, folder=folder / "networks", **usual)
    changed = Study(case, over={"network": ["as it is"]}, solvers=noisy, folder=folder / "messages", **usual)
    found = ran(lost, workers).table("median [range]")
    cells = ran(changed, workers).table("median [range]")["as it is"]
    return found.assign(**{what: [cells.get(f"{name}, {what}", "–") for name in ready] for what in NOISE})


def main(arguments=None):
    given = options(__doc__, arguments, seeds=3, workers=2)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*theory")  # what is beyond a method's theory is what is asked here
        table = measured(given.output / "tolerance", given.seeds, given.workers)
    print(table.to_markdown())


if __name__ == "__main__":
    main()
