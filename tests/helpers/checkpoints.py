"""A small run to save and resume, and what its checkpoint holds."""

import json

import numpy as np

import consensus
import topologies
from consensus.checkpoints.checkpoint import load
from consensus.engines import Processes, Stacked
from consensus.solvers import GradientTracking
from tests.helpers.problems import data

ENGINES = {"stacked": Stacked(), "processes": Processes(3)}
GRAPH = topologies.ring(6)


def arguments():
    return {
        "model": consensus.Linear(4),
        "loss": consensus.SquaredLoss(),
        "shards": consensus.partition(*data(), 6),
        "regularizer": consensus.L2(0.1),
        "reduction": "mean",
        "network": topologies.RandomEdges(GRAPH, 0.5, seed=0),
        "solver": GradientTracking(0.05),
        "start": np.zeros(5),
    }


def run(rounds=6, **changed):
    given = arguments() | changed
    problem = consensus.Problem(*(given.pop(name) for name in ("model", "loss", "shards", "regularizer", "reduction")))
    return consensus.solve(problem, given.pop("network"), given.pop("solver"), rounds=rounds, **given)


def rewrite(path, change):
    """Replace the arrays of a checkpoint by what ``change(arrays, about)`` returns; None keeps them."""
    with np.load(path) as file:
        arrays = dict(file)
    about = json.loads(arrays["about"].tobytes())
    changed = change(arrays, about)
    arrays = arrays if changed is None else changed
    if "about" in arrays:
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with open(path, "wb") as file:
        np.savez(file, **arrays)


def contents(path):
    """All that a checkpoint holds, to compare."""
    found = load(path)
    arrays = {**found.fields, **{f"history {name}": found.history[name] for name in found.history}}
    exact = {
        name: (np.asarray(array).dtype.str, np.shape(array), np.asarray(array).tobytes()) for name, array in arrays.items()
    }
    return exact, found.counts, found.seconds, found.fingerprint


def without_times(path):
    """What a checkpoint holds, but for the seconds."""
    exact, counts, _, fingerprint = contents(path)
    return {name: value for name, value in exact.items() if name != "history seconds"}, counts, fingerprint
