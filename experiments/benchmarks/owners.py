"""What a run between owners costs: peers with keys of their own, on one machine, over TLS on its loopback address.

``rounds``: a round of Peers beside one of Torch (gloo, plain text), by turns in the same processes. ``slow``: seconds until
1% of the gap is left when one of four owners takes three times as long, with rounds and without. ``links``: what a solver
without rounds comes to while each link is down half of the time. Owners of these two are threads; their gradients sleep.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

import consensus
import topologies
from consensus.asynchronous import ASYSONATA, Simulated
from consensus.engines import Torch
from consensus.peers import Peers
from consensus.peers.link import Link, Refused
from consensus.solvers import DGD, NEXT, NIDS, AdaptiveNEXT, GradientTracking
from consensus.surrogates import FullLinearization
from experiments.shared import environment
from experiments.shared.slowed import Slowed
from experiments.shared.timing import Rows, a_round, elsewhere, in_turn, options
from tests.helpers.loopback import NAMES, free_ports, together, written

SIZES = {10_000: 100, 1_000_000: 20}  # numbers of a message, and rounds of a run
WORK, SLOW = 20e-3, 3.0  # seconds of a gradient, and times so many at the last owner
LEVEL, ROUNDS = 0.01, 40  # of the gap; of which all come below it
OUT = 0.5  # seconds for which a link is down, and then up
STEPS = np.geomspace(0.125, 2.0, 9)
WITHOUT = "NEXT without rounds, full"
FAMILIES = {
    WITHOUT: lambda step: ASYSONATA(FullLinearization(1 / step), 1.0),
    "NEXT, full": lambda step: NEXT(FullLinearization(1 / step), 1.0),
    "gradient tracking": GradientTracking,
    "NIDS": NIDS,
    "AdaptiveNEXT": lambda _: AdaptiveNEXT(),
}


class Costs(Slowed):
    """Unlike quadratics, whose gradients take their time where there is one agent; ``seen`` are times and points of these."""

    def __init__(self, waits):
        super().__init__(len(NAMES), 0, waits)
        self.seen = [[] for _ in NAMES]

    def gradient(self, w, rows):
        if self.waits and len(rows) == 1:
            self.seen[rows[0]].append((time.perf_counter(), w[0].copy()))
            time.sleep(WORK * (SLOW if len(self.centres) - 1 in rows else 1.0))
        return self.curvatures[rows] * (w - self.centres[rows])

    def even(self):
        """Let all curvatures be between 1/2 and 3/2."""
        self.curvatures = np.random.default_rng(1).uniform(0.5, 1.5, self.centres.shape)
        self.optimum = np.average(self.centres, axis=0, weights=self.curvatures)
        return self

    def solve(self, network, solver, **options):
        agents, parameters = self.centres.shape
        problem = consensus.Problem.from_functions(self.value, self.gradient, agents=agents, parameters=parameters)
        return consensus.solve(problem, network, solver, start=np.zeros(parameters), **options)


def to_level(history, column):
    """The first entry of a column with so little of the gap left; the objective of the optimum is zero."""
    there = np.flatnonzero(history["objective"] <= LEVEL * history["objective"][0])
    return float(history[column][there[0]]) if there.size else np.inf


def by_the_clock(costs):
    """Seconds, and the objective of the mean of the owners' latest points, since the first of them left the start."""
    begin = min(max(moment for moment, w in seen if not w.any()) for seen in costs.seen)
    events = ((moment, owner, w) for owner, seen in enumerate(costs.seen) for moment, w in seen if moment >= begin)
    latest, found = np.zeros_like(costs.centres), []
    for moment, owner, w in sorted(events, key=lambda event: event[0]):
        latest[owner] = w
        means = np.tile(latest.mean(axis=0), (len(latest), 1))
        found.append((moment - begin, costs.value(means, range(len(latest))).sum()))
    return dict(zip(("seconds", "objective"), np.array(found).T, strict=True))


def tuned(name):
    """The best step of a family: by the rounds to 1%, or without rounds by a simulated clock of the same seconds."""
    if name == "AdaptiveNEXT":
        return np.nan
    costs, network = Costs(waits=False), topologies.ring(len(NAMES))
    simulated = Simulated([WORK] * (len(NAMES) - 1) + [SLOW * WORK])
    engine, column = (simulated, "clock") if name == WITHOUT else ("stacked", "round")

    def taken(step):
        try:
            return to_level(costs.solve(network, FAMILIES[name](step), rounds=100, engine=engine).history, column)
        except consensus.DivergenceError:
            return np.inf

    return float(min(STEPS, key=taken))


