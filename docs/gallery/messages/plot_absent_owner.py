"""
An owner who is away for a while
================================

Four owners, each with a process, a key and a table of its own, and nobody in the middle. One process is killed in
mid-run. The three others, more than half of all, go on without its data; it is started again, and the run goes on with all.
"""

# %%
# Every owner runs this script. Here all four run on one machine; in earnest each has its machine and folder, and starts
# ``consensus-opt peer run.toml --me oslo``: see :doc:`/peers`.

import contextlib
import os
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
# Where Linux allows it, which asks for root, each owner has a network of its own, a namespace with a cable to one switch, as
# four machines have. Elsewhere they all are at ports of the loopback address.


def cables(names, stack):
    """Lay them; return the owners' addresses, and how a command begins that runs at each."""

    def ip(line):
        subprocess.run(["ip", *line.split()], check=True, capture_output=True)

    def space(name):
        ip(f"netns add {name}")
        stack.callback(ip, f"netns delete {name}")
        return name

    hub = space(f"switch-{os.getpid()}")
    ip(f"-n {hub} link add switch up type bridge")
    at, found = "10.0.0.{}", {}
    for number, name in enumerate(names, start=1):
        own = space(f"{name}-{os.getpid()}")
        ip(f"-n {hub} link add {name} up master switch type veth peer name cable netns {own}")
        ip(f"-n {own} address add {at.format(number)}/24 dev cable")
        ip(f"-n {own} link set cable up")
        found[name] = at.format(number) + ":7443", ["ip", "netns", "exec", own]
    return found


def ports(names):
    """Return addresses of this machine alone, as :func:`cables` does."""
    with contextlib.ExitStack() as stack:
        free = [stack.enter_context(socket.create_server(("localhost", 0))) for _ in names]
        return {
            name: (f"localhost:{one.getsockname()[1]}", []) for name, one in zip(names, free, strict=True)
        }


def places(names, stack):
    try:
        found = cables(names, stack)
    except (OSError, subprocess.CalledProcessError) as error:
        print("on the loopback address of one machine, without networks of their own:", error)
        return ports(names)
    print("each in a network of its own:", *(address for address, _ in found.values()))
    return found


# %%
# The file of the run says with ``lost = "leave"`` that the others go on, after ten seconds in which they waited in vain.
# Vienna's process is killed (``kill -9``) when the run is under way, and started again when the others have gone on.


def write(folder, found):
    lines = ["[peers]", 'lost = "leave"', "grace = 10"]
    for name, (address, _) in found.items():
        keys(name, folder)
        lines.append(f'{name} = {{address = "{address}", certificate = "{name}.pem"}}')
    edges = '[["oslo", "rome"], ["rome", "vienna"], ["vienna", "bergen"], ["bergen", "oslo"]]'
    (folder / "run.toml").write_text("\n".join([*lines, "[network]", f"edges = {edges}"]))
    (folder / "owner.py").write_text(OWNER)


def epochs():
    return [line for line in (folder / "rome.log").read_text().splitlines() if "begins" in line]


def until_away(name):
    while not (epochs() and epochs()[-1].endswith(f"away: {name}")):
        assert owners["rome"].poll() is None, (folder / "rome.log").read_text()
        time.sleep(0.1)


folder, owners = pathlib.Path(tempfile.mkdtemp()), {}
with contextlib.ExitStack() as stack:
    found = places(["oslo", "rome", "vienna", "bergen"], stack)
    write(folder, found)

    def start(name):
        with open(folder / f"{name}.log", "a") as log:
            command = [*found[name][1], sys.executable, "owner.py", name]
            owners[name] = stack.enter_context(subprocess.Popen(command, cwd=folder, stderr=log))
            stack.callback(owners[name].kill)

    for name in found:
        start(name)
    while not (folder / "vienna.epochs").exists():  # its rounds begin
        time.sleep(0.1)
    time.sleep(2)
    owners["vienna"].send_signal(signal.SIGKILL)
    owners["vienna"].wait()
    until_away("vienna")
    start("vienna")
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
    label = f"epoch {epoch:.0f}, {history['present'][rows][0]:.0f} owners"
    above.plot(history["round"][rows], history["objective"][rows], label=label)
above.set_ylabel("objective of those present\n(target in standard deviations)")
above.legend()
below.step(history["round"], history["present"], where="post", color="black")
below.set_ylabel("owners present")
below.set_ylim(0, 4.5)
below.set_xlabel("round")
plt.show()
