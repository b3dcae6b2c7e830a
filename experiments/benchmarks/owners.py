"""What a run between owners costs: peers with keys of their own, on one machine, over TLS on its loopback address.

``rounds``: a round of Peers beside one of Torch (gloo, plain text), by turns in the same processes. ``slow``: seconds until
1% of the gap is left when one of four owners takes three times as long, with rounds and without. ``links``: what a solver
without rounds comes to while each link is down half of the time. Owners of these two are threads; their gradients sleep.
"""

import argparse
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

import consensus
import topologies
from consensus.asynchronous import ASYSONATA, Simulated
from consensus.engines import Stacked, Torch
from consensus.peers import Peers, keys
from consensus.peers.link import Link, Refused
from consensus.solvers import DGD, NEXT, NIDS, AdaptiveNEXT, GradientTracking
from consensus.surrogates import FullLinearization
from experiments.shared import environment
from experiments.shared.slowed import Slowed

NAMES = ("oslo", "rome", "vienna", "bergen")
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
    events = sorted(((moment, owner, w) for owner, seen in enumerate(costs.seen) for moment, w in seen), key=lambda one: one[0])
    latest, found = np.zeros_like(costs.centres), {"seconds": [], "objective": []}
    for moment, owner, w in events:
        if moment >= begin:
            latest[owner] = w
            means = np.tile(latest.mean(axis=0), (len(latest), 1))
            found["seconds"].append(moment - begin)
            found["objective"].append(costs.value(means, range(len(latest))).sum())
    return {name: np.array(column) for name, column in found.items()}


def tuned(name):
    """The best step of a family: by the rounds to 1%, or without rounds by a simulated clock of the same seconds."""
    if name == "AdaptiveNEXT":
        return np.nan
    costs, network = Costs(waits=False), topologies.ring(len(NAMES))
    engine, column = Stacked(), "round"
    if name == WITHOUT:
        engine, column = Simulated([WORK] * (len(NAMES) - 1) + [SLOW * WORK]), "clock"

    def taken(step):
        try:
            return to_level(costs.solve(network, FAMILIES[name](step), rounds=100, engine=engine).history, column)
        except consensus.DivergenceError:
            return np.inf

    return float(min(STEPS, key=taken))


def written(folder, names):
    """Write keys and the file of a run on a ring; return the file, and one more port that nobody has."""
    free = [socket.create_server(("localhost", 0)) for _ in range(len(names) + 1)]
    ports = [one.getsockname()[1] for one in free]
    for one in free:
        one.close()
    lines = ["[peers]"]
    for name, port in zip(names, ports, strict=False):
        keys(name, folder)
        lines.append(f'{name} = {{address = "localhost:{port}", certificate = "{name}.pem"}}')
    edges = {tuple(sorted((name, names[(place + 1) % len(names)]))) for place, name in enumerate(names)}
    path = Path(folder, "run.toml")
    path.write_text("\n".join([*lines, "[network]", f"edges = {json.dumps(sorted(edges))}"]))
    return path, ports[-1]


def together(run):
    """Return what ``run(peers)`` returns at the first of four owners, each a thread."""
    found = {}

    def one(path, name):
        with Peers(path, me=name) as peers:
            found[name] = run(peers)

    with tempfile.TemporaryDirectory() as folder:
        path, _ = written(folder, NAMES)
        threads = [threading.Thread(target=one, args=(path, name)) for name in NAMES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return found[NAMES[0]]


def slow(repeats):
    print(f"\n{'seconds to 1% of the gap':<28}{'median':>8}{'least':>8}{'most':>8}{'step':>8}")
    for name, make in FAMILIES.items():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*ended above its start")
            step = tuned(name)
        taken = []
        for _ in range(repeats):
            costs, options = Costs(waits=True), {"rounds": ROUNDS, "record_every": ROUNDS}
            together(lambda peers: costs.solve(peers.network, make(step), engine=peers, **options))  # noqa: B023
            taken.append(to_level(by_the_clock(costs), "seconds"))
        print(f"{name:<28}{np.median(taken):>8.2f}{min(taken):>8.2f}{max(taken):>8.2f}{step:>8.2g}", flush=True)


def links(wakes):
    costs, arrived, solver = Costs(waits=True).even(), Link.arrived, FAMILIES[WITHOUT](0.25)

    def arrives(link, stream, data):
        phase = sum(map(ord, link.name + link.owner.name)) / 7  # both ends have the same
        if (time.time() / OUT + phase) % 2 < 1:
            raise Refused("it is down")
        arrived(link, stream, data)

    logging.getLogger("consensus").setLevel(logging.CRITICAL)
    Link.arrived = arrives
    result = together(lambda peers: costs.solve(peers.network, solver, rounds=wakes, record_every=wakes, engine=peers))
    left = np.abs(result.w - costs.optimum).max() / np.abs(costs.optimum).max()
    seconds, lost, all_wakes = (result.history[column][-1] for column in ("seconds", "lost", "wakes"))
    print(
        f"\nEach link down for {OUT} s and up for {OUT} s: {wakes} rounds of each owner in {seconds:.0f} s; {left:.1e} of the"
    )
    print(f"distance to the optimum is left; {lost / all_wakes:.2f} messages a wake were overtaken before they left")


def rounds(repeats):
    print(f"\n{'ms of a round':<32}{'Peers':>10}{'Torch':>10}{'ratio':>8}")
    for count in (2, 3, 4):
        with tempfile.TemporaryDirectory() as folder:
            path, port = written(folder, NAMES[:count])
            variables = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1"}
            command = [sys.executable, "-m", "experiments.benchmarks.owners", "--repeats", str(repeats), "--owner", str(path)]
            processes = [
                subprocess.Popen([*command, name], env=os.environ | variables | {"RANK": str(rank)}, stdout=subprocess.PIPE)
                for rank, name in enumerate(NAMES[:count])
            ]
            said = [process.communicate()[0] for process in processes]
        if any(process.returncode for process in processes):
            sys.exit("error: one of the owners failed, and said why above")
        for size, (ours, theirs) in json.loads(said[0]).items():
            shown = f"{count} owners, {int(size):,} numbers"
            print(f"{shown:<32}{ours * 1e3:>10.2f}{theirs * 1e3:>10.2f}{ours / theirs:>8.2f}", flush=True)


def owner(path, me, repeats):
    """Take part in rounds by both engines, by turns; the first owner prints medians."""

    def seconds(size, count, engine):
        problem = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, engine.size, size)
        options = {"rounds": count, "record_every": count, "start": np.ones(size), "engine": engine}
        history = consensus.solve(problem, peers.network, DGD(0.1), **options).history
        return (history["seconds"][-1] - history["seconds"][0]) / count

    with Peers(path, me=me) as peers:
        engines = peers, Torch()
        found = {
            size: np.median([[seconds(size, count, one) for one in engines] for _ in range(repeats + 1)][1:], axis=0).tolist()
            for size, count in SIZES.items()
        }
        if peers.root:
            print(json.dumps(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="what", help="rounds, slow, links; by default all")
    parser.add_argument("--repeats", type=int, default=5, help="of which medians are printed")
    parser.add_argument("--wakes", type=int, default=600, help="of each owner, for links")
    parser.add_argument("--owner", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.owner:
        return owner(*given.owner, given.repeats)
    what = given.what or ["rounds", "slow", "links"]
    print(environment.shown())
    if "slow" in what:
        slow(given.repeats)
    if "links" in what:
        links(given.wakes)
    if "rounds" in what:
        rounds(given.repeats)
    return None


if __name__ == "__main__":
    main()