def first(run):
    """Return what ``run(peers)`` returns at the first of four owners, each a thread."""
    with tempfile.TemporaryDirectory() as folder:
        found = together(written(Path(folder)), run, most=None)[NAMES[0]]
    if isinstance(found, BaseException):
        raise found
    return found


def slow(repeats):
    rows = Rows("\nseconds to 1% of the gap", 28, dict.fromkeys(("median", "least", "most"), ".2f") | {"step": ".2g"})
    for name, make in FAMILIES.items():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*ended above its start")
            step = tuned(name)
        taken = []
        for _ in range(repeats):
            costs, options = Costs(waits=True), {"rounds": ROUNDS, "record_every": ROUNDS}
            first(lambda peers: costs.solve(peers.network, make(step), engine=peers, **options))  # noqa: B023
            taken.append(to_level(by_the_clock(costs), "seconds"))
        rows.add(name, np.median(taken), min(taken), max(taken), step)


def links(wakes):
    costs, arrived, solver = Costs(waits=True).even(), Link.arrived, FAMILIES[WITHOUT](0.25)

    def arrives(link, stream, data):
        phase = sum(map(ord, link.name + link.owner.name)) / 7  # both ends have the same
        if (time.time() / OUT + phase) % 2 < 1:
            raise Refused("it is down")
        arrived(link, stream, data)

    logging.getLogger("consensus").setLevel(logging.CRITICAL)
    Link.arrived = arrives
    result = first(lambda peers: costs.solve(peers.network, solver, rounds=wakes, record_every=wakes, engine=peers))
    left = np.abs(result.w - costs.optimum).max() / np.abs(costs.optimum).max()
    seconds, lost, all_wakes = (result.history[column][-1] for column in ("seconds", "lost", "wakes"))
    print(
        f"\nEach link down for {OUT} s and up for {OUT} s: {wakes} rounds of each owner in {seconds:.0f} s; {left:.1e} of the"
    )
    print(f"distance to the optimum is left; {lost / all_wakes:.2f} messages a wake were overtaken before they left")


def rounds(repeats):
    rows = Rows("\nms of a round", 32, dict.fromkeys(("Peers", "Torch", "ratio"), ".2f"))
    for count in (2, 3, 4):
        names = NAMES[:count]
        edges = {tuple(sorted((name, names[(place + 1) % count]))) for place, name in enumerate(names)}
        with tempfile.TemporaryDirectory() as folder:
            path, (port,) = str(written(Path(folder), names, sorted(edges))), free_ports(1)
            variables = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1"}
            ranks = [os.environ | variables | {"RANK": str(rank)} for rank in range(count)]
            commands = [elsewhere(owner, path, name, repeats) for name in names]
            jobs = [
                subprocess.Popen(command, env=rank, stdout=subprocess.PIPE)
                for command, rank in zip(commands, ranks, strict=True)
            ]
            said = [job.communicate()[0] for job in jobs]
        if any(job.returncode for job in jobs):
            sys.exit("error: one of the owners failed, and said why above")
        for size, (ours, theirs) in json.loads(said[0]).items():
            rows.add(f"{count} owners, {int(size):,} numbers", ours * 1e3, theirs * 1e3, ours / theirs)


def owner(path, me, repeats):
    """Take part in rounds by both engines, by turns; return the medians at the first owner."""

    def seconds(size, count, engine):
        problem = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, engine.size, size)
        options = {"rounds": count, "record_every": count, "start": np.ones(size), "engine": engine}
        return a_round(consensus.solve(problem, peers.network, DGD(0.1), **options).history)

    with Peers(path, me=me) as peers:
        engines, found = (peers, Torch()), {}
        for size, count in SIZES.items():
            times = in_turn([partial(seconds, size, count, engine) for engine in engines], repeats + 1)
            found[size] = np.median(times[1:], axis=0).tolist()
        return found if peers.root else None


def main():
    parts = ["slow", "links", "rounds"]
    numbers = {"repeats": (5, "of which medians are printed"), "wakes": (600, "of each owner, for links")}
    given = options(__doc__, parts=(parts, "what is measured"), **numbers)
    print(environment.shown())
    for part in filter(given.parts.__contains__, parts):
        {"slow": slow, "links": links, "rounds": rounds}[part](given.wakes if part == "links" else given.repeats)


if __name__ == "__main__":
    main()
