"""Ten agents train one neural network over a changing sparse graph: NEXT against gradient tracking and DGD."""

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # writes files, also where there is no screen

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus import datasets
from consensus.solvers import DGD, NEXT, GradientTracking
from consensus.steps import Constant, Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments.shared.cases import loss_for

ENGINES = {"stacked": consensus.engines.Stacked, "processes": consensus.engines.Processes, "mpi": consensus.engines.MPI}
SOLVERS = {
    "NEXT, partial linearization": NEXT(PartialLinearization(tau=0.3), Diminishing(0.5, 0.005)),
    "NEXT, full linearization": NEXT(FullLinearization(tau=2.0), Diminishing(0.5, 0.005)),
    "Gradient tracking": GradientTracking(Constant(0.1)),
    "DGD": DGD(Constant(0.1)),
}


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m experiments.demo", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=1000, help="rounds of every solver")
    parser.add_argument("--agents", type=int, default=10, help="agents in the network")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the shards, the graphs and the start")
    parser.add_argument("--dataset", choices=datasets.NAMES, default="diabetes", help="regression or classification data")
    parser.add_argument("--engine", choices=("stacked", "processes", "mpi"), default="stacked", help="where the agents run")
    parser.add_argument("--output", type=Path, default=Path("results/demo"), help="folder for the figure and histories")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    try:
        data, shards, problem, graph, network = setting(options)
    except (ValueError, OSError) as error:  # a wrong option, no network: no need for a traceback
        sys.exit(f"error: {error}")
    engine = ENGINES[options.engine]()
    tell = print if engine.root else lambda *_: None  # under MPI every rank runs this script
    tell(
        f"{options.agents} agents, {shards.samples} training samples of {options.dataset} "
        f"({shards.sizes.min()} to {shards.sizes.max()} each), {problem.parameters} parameters, "
        f"{graph.number_of_edges()} possible edges of which half are up in a round\n"
    )

    histories = {}
    for name, solver in SOLVERS.items():  # all from the same start, which the seed draws
        result = consensus.solve(
            problem,
            network,
            solver,
            rounds=options.rounds,
            seed=options.seed,
            engine=engine,
            record_every=max(1, options.rounds // 200),
            progress=True,
            test=(data.X_test, data.y_test),
        )
        histories[name] = result.history

    if not engine.root:
        return
    print(table(histories))
    options.output.mkdir(parents=True, exist_ok=True)
    for name, history in histories.items():
        history.to_csv(options.output / f"{name.lower().replace(',', '').replace(' ', '-')}.csv")
    path = options.output / "demo.png"
    figure(histories).savefig(path, dpi=150)
    print(f"\nThe figure is in {path}, the histories beside it.")


def setting(options):
    """The data, the problem that the agents solve and the network over which they do."""
    # Every agent gets its own shard of the training data.
    whole = datasets.load(options.dataset)
    data = datasets.split(*whole, seed=options.seed, classification=whole.classification)
    shards = consensus.partition(data.X, data.y, agents=options.agents, seed=options.seed)

    # They train one network with 20 hidden units together: minimise the mean loss plus weight decay.
    loss, outputs = loss_for(whole)
    model = consensus.MLP([data.X.shape[1], 20, outputs], activation="tanh")
    problem = consensus.Problem(model, loss, shards, consensus.L2(1e-2))

    # They talk over a sparse graph whose edges come and go: each is up in half of the rounds.
    graph = topologies.erdos_renyi(options.agents, probability=0.3, seed=options.seed)
    network = topologies.RandomEdges(graph, probability=0.5, seed=options.seed)
    return data, shards, problem, graph, network


def table(histories):
    """The last row of every run."""
    columns = {
        "objective": "objective",
        "stationarity": "stationarity",
        "disagreement": "disagreement",
        "test_error": "test error",
        "exchanges": "exchanges",
        "floats": "floats sent",
        "seconds": "seconds",
    }
    formats = {"exchanges": "{:d}", "floats": "{:,d}", "seconds": "{:.2f}"}
    rows = [["solver", *columns.values()]]
    for name, history in histories.items():
        last = history.last()
        rows.append([name, *(formats.get(column, "{:.3g}").format(last[column]) for column in columns)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"{row[0]:<{widths[0]}}" + "".join(f"  {cell:>{w}}" for cell, w in zip(row[1:], widths[1:])) for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def figure(histories):
    """Objective, stationarity and disagreement against exchanges."""
    canvas, axes = plt.subplots(1, 3, figsize=(12.5, 4), layout="constrained")
    for ax, quantity in zip(axes, ("objective", "stationarity", "disagreement"), strict=True):
        consensus.plotting.convergence(histories, y=quantity, x="exchanges", ax=ax)
        ax.get_legend().remove()
    canvas.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(histories), frameon=False)
    return canvas


if __name__ == "__main__":
    main()
