"""Matrices spread over workers in one, two and three dimensions: bytes and seconds by workers, where it pays."""

import math
from typing import NamedTuple

import numpy as np

from consensus.centralized import SplitMLP, SplitTransformer
from consensus.costs import Cluster, Load
from consensus.models import MLP
from experiments.shared import layer_passes, reading
from experiments.shared.curves import LEGEND, panels
from experiments.shared.layer_passes import CPU, HERE, SENT, SERIAL, given, gradients, machines, paying
from experiments.shared.studies import Folder, options
from experiments.shared.tables import Table

POWERS = {"1d": 1, "2d": 2, "3d": 3}
NAMES = {"1d": "1-D", "2d": "2-D", "3d": "3-D"}


class Sizes(NamedTuple):
    """Of a perceptron with one hidden layer, and its samples."""

    width: int
    hidden: int
    samples: int

    @property
    def widths(self):
        return [self.width, self.hidden, self.width]

    def split(self, split, workers):
        return SplitMLP(self.widths, workers, split=split)

    def serial(self):
        """Return the work of one process by itself."""
        flops = 2.0 * self.samples * self.width * self.hidden * 5  # no gradient by the features
        return Load(np.zeros(1), np.zeros(1), np.array([flops]), 1)


OWN_DATA = True
SIZES = Sizes(width=512, hidden=2048, samples=1024)
PLACES = [("1d", 2), ("1d", 4), ("1d", 8), ("2d", 4), ("3d", 8)]
BLOCK = {"width": 2048, "heads": 64, "hidden": 8192, "sequence": 512}  # a transformer block, of which formulas alone tell
SAMPLES, MOST = 64, {"1d": 64, "2d": 1024, "3d": 512}  # on a line there are as many workers as heads at most
ACCELERATORS = Cluster(latency=5e-6, bandwidth=1.25e10, flops=1e13)
WORKERS, CLAIMS = 64, {"1d": 2.32, "2d": 1.57}  # of Bian et al., for the speed-up of 3-D on 64
LOOK = {
    split: {"color": color, "marker": marker, "linestyle": line, "markersize": 4}
    for split, color, marker, line in (("1d", "0.6", "s", "-"), ("2d", "0.3", "o", "--"), ("3d", "black", "^", "-"))
}


def main(arguments=None):
    given = options(__doc__, arguments, {"rounds": 2}, agents=1, seeds=1, rounds=9)  # for one agent and seed, whatever all get
    folder = Folder(given, "tensor_parallel")
    sizes, places, most = (Sizes(64, 128, 100), [("1d", 2)], 64) if given.quick else (SIZES, PLACES, 512)
    history = folder.kept(timed)(sizes, places, given.rounds)
    folder.figure(figure(history, sizes, places, most))
    folder.table(crossover_table(history, sizes, most))
    folder.table(gains_table(), "gains")
    folder.table(measured_table(history, sizes, places), "measured")


def on(split, workers):
    """The column of the seconds of a gradient."""
    return f"seconds of a gradient, {NAMES[split]} on {workers}"


def timed(sizes, places, repeats):
    """The history of gradients, serial and in ``places``, pairs of a split and workers, and messages, in turns."""
    network = MLP(sizes.widths)
    models = {SERIAL: network} | {on(*place): sizes.split(*place) for place in places}
    return gradients(models, *given(network, sizes.samples), sizes.samples * sizes.width * 8, repeats)


def seconds(history, name):
    """Medians of the seconds of a gradient by the clock, and of a processor (of the busiest worker)."""
    return tuple(float(np.median(history[name + of])) for of in ("", CPU))


def clusters(history, sizes):
    """See :func:`experiments.shared.layer_passes.machines`."""
    return machines(history, float(sizes.serial().flops[0]), sizes)


