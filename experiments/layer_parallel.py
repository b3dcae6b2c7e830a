"""One residual network of 1,024 layers split over workers: residuals, gradient errors, training, seconds by workers."""

from contextlib import nullcontext

import numpy as np

import consensus
from consensus._arrays.parallel import cores
from consensus.centralized import FedAvg, LayerParallel, solve
from consensus.history import History
from consensus.models import ResNet
from experiments.shared import layer_passes, reading
from experiments.shared.curves import LEGEND, panels
from experiments.shared.layer_passes import HERE, NETWORK, Sizes, measured, paying, predicted
from experiments.shared.studies import Folder, options
from experiments.shared.tables import Table, latex_text

OWN_DATA = True
LEVELS, ITERATIONS = (2, 3, 5), 4  # of accuracy
SIZES = Sizes(layers=1024, width=64, samples=500, iterations=2)  # of seconds
TRAINED = {"width": 16, "layers": 256}
DIGITS = 1000  # samples that train
RATE, DECAY = 0.2, consensus.L2(1e-5)
EXACT, SIMULTANEOUS = "exact gradients", "one V-cycle a step"
WORKERS = 2
FORWARD, ADJOINT, ERROR = "forward residual", "adjoint residual", "gradient error"
LOOK = {2: ("black", "o"), 3: ("0.45", "s"), 5: ("0.7", "^")}  # colour and marker by levels


def main(arguments=None):
    given = options(__doc__, arguments, {"rounds": 5}, agents=1, seeds=1, rounds=60)  # for one agent and seed, whatever all get
    folder = Folder(given, "layer_parallel")
    sizes = Sizes(64, 8, 50, 2) if given.quick else SIZES
    levels, layers = (LEVELS[:2], 64) if given.quick else (LEVELS, SIZES.layers)
    workers, most = (1, 2) if given.quick else (WORKERS, ITERATIONS)  # the numbers are the same on any number of workers
    gradients, descend = folder.kept(accurate), folder.kept(trained)
    accuracy = {count: gradients(layers, count, most, workers) for count in levels}
    network = TRAINED | ({"layers": 16} if given.quick else {})
    training = {name: descend(name, network, given.rounds, workers) for name in (EXACT, SIMULTANEOUS)}
    history = folder.kept(layer_passes.seconds)(sizes, 2 if given.quick else 9, cores())
    folder.figure(figure(accuracy, training, history, sizes))
    folder.table(crossover_table(history, sizes))
    folder.table(seconds_table(history, sizes), "seconds")
    folder.table(accuracy_table(accuracy), "accuracy")
    folder.table(training_table(training), "training")


def accurate(layers, levels, most, workers, seed=0):
    """The history of gradients after 0, 1, 2, ... iterations beside the serial one; states start from the coarsest level."""
    network, rng, history = ResNet(20, 16, layers, 5), np.random.default_rng(seed), History()
    w = network.init(rng)[None]
    x, other = rng.standard_normal((2, 1, 100, 20))
    u = rng.standard_normal((1, 100, 5)) / 100
    wanted = network.vjp(w, x, u)
    with LayerParallel(network, workers, levels=levels) as model:
        for model.iterations in range(1, most + 1):
            error = np.linalg.norm(model.gradient(w, x, u) - wanted) / np.linalg.norm(wanted)
            if model.iterations == 1:
                history.append({"round": 0, **residuals(model, 0), ERROR: np.nan})
            history.append({"round": model.iterations, **residuals(model, -1), ERROR: error})
            model.linearize(w, other)  # after which the states of x are forgotten
    return history


def residuals(model, place):
    return {FORWARD: model.residuals.forward[place], ADJOINT: model.residuals.adjoint[place]}


def trained(name, sizes, steps, workers, seed=0):
    """History and parameters of gradient descent on the digits, by exact gradients or with one V-cycle a step each way."""
    network, data = ResNet(64, **sizes, outputs=10), consensus.datasets.load("digits")
    data = consensus.datasets.split(*data, classification=True, seed=seed)
    shards = consensus.partition(data.X[:DIGITS], data.y[:DIGITS], agents=1)
    start, test = network.init(np.random.default_rng(seed)), (data.X_test, data.y_test)
    split = name == SIMULTANEOUS
    with LayerParallel(network, workers, iterations=1) if split else nullcontext(network) as model:
        problem = consensus.Problem(model, consensus.CrossEntropy(), shards, DECAY)
        result = solve(problem, FedAvg(RATE, local_steps=1), rounds=steps, start=start, test=test, record_every=1)
    return result.history, result.w


