"""Groups of samples, such as owners, that are not split over agents."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from topologies import _names


def owned(group: np.ndarray, agents: int | None) -> list[np.ndarray]:
    """Return the samples of each agent, by numbers of groups (samples,) that are never split; by default one agent per group.

    If each group has an agent of its own, agents are in the groups' sorted order. Otherwise they are dealt by decreasing size,
    each to the agent with the fewest samples so far; among equals the first group goes first, and to the first agent.
    """
    count = int(group.max()) + 1
    agents = count if agents is None else _checks.count("agents", agents)
    if agents > count:
        raise ValueError(f"agents must be at most the number of groups, {count}, so that none is empty; got {agents}")
    owner = np.arange(count)
    if agents < count:
        sizes, load = np.bincount(group), np.zeros(agents, int)
        for number in np.argsort(-sizes, kind="stable"):
            owner[number] = load.argmin()
            load[owner[number]] += sizes[number]
    agent = owner[group]
    return np.split(np.argsort(agent, kind="stable"), np.cumsum(np.bincount(agent))[:-1])


def numbered(groups: ArrayLike, samples: int) -> tuple[list[Hashable], np.ndarray]:
    """Return the names of the groups, sorted, digits as numbers, and each sample's group, as a number in this order."""
    labels = _checks.dense("groups", groups)
    if labels.shape != (samples,):
        raise ValueError(f"groups must have shape ({samples},), a group for each row of X; got {labels.shape}")
    missing = groups.isna() if hasattr(groups, "isna") else [label is None or label != label for label in labels.tolist()]
    if np.any(missing):
        raise ValueError(f"groups must say whose each sample is; in row {int(np.argmax(missing))} it is missing")
    try:
        names, group = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise TypeError(f"groups must be all numbers or all text, so that they can be sorted: {error}") from error
    found = names.tolist()
    order = _names.as_numbers(found)
    ordered = [found[place] for place in order]
    _names.say_order("groups", ordered, found)
    return ordered, np.argsort(order)[group]
