"""Peers in processes of their own, which tests kill, suspend and start again."""

import os
import re
import subprocess
import sys
import textwrap
import time

import consensus
from consensus import solvers
from tests.helpers.loopback import NAMES, RING, check_same, network_of, problem_of, written

SOLVER = solvers.GradientTracking(0.05)

OWNER = textwrap.dedent("""
    import logging, os, sys, time
    import numpy as np, consensus
    from consensus.peers import Peers
    from tests.helpers.loopback import problem_of

    logging.basicConfig(level=logging.INFO)
    path, me, rounds, pause, lost = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]

    def slowly(info):
        print("round", info.round, flush=True)
        time.sleep(pause)
        return "enough" if os.path.exists("enough") else None

    if lost == "wait":
        options = {"checkpoint": f"{me}.ckpt", "every": 7, "record_every": 2}
    else:
        options = {"record_every": 1}
    with Peers(path, me=me, patience=45.0) as peers:
        result = consensus.solve(
            problem_of(4), peers.network, consensus.solvers.GradientTracking(0.05), rounds=rounds, engine=peers,
            callbacks=[slowly], **options,
        )
    result.save(f"{me}.npz")
""")


class Owners:
    """Processes of four peers in one folder."""

    def __init__(self, folder, rounds, pause, lost="wait", script=OWNER, grace=5.0):
        self.folder, self.path = folder, written(folder, lost=lost, grace=grace)
        (folder / "owner.py").write_text(script)
        self._settings = [str(rounds), str(pause), lost]
        self.processes = {name: self.start(name) for name in NAMES}

    def start(self, name):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        with open(self.folder / f"{name}.log", "a") as log:
            return subprocess.Popen(
                [sys.executable, "owner.py", str(self.path), name, *self._settings],
                cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, env=environment,
            )  # fmt: skip

    def kill(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def said(self, name):
        return (self.folder / f"{name}.log").read_text()

    def until(self, happened):
        end = time.monotonic() + 60
        while not happened():
            assert time.monotonic() < end, "\n".join(map(self.said, NAMES))
            time.sleep(0.02)

    def epochs(self):
        """The members of each epoch, by number, as the logs say."""
        lines = "".join(map(self.said, NAMES)).splitlines()
        found = re.findall(r"epoch (\d+) begins after round \d+ with (.*); away: ", "\n".join(lines))
        return {1: NAMES} | {int(number): tuple(names.split(", ")) for number, names in found}

    def last(self):
        """The members of the latest epoch."""
        return max(self.epochs().items())[1]

    def enough(self):
        (self.folder / "enough").touch()

    def end(self, name, number):
        self.processes[name].send_signal(number)
        self.processes[name].wait(60)

    def finish(self):
        for name, process in self.processes.items():
            assert process.wait(100) == 0, self.said(name)

    def check(self, rounds):
        self.finish()
        network = network_of(NAMES, RING)
        alone = consensus.solve(problem_of(4), network, SOLVER, rounds=rounds, record_every=2, callbacks=[lambda info: None])
        for name in NAMES:
            check_same(consensus.load(self.folder / f"{name}.npz"), alone)
