"""
An owner who is away for a while
================================

Four owners, each with a process, a key and a table of its own, and nobody in the middle. One process is killed in
mid-run. The three others, more than half of all, go on without its data; it is started again, and the run goes on with all.
"""

# %%
# Every owner runs this script. Here all four run on one machine, at ports of its loopback address; in earnest each has
# its machine and folder, and starts ``consensus-opt peer run.toml --me oslo``: see :doc:`/peers`.

import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

import matplotlib.pyplot as plt
import numpy as np

import consensus
from consensus.peers import keys

OWNER = """
import os, sys, time
import consensus
from consensus.peers import Peers

names = ["oslo", "rome", "vienna", "bergen"]
X, y = consensus.datasets.load("diabetes")
X, y = X / X.std(axis=0), (y - y.mean()) / y.std()
shards = consensus.partition(X, y, agents=4, scheme="sorted", seed=0)
problem = consensus.Problem(
    consensus.Linear(10), consensus.SquaredLoss(), shards.restrict([names.index(sys.argv[1])]), consensus.L2(0.01)
)

def pace(info):  # slow enough to be seen
    time.sleep(0.05)
    return "seen enough" if os.path.exists("enough") else None

with Peers("run.toml", me=sys.argv[1]) as peers:
    solver = consensus.solvers.GradientTracking(0.02)
    result = consensus.solve(
        problem, peers.network, solver, rounds=10_000, record_every=1, callbacks=[pace], engine=peers
    )
result.save(f"{sys.argv[1]}.npz")
"""

# %%
# The file of the run says with ``lost = "leave"`` that the others go on, after ten seconds in which they waited in vain.

folder, names = pathlib.Path(tempfile.mkdtemp()), ["oslo", "rome", "vienna", "bergen"]
sockets = [socket.create_server(("localhost", 0)) for _ in names]
lines = ["[peers]", 'lost = "leave"', "grace = 10"]
for name, free in zip(names, sockets, strict=True):
    keys(name, folder)
    lines.append(f'{name} = {{address = "localhost:{free.getsockname()[1]}", certificate = "{name}.pem"}}')
    free.close()
lines += [
    "[network]",
    'edges = [["oslo", "rome"], ["rome", "vienna"], ["vienna", "bergen"], ["bergen", "oslo"]]',
]
(folder / "run.toml").write_text("\n".join(lines))
(folder / "owner.py").write_text(OWNER)


def start(name):
    with open(folder / f"{name}.log", "a") as log:
        return subprocess.Popen([sys.executable, "owner.py", name], cwd=folder, stderr=log)


def epochs():
    return [line for line in (folder / "rome.log").read_text().splitlines() if "begins" in line]


def until_away(name):
    while not (epochs() and epochs()[-1].endswith(f"away: {name}")):
        assert owners["rome"].poll() is None, (folder / "rome.log").read_text()
        time.sleep(0.1)


owners = {name: start(name) for name in names}
while not (folder / "vienna.epochs").exists():  # its rounds begin
    time.sleep(0.1)
time.sleep(2)
owners["vienna"].send_signal(signal.SIGKILL)
owners["vienna"].wait()
until_away("vienna")
owners["vienna"] = start("vienna")
until_away("nobody")
time.sleep(2)
(folder / "enough").touch()
for owner in owners.values():
    assert owner.wait() == 0
print("\n".join(epochs()))

# %%
# The objective is the sum over those who are present. It falls when Vienna's term is gone, rises when Vienna is back,
# and the run goes on from there: each epoch has the bits of a run of its own.

history = consensus.load(folder / "oslo.npz").history
figure, (above, below) = plt.subplots(2, sharex=True, height_ratios=(3, 1), layout="constrained")
for epoch in np.unique(history["epoch"]):
    rows = history["epoch"] == epoch
    above.plot(history["round"][rows], history["objective"][rows], label=f"epoch {epoch:.0f}")
above.set_ylabel("objective of those present")
above.legend()
below.step(history["round"], history["present"], where="post", color="black")
below.set_ylabel("present")
below.set_ylim(0, 4.5)
below.set_xlabel("round")
plt.show()