def counts(split, most):
    """Numbers of workers up to ``most`` that are powers of two, squares of them or cubes."""
    power = POWERS[split]
    return [2 ** (power * k) for k in range(int(math.log2(most)) // power + 1)]


def predicted(cluster, sizes, split, most):
    """``{workers: seconds}`` of a gradient."""
    return {count: float(cluster.seconds(sizes.split(split, count).load(sizes.samples))[0]) for count in counts(split, most)}


def block(split, workers, sequence=BLOCK["sequence"]):
    """Return the work of a worker for a gradient of the transformer block, with so many tokens a sequence."""
    sizes = BLOCK | {"sequence": sequence}
    return SplitTransformer(**sizes, workers=workers, split=split).load(SAMPLES, itemsize=4)


def gains(tokens):
    """Return the speed-ups of 3-D over the other splits on 64 workers, for ``tokens`` times the width of a token."""
    sequence = int(tokens * BLOCK["width"]) // SAMPLES
    found = {split: float(ACCELERATORS.seconds(block(split, WORKERS, sequence))[0]) for split in LOOK}
    return {split: found[split] / found["3d"] for split in CLAIMS}


def figure(history, sizes, places, most):
    canvas, (sent, clock, gain, here) = panels(4, columns=2, size=(3.5, 2.7))
    serial = float(ACCELERATORS.seconds(block("1d", 1))[0])
    for split, look in LOOK.items():
        workers = counts(split, MOST[split])
        loads = [block(split, count) for count in workers]
        sent.loglog(workers[1:], [load.bytes[0] / 2e9 for load in loads[1:]], label=NAMES[split], **look)
        clock.loglog(workers, [float(ACCELERATORS.seconds(load)[0]) for load in loads], label=NAMES[split], **look)
    ideal = np.array([1, max(MOST.values())])
    clock.loglog(ideal, serial / ideal, color="0.8", linewidth=1, label="serial, divided")
    sent.set(xlabel="workers", ylabel="GB sent by each", title="transformer block: bytes")
    clock.set(xlabel="workers", ylabel="seconds of a gradient", title="transformer block: seconds")
    sent.set_yticks([0.2, 0.5, 1, 2], ["0.2", "0.5", "1", "2"])
    sent.yaxis.minorticks_off()
    tokens = 2.0 ** np.arange(-2, 7)
    curves = [gains(ratio) for ratio in tokens]
    for split, claim in CLAIMS.items():
        gain.semilogx(tokens, [each[split] for each in curves], label=f"over {NAMES[split]}", **LOOK[split])
        gain.axhline(claim, color=LOOK[split]["color"], linestyle=":", label=f"over {NAMES[split]}, Bian et al.")
    gain.set(xlabel="tokens / width", ylabel="speed-up of 3-D", title=f"transformer block on {WORKERS}", ylim=(0.5, 5.5))
    cluster = clusters(history, sizes)[HERE]
    here.axhline(layer_passes.serial(history), color="0.5", linestyle=":", label="serial, processor")
    for split, look in LOOK.items():
        curve = predicted(cluster, sizes, split, most)
        here.loglog(*zip(*curve.items(), strict=True), **look | {"marker": "", "label": f"{NAMES[split]}, predicted"})
        those = [count for name, count in places if name == split]
        busy = [seconds(history, on(split, count))[1] for count in those]
        here.loglog(those, busy, **look | {"linestyle": "", "markersize": 5})
    here.plot([], [], color="black", marker="^", linestyle="", markersize=5, label="measured, processor")
    here.set(xlabel="workers", ylabel="seconds of a gradient", title="perceptron: pipes here")
    gain.legend(**LEGEND, fontsize=6.5, ncols=2, loc="upper center")
    for ax, ticks in ((sent, 9), (clock, 10), (here, int(np.log2(most)))):
        ax.legend(**LEGEND, fontsize=6.5)
        shown = [4**k for k in range(ticks // 2 + 1)]
        ax.set_xticks(shown, shown)
        ax.xaxis.minorticks_off()
    gain.set_xticks(tokens[::2], [f"{value:g}" for value in tokens[::2]])
    gain.xaxis.minorticks_off()
    return canvas


def crossover_table(history, sizes, most):
    """On how many workers a gradient of the perceptron takes less than the serial one, and on how many the least."""
    serial, rows = layer_passes.serial(history), Table({"cluster": "", "split": ""} | layer_passes.PAYING)
    for name, cluster in clusters(history, sizes).items():
        for split in LOOK:
            found = predicted(cluster, sizes, split, most)
            del found[1]
            rows.add(name, NAMES[split], *paying(serial, found))
    return rows


def gains_table():
    """Return a table of the speed-ups of 3-D on 64 workers, as predicted and as measured in the paper."""
    rows = Table({"tokens / width": ".3g"} | {f"over {NAMES[split]}": ".3g" for split in CLAIMS})
    for tokens in (0.25, 1, 4, 16, 64):
        rows.add(tokens, *gains(tokens).values())
    rows.add(None, *CLAIMS.values())
    return rows


def measured_table(history, sizes, places):
    """Seconds and bytes of a gradient of the perceptron: measured, and as formulas say."""
    cluster = clusters(history, sizes)[HERE]
    columns = {"clock, s": ".3g", "processor, s": ".3g", "predicted, s": ".3g", "MB sent by each": ".4g", "by formula": ".4g"}
    rows = Table({"split": "", "workers": "d"} | columns)
    rows.add("serial", 1, *seconds(history, SERIAL), float(cluster.seconds(sizes.serial())[0]), 0.0, 0.0)
    for split, workers in places:
        load, name = sizes.split(split, workers).load(sizes.samples), on(split, workers)
        sent = float(history[SENT + name][-1]) / workers / 1e6, float(load.bytes[0]) / 2e6
        rows.add(NAMES[split], workers, *seconds(history, name), float(cluster.seconds(load)[0]), *sent)
    return rows


def in_the_paper(folder):
    """Return the settings in which spread matrices pay, and the speed-ups of a cube, by name."""
    found = {"tensor.width": SIZES.width, "tensor.hidden": f"{SIZES.hidden:,}", "tensor.samples": f"{SIZES.samples:,}"}
    found |= {"tensor.workers": WORKERS} | {f"tensor.claim.{split}": f"{claim:g}" for split, claim in CLAIMS.items()}
    rows = [row for row in reading.rows(folder / "gains.csv") if row["tokens / width"]]
    most = rows[-1]
    (even,) = (row for row in rows if float(row["tokens / width"]) == 1)
    found["tensor.most"] = f"{float(most['tokens / width']):g}"
    for name, row in (("even", even), ("most", most)):
        found |= {f"tensor.{name}.{split}": f"{float(row[f'over {NAMES[split]}']):.2f}" for split in CLAIMS}
    splits = {name: split for split, name in NAMES.items()}
    return found | layer_passes.in_the_paper(folder, lambda row: f"tensor.{splits[row['split']]}")


if __name__ == "__main__":
    main()
