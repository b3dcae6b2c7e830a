"""Peers on this machine: a folder with their keys and the file of a run, at ports that nobody has, and runs on threads."""

import json
import socket
import threading

import networkx as nx
import numpy as np

import consensus
import topologies
from consensus.peers import Peers, keys

NAMES = ("oslo", "rome", "vienna", "bergen")
RING = (("oslo", "rome"), ("rome", "vienna"), ("vienna", "bergen"), ("bergen", "oslo"))


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def written(folder, names=NAMES, edges=RING, more="", lost="wait", grace=30.0):
    """Write keys, where there are none, and the file of a run; return the file's path."""
    lines = ["[peers]", f'lost = "{lost}"', *([f"grace = {grace}"] if lost == "leave" else [])]
    for name, port in zip(names, free_ports(len(names)), strict=True):
        if not (folder / f"{name}.pem").exists():
            keys(name, folder)
        lines.append(f'{name} = {{address = "127.0.0.1:{port}", certificate = "{name}.pem"}}')
    lines += ["[network]", f"edges = {json.dumps([list(edge) for edge in edges])}", more]
    path = folder / "run.toml"
    path.write_text("\n".join(lines))
    return path


def together(path, run, names=NAMES, patience=60.0, most=120):
    """Call ``run(peers)`` for each of the peers, on threads, for ``most`` seconds; what each returned or raised, by name."""
    found = {}

    def one(name):
        try:
            with Peers(path, me=name, patience=patience) as peers:
                found[name] = run(peers)
        except BaseException as error:
            found[name] = error

    threads = [threading.Thread(target=one, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(most)
    assert set(found) == set(names), "some peers hang"
    return found


def problem_of(agents, samples=60):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((samples, 4))
    y = X @ [1.0, -2.0, 0.5, 3.0] + 0.1 * rng.standard_normal(samples)
    shards = consensus.partition(X, y, agents=agents, seed=0)
    return consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards, consensus.L2(0.01))


def network_of(names, edges):
    graph = nx.empty_graph(len(names))
    graph.add_edges_from((names.index(a), names.index(b)) for a, b in edges)
    return topologies.Static(graph)


def stacked(solver, members, start, rounds, edges=RING):
    """Return a run of one process with some members, whose costs are those that they have among all."""
    whole = problem_of(4)
    shards = whole.shards.restrict(members)
    shards = consensus.data.Shards(shards.features, shards.targets, shards.weights, shards.indices, whole.shards.samples)
    problem = consensus.Problem(whole.model, whole.loss, shards, whole.regularizer)
    names = [NAMES[member] for member in members]
    network = network_of(names, [edge for edge in edges if set(edge) <= set(names)])
    return consensus.solve(problem, network, solver, rounds=rounds, start=start, record_every=1)


def check_same(found, alone):
    assert not isinstance(found, BaseException), repr(found)
    assert np.array_equal(found.w, alone.w)
    assert found.reason == alone.reason
    for column in set(alone.history) - {"seconds"}:
        assert np.array_equal(found.history[column], alone.history[column]), column
