"""The problem, the test set and the network of a file of settings."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, NamedTuple

import consensus
import topologies
from consensus import datasets
from consensus.cli.build import GRAPHS, LOSSES, REGULARIZERS, SCHEDULES, WEIGHTS, attempt, make
from consensus.cli.config import Config
from consensus.data.tables import Classes
from consensus.losses import Loss
from topologies.schedules import ScheduleLike

LOAD = tuple(inspect.signature(datasets.load).parameters)[1:]  # all but the name
SPLIT, SHARE = ("test_size", "by"), ("scheme", "sizes", "concentration")
OF_CLASSES = (consensus.CrossEntropy, consensus.LogisticLoss)


class Setting(NamedTuple):
    """The problem, the test set (X, y), and the network."""

    problem: consensus.Problem
    test: tuple[Any, Any]
    network: ScheduleLike


def setting(config: Config, seed: int) -> Setting:
    """Make the problem from data and model, the test set, and the network."""
    chosen = config.table(("data",), ("name", "agents", *LOAD, *SPLIT, *SHARE))
    if "name" not in chosen:
        raise config.error(("data",), "[data] needs name")
    if "agents" not in chosen and "groups" not in chosen:
        raise config.error(("data",), "[data] needs agents, their number, or groups, a column that says whose each row is")

    def some(names: Iterable[str]) -> dict[str, Any]:
        return {name: chosen[name] for name in names if name in chosen}

    data = attempt(config, ("data",), datasets.load, chosen["name"], **some(LOAD))
    parts = attempt(config, ("data",), datasets.split, data, seed=seed, **some(SPLIT))
    share = {"seed": seed, "groups": parts.groups, "sample_weight": parts.weights, **some(("agents", *SHARE))}
    shards = attempt(config, ("data",), consensus.partition, parts.X, parts.y, **share)

    problem = trained(config, shards, parts.X.shape[1], data.classes, 1 if data.y.ndim == 1 else data.y.shape[1])
    return Setting(problem, (parts.X_test, parts.y_test), _network(config, shards.agents, seed))


def trained(config: Config, shards: consensus.Shards, width: int, classes: Classes | None, targets: int) -> consensus.Problem:
    """Make the problem of shards with so many features and targets, which are numbers or codes of ``classes``."""
    trained = config.table(("model",), ("hidden", "activation", "loss", "outputs", "regularizer"))
    loss = make(config, ("model", "loss"), LOSSES) if "loss" in trained else _loss_of(classes)[0]
    outputs = trained.get("outputs", _outputs(config, loss, classes, targets))
    regularizer = make(config, ("model", "regularizer"), REGULARIZERS) if "regularizer" in trained else None
    hidden = trained.get("hidden", [20])
    if not isinstance(hidden, list):
        raise config.error(("model", "hidden"), f"hidden must be a list of widths, such as [20] or []; got {hidden!r}")
    widths, activation = [width, *hidden, outputs], trained.get("activation", "tanh")
    model = attempt(config, ("model",), consensus.MLP, widths, activation) if hidden else consensus.Linear(widths[0], outputs)
    return attempt(config, ("model",), consensus.Problem, model, loss, shards, regularizer)


def loss_for(data: datasets.Dataset) -> tuple[Loss, int]:
    """Return the loss for a data set, squared, logistic or cross-entropy, and the number of outputs it needs."""
    return _loss_of(data.classes)


def _loss_of(classes: Classes | None) -> tuple[Loss, int]:
    if classes is None:
        return consensus.SquaredLoss(), 1
    return (consensus.LogisticLoss(), 1) if len(classes) == 2 else (consensus.CrossEntropy(), len(classes))


def _outputs(config: Config, loss: Loss, classes: Classes | None, targets: int) -> int:
    """Return the number of outputs of a model: one for each class with cross-entropy, else one for each column of targets."""
    if isinstance(loss, OF_CLASSES) and classes is None:
        name, kind = config.at(("data", "name")), type(loss).__name__
        remedy = "take a loss of numbers, such as SquaredLoss"
        if name not in datasets.NAMES and targets == 1:
            remedy = f"classification = true in [data] takes its values for classes, or {remedy}"
        raise config.error(("model", "loss"), f"{kind} is a loss of classes, and the target of {name} is numbers: {remedy}")
    return len(classes) if classes is not None and isinstance(loss, consensus.CrossEntropy) else targets


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