def figure(accuracy, training, history, sizes):
    canvas, (fall, error, train, clock) = panels(4, columns=2, size=(3.5, 2.7))
    for levels, fallen in accuracy.items():
        colour, marker = LOOK[levels]
        rounds, look = fallen["round"], {"color": colour, "marker": marker, "markersize": 4}
        fall.semilogy(rounds, fallen[FORWARD], label=f"{levels} levels", **look)
        fall.semilogy(rounds, fallen[ADJOINT], linestyle="--", **look)
        error.semilogy(rounds[1:], fallen[ERROR][1:], label=f"{levels} levels", **look)
    fall.plot([], [], color="black", label="forward")
    fall.plot([], [], color="black", linestyle="--", label="adjoint")
    fall.set(xlabel="V-cycles", ylabel="residual", title="states and cotangents")
    error.set(xlabel="V-cycles each way", ylabel="relative error", title="gradient")
    for name, colour, style, width in ((EXACT, "0.65", "-", 3), (SIMULTANEOUS, "black", "--", 1)):
        run, _ = training[name]
        train.plot(run["round"], run["objective"], label=name, color=colour, linestyle=style, linewidth=width)
    train.set(xlabel="step", ylabel="objective", title="training on digits")
    times, busy = measured(history)
    clock.axhline(layer_passes.serial(history), color="0.5", linestyle=":", label="serial, processor")
    for seconds, look, label in ((busy, "ks", "measured, processor"), (times, "k+", "measured, clock")):
        clock.loglog(list(seconds)[1:], list(seconds.values())[1:], look, markersize=5, label=label)
    machines = layer_passes.clusters(history, sizes)
    for place, iterations, colour, style in ((HERE, 2, "black", "-"), (HERE, 1, "black", "--"), (NETWORK, 2, "0.6", "-")):
        curve = predicted(machines[place], sizes._replace(iterations=iterations))
        label = f"{place}, {iterations} V-cycle{'s' if iterations > 1 else ''}"
        clock.loglog(*zip(*curve.items(), strict=True), color=colour, linestyle=style, label=label)
    clock.set(xlabel="workers", ylabel="seconds of a gradient", title="measured and predicted")
    clock.set_xticks(list(curve)[::2], list(curve)[::2])
    clock.minorticks_off()
    cycles = [int(count) for count in next(iter(accuracy.values()))["round"]]
    fall.set_xticks(cycles)
    error.set_xticks(cycles[1:])
    for ax in (fall, error, train, clock):
        ax.legend(**LEGEND, fontsize=6.5)
    return canvas


def seconds_table(history, sizes):
    """Seconds of a gradient by workers (0: serial): measured by the clock, of the busiest slab's processor, and predicted."""
    times, busy = measured(history)
    machines = layer_passes.clusters(history, sizes)
    seconds = {name: predicted(cluster, sizes) for name, cluster in machines.items()}
    rows = Table(
        {"workers": "d", "clock, s": ".3g", "processor, s": ".3g"} | {f"predicted, {name}, s": ".3g" for name in machines}
    )
    for count in (0, *seconds[HERE]):
        rows.add(count, times.get(count), busy.get(count), *(there.get(count) for there in seconds.values()))
    return rows


def crossover_table(history, sizes):
    """On how many workers a gradient takes less than the serial one, and on how many the least, as predicted."""
    serial, rows = layer_passes.serial(history), Table({"V-cycles": "d", "cluster": ""} | layer_passes.PAYING)
    for name, cluster in layer_passes.clusters(history, sizes).items():
        for iterations in (2, 1):
            rows.add(iterations, name, *paying(serial, predicted(cluster, sizes._replace(iterations=iterations))))
    return rows


def accuracy_table(accuracy):
    rows = Table({"levels": "d", "V-cycles": "d", FORWARD: ".2e", ADJOINT: ".2e", ERROR: ".2e"})
    for levels, history in accuracy.items():
        columns = (history[name] for name in ("round", FORWARD, ADJOINT, ERROR))
        for count, *values in zip(*columns, strict=True):
            rows.add(levels, int(count), *map(float, values))
    return rows


def training_table(training):
    """Return a table of the ends of training, and of the parameters' distances from those of exact training."""
    rows = Table({"gradients": "", "objective": ".6g", "test error": ".3g", "distance of the parameters": ".2e"})
    _, exact = training[EXACT]
    for name, (end, w) in training.items():
        away = np.linalg.norm(w - exact) / np.linalg.norm(exact)
        rows.add(name, float(end["objective"][-1]), float(end["test_error"][-1]), float(away))
    return rows


def in_the_paper(folder):
    """Return the accuracy of gradients of split layers, and the numbers of workers for which they pay, by name."""
    accuracy = [row for row in reading.rows(folder / "accuracy.csv") if row["V-cycles"] != "0"]
    deepest = max(accuracy, key=lambda row: int(row["levels"]))["levels"]
    found = {"layers.levels": deepest, "layers.count": f"{SIZES.layers:,}"}
    found |= {"layers.width": SIZES.width, "layers.samples": SIZES.samples}
    for levels, name in (("2", "two"), (deepest, "deepest")):
        first, second = (row for row in accuracy if row["levels"] == levels and row["V-cycles"] in "12")
        fall = float(first[FORWARD]) / float(second[FORWARD])
        found |= {
            f"layers.{name}.fall": f"{fall:.0f}",
            f"layers.{name}.error": latex_text(f"{float(first[ERROR]):.0e}"),
        }
    found |= layer_passes.in_the_paper(folder, lambda row: f"layers.{'one' if row['V-cycles'] == '1' else 'cycles'}")
    ends = [float(row["distance of the parameters"]) for row in reading.rows(folder / "training.csv")]
    return found | {"layers.away": latex_text(f"{max(ends):.0e}")}


if __name__ == "__main__":
    main()
