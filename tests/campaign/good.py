"""Good objects to build calls of, each new and small, so that no call can spoil the next."""

from functools import partial

import networkx as nx
import numpy as np
import pandas as pd

import consensus
import topologies
from consensus.estimators import NetworkClassifier, NetworkPoissonRegressor, NetworkRegressor
from consensus.solvers import DGD, EXTRA, AdaptiveNEXT, GradientTracking
from consensus.studies import Study

AGENTS = 4
_rng = np.random.default_rng(0)
_X, _Y = _rng.standard_normal((24, 3)), _rng.standard_normal(24)
X, y = _X.copy, _Y.copy
w, point = partial(np.full, (AGENTS, 4), 0.5), partial(np.full, 4, 0.5)  # of a linear model of the features
model = partial(consensus.Linear, 3)
shards = partial(consensus.partition, _X, _Y, agents=AGENTS)
graph = partial(topologies.ring, AGENTS)
directed = partial(nx.DiGraph, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
solver = partial(GradientTracking, 0.05)
_ESTIMATOR = {"hidden_layer_sizes": (), "agents": AGENTS, "network": "ring", "random_state": 0, "max_iter": 10, "tol": 1.0}


def outputs(columns=1):
    return np.linspace(-1.0, 1.0, 6 * columns).reshape(6, columns)


def problem():
    return consensus.Problem(model(), consensus.SquaredLoss(), shards(), consensus.L2(0.1))


def schedule():
    return topologies.Static(graph())


def history():
    return consensus.solve(problem(), schedule(), AdaptiveNEXT(), rounds=3).history


def row():
    return history().last()


def result():
    return consensus.Result(w(), history(), 3, "all 3 rounds done")


def regressor():
    return NetworkRegressor(**_ESTIMATOR).fit(_X, _Y)


def classifier():
    return NetworkClassifier(**_ESTIMATOR).fit(_X, _Y > 0)


def of_counts():
    return NetworkPoissonRegressor(agents=AGENTS, network="ring", random_state=0, max_iter=10, tol=1.0).fit(_X, np.exp(_Y))


def study():
    case, solvers = (lambda seed: (problem(), graph())), {"DGD": DGD(0.1), "EXTRA": EXTRA()}
    made = Study(case, seeds=2, solvers=solvers, measure="objective after 2 round", rounds=3, folder="study")
    return made.run(progress=False)


def followed():
    table = pd.DataFrame({"age": _X[:, 0], "time": np.exp(_Y), "event": np.arange(24) % 2})
    return consensus.data.own([table, table], ["time", "event"])


def frame():
    return pd.DataFrame({"a": _X[:, 0], "b": pd.Categorical(["u", "v"] * 12), "c": _X[:, 2]})


def table():
    return pd.DataFrame(_X, columns=["a", "b", "c"]).assign(target=np.where(_Y > 0, "u", "v"))


def pipeline():
    columns = consensus.data.Columns(("a", "b", "c"), {})
    return consensus.data.Pipeline(columns, np.zeros(3), np.ones(3), "target", classes=("u", "v"))


def predictor():
    return consensus.Predictor(model(), point(), pipeline())
