"""The problem, the test set and the network of a file of settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import consensus
import topologies
from consensus import datasets
from consensus.cli.build import GRAPHS, LOSSES, REGULARIZERS, SCHEDULES, WEIGHTS, attempt, make
from consensus.cli.config import Config
from consensus.losses import Loss
from topologies.schedules import ScheduleLike

LOAD, SPLIT, SHARE = ("target", "classification", "categories"), ("test_size",), ("scheme", "sizes", "concentration")


class Setting(NamedTuple):
    """The problem, the test set (X, y), and the network."""

    problem: consensus.Problem
    test: tuple[Any, Any]
    network: ScheduleLike


def setting(config: Config, seed: int) -> Setting:
    """Make the problem from data and model, the test set, and the network."""
    chosen = config.table(("data",), ("name", "agents", *LOAD, *SPLIT, *SHARE))
    for name in ("name", "agents"):
        if name not in chosen:
            raise config.error(("data",), f"[data] needs {name}")

    def some(names: Iterable[str]) -> dict[str, Any]:
        return {name: chosen[name] for name in names if name in chosen}

    data = attempt(config, ("data",), datasets.load, chosen["name"], **some(LOAD))
    split = {"seed": seed, "classification": data.classification, **some(SPLIT)}
    parts = attempt(config, ("data",), datasets.split, *data, **split)
    agents = chosen["agents"]
    shards = attempt(config, ("data",), consensus.partition, parts.X, parts.y, agents=agents, seed=seed, **some(SHARE))

    trained = config.table(("model",), ("hidden", "activation", "loss", "regularizer"))
    loss, outputs = loss_for(data)
    if "loss" in trained:
        loss = make(config, ("model", "loss"), LOSSES)
    regularizer = make(config, ("model", "regularizer"), REGULARIZERS) if "regularizer" in trained else None
    hidden = trained.get("hidden", [20])
    if not isinstance(hidden, list):
        raise config.error(("model", "hidden"), f"hidden must be a list of widths, such as [20] or []; got {hidden!r}")
    widths, activation = [parts.X.shape[1], *hidden, outputs], trained.get("activation", "tanh")
    model = attempt(config, ("model",), consensus.MLP, widths, activation) if hidden else consensus.Linear(widths[0], outputs)
    problem = attempt(config, ("model",), consensus.Problem, model, loss, shards, regularizer)
    return Setting(problem, (parts.X_test, parts.y_test), _network(config, agents, seed))


def loss_for(data: datasets.Dataset) -> tuple[Loss, int]:
    """Return the loss for a data set, squared, logistic or cross-entropy, and the number of outputs it needs."""
    if data.classes is None:
        return consensus.SquaredLoss(), 1
    return (consensus.LogisticLoss(), 1) if len(data.classes) == 2 else (consensus.CrossEntropy(), len(data.classes))


def _network(config: Config, agents: int, seed: int) -> ScheduleLike:
    """Make the schedule; a graph alone is a static one."""
    chosen = config.table(("network",), ("graph", "schedule", "weights"))
    known: dict[str, Any] = {"agents": agents, "seed": seed}
    if "graph" in chosen:
        known["graph"] = make(config, ("network", "graph"), GRAPHS, **known)
    elif "schedule" not in chosen:
        raise config.error(("network",), '[network] needs a graph, such as graph = "ring", or a schedule')
    if "weights" in chosen:
        config.one_of(("network", "weights"), chosen["weights"], WEIGHTS, "rule of weights")
        known["weights"] = WEIGHTS[chosen["weights"]]
    if "graph" in known:
        rule = {"weights": known["weights"]} if "weights" in known else {}
        known["schedule"] = attempt(config, ("network",), topologies.Static, known["graph"], **rule)
    schedule: ScheduleLike = (
        make(config, ("network", "schedule"), SCHEDULES, **known) if "schedule" in chosen else known["schedule"]
    )
    return schedule
