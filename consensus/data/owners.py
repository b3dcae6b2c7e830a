"""Whose each sample is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks


def owned(groups: ArrayLike, agents: int | None, samples: int) -> list[np.ndarray]:
    """The samples of every agent, by ``groups`` (samples,), of which none is split; an agent a group if ``agents`` is None.

    Groups are in sorted order where each has an agent. Otherwise the largest first, each goes to the agent that has the fewest
    samples so far; of equal ones the first goes first, and to the first.
    """
    count, group = numbered(groups, samples)
    agents = count if agents is None else _checks.count("agents", agents)
    if agents > count:
        raise ValueError(f"agents must be at most the number of groups, {count}, so that none is empty; got {agents}")
    owner = np.arange(count)
    if agents < count:
        sizes, load = np.bincount(group), np.zeros(agents, int)
        for number in np.argsort(-sizes, kind="stable"):
            owner[number] = load.argmin()
            load[owner[number]] += sizes[number]
    of = owner[group]
    return np.split(np.argsort(of, kind="stable"), np.cumsum(np.bincount(of))[:-1])


def numbered(groups: Any, samples: int) -> tuple[int, np.ndarray]:
    """How many groups there are, and the number of each sample's, by their sorted order."""
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
    return len(names), group
