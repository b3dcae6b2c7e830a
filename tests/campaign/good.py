"""Good objects to build calls of, each new and small, so that no call can spoil the next."""

import copy
import functools

import networkx as nx
import numpy as np

import consensus
import topologies
from consensus.solvers import AdaptiveNEXT, GradientTracking

AGENTS = 4
_rng = np.random.default_rng(0)
_X, _Y = _rng.standard_normal((24, 3)), _rng.standard_normal(24)


def X():
    return _X.copy()


def y():
    return _Y.copy()


def w():
    """A stack (agents, P) for a linear model of the features."""
    return np.full((AGENTS, 4), 0.5)


def point():
    return np.full(4, 0.5)


def outputs(columns=1):
    return np.linspace(-1.0, 1.0, 6 * columns).reshape(6, columns)


def model():
    return consensus.Linear(3)


def shards():
    return consensus.partition(_X, _Y, agents=AGENTS)


def problem():
    return consensus.Problem(model(), consensus.SquaredLoss(), shards(), consensus.L2(0.1))


def graph():
    return topologies.ring(AGENTS)


def directed():
    return nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])


def schedule():
    return topologies.Static(graph())


@functools.cache
def _history():
    return consensus.solve(problem(), schedule(), AdaptiveNEXT(), rounds=3).history


def history():
    """Of a run of three rounds."""
    return copy.deepcopy(_history())


def result():
    return consensus.Result(w(), history(), 3, "all 3 rounds done")


@functools.cache
def _fitted():
    from consensus.estimators import NetworkClassifier, NetworkRegressor

    settings = {"hidden_layer_sizes": (), "agents": AGENTS, "network": "ring", "random_state": 0}
    return NetworkRegressor(**settings).fit(_X, _Y), NetworkClassifier(**settings).fit(_X, _Y > 0)


def regressor():
    """Fitted, as is :func:`classifier`."""
    return copy.deepcopy(_fitted()[0])


def classifier():
    return copy.deepcopy(_fitted()[1])


def row():
    return history().last()


def solver():
    return GradientTracking(0.05)


def state():
    return solver().init(problem(), w())


def network():
    from consensus.engines.stacked import StackedNetwork

    return StackedNetwork(schedule(), np.float64)


def dataset_file(path="table.csv"):
    """The name of a small table, written where the call runs."""
    np.savetxt(path, np.column_stack([_X, _Y]), delimiter=",", header="a,b,c,target", comments="")
    return path


def contacts_file(path="contacts.csv"):
    with open(path, "w") as file:
        file.write("time,first,second\n0,a,b\n5,b,c\n20,c,d\n21,d,a\n")
    return path


def history_file(path="history.csv"):
    history().to_csv(path)
    return path


def result_file(path="run.npz"):
    result().save(path)
    return path


def frame():
    import pandas as pd

    return pd.DataFrame({"a": _X[:, 0], "b": pd.Categorical(["u", "v"] * 12), "c": _X[:, 2]})


def shard_folder(path="shards"):
    consensus.data.save_shards(shards(), path)
    return path


def checkpoint_file(path="run.ckpt"):
    consensus.solve(problem(), schedule(), solver(), rounds=2, checkpoint=path)
    return path
