"""Partitions of samples over agents."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.data.owners import numbered, owned
from consensus.data.samples import arrays, weights_of
from consensus.data.shards import Shards, padded
from consensus.data.tables import Dataset, coded, complete, unpacked

SCHEMES = ("iid", "sorted", "dirichlet", "sizes")
_CLASSES = 50  # at most, of targets of which nothing is said
_DECILES = np.arange(0.1, 1.0, 0.1)
_DRAWS = 1000  # of a Dirichlet split, until no agent is empty


def partition(
    X: ArrayLike | Dataset,
    y: ArrayLike | None = None,
    agents: int | None = None,
    scheme: Literal["iid", "sorted", "dirichlet", "sizes"] = "iid",
    seed: int | np.random.Generator = 0,
    *,
    sizes: ArrayLike | None = None,
    concentration: float = 0.5,
    classes: bool | None = None,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Shards:
    """Give every sample to exactly one agent.

    With ``groups`` samples stay with their owners. :meth:`Shards.from_list` takes data that are not in one array.

    Parameters
    ----------
    X : Dataset, or array_like (samples, features), or (samples, ...)
        A whole data set, with its columns, classes, weights and groups, and no ``y``; or samples of any
        shape, such as images (samples, channels, height, width). dtypes float32, int32 and int64 are kept. Models that
        take no integers receive float64. uint8, int8, uint16, int16 and float16 become float32, and everything else
        float64. In a data frame booleans become zero and one, and each column of pandas' ``category``
        dtype a feature for each category; ``shards.columns`` has the names and converts other frames.
    y : array_like (samples,) or (samples, outputs)
        Targets, or integer classes. Text and Series of ``category`` dtype become codes, and ``shards.classes`` has the classes.
    agents : int
        Number of agents, at most that of samples, or of groups. With ``groups`` the default is one agent per group.
    scheme : {"iid", "sorted", "dirichlet", "sizes"}
        With ``iid`` samples are shuffled, and shards have equal sizes up to one sample. With ``sorted`` they are ordered by
        target (its first column), so that agents see different targets. With ``dirichlet`` each class is spread over the
        agents by proportions drawn from a Dirichlet distribution [1]_; of targets that are no ``classes`` deciles act as
        some. With ``sizes`` samples are shuffled, and agent i takes ``sizes[i]``.
    seed : int
        Seed of the shuffle and the Dirichlet draws.
    sizes : sequence of int, optional
        For ``scheme="sizes"``: the number of samples of each agent; they sum to that of all samples.
    concentration : float
        For ``scheme="dirichlet"``: if it is small, agents see few classes; if it is large, shards are nearly ``iid``.
    classes : bool, optional
        For ``scheme="dirichlet"``: whether targets are classes. By default they are if they come as such (text, categories, a
        data set of classes) or have at most 50 distinct values; more whole numbers are warned of.
    groups : array_like (samples,), optional
        The group of each sample, as numbers or text, instead of a scheme. Agent i has the i-th group in sorted order, which is
        ``shards.labels[i]``, with its samples in the order given; digits as text are sorted as numbers. Fewer agents get
        several whole groups, and ``shards.labels`` is None: groups are dealt by decreasing size, each to the agent with the
        fewest samples so far (the first of these).
    sample_weight : array_like (samples,), optional
        Weight of each sample's loss, at least 0, as in scikit-learn: a whole number k counts as the sample repeated k times. A
        sample of weight 0 is left out, as if it were not there. Schemes count samples, not weights.

    Returns
    -------
    Shards
        The samples of each agent.

    Raises
    ------
    ValueError
        If shapes disagree, data are not finite, a column is neither numbers nor categories, there are more agents than samples
        or groups, an agent would get no sample, a sample has no group, or a weight is below 0.

    References
    ----------
    .. [1] Hsu, Qi, Brown, "Measuring the effects of non-identical data distribution for federated visual
       classification", arXiv 1909.06335, 2019, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import partition
    >>> shards = partition(np.arange(14.0).reshape(7, 2), np.arange(7.0), agents=3)
    >>> shards.sizes
    array([3, 2, 2])
    >>> sorted(shards.indices[shards.indices >= 0].tolist())
    [0, 1, 2, 3, 4, 5, 6]

    >>> shards = partition(np.eye(5), np.arange(5.0), groups=["Rome", "Oslo", "Rome", "Bonn", "Rome"])
    >>> shards.sizes, shards.indices[2], shards.labels
    (array([1, 1, 3]), array([0, 2, 4]), ('Bonn', 'Oslo', 'Rome'))

    >>> shards = partition(np.eye(4), np.arange(4.0), agents=1, sample_weight=[1.0, 0.0, 2.5, 1.0])
    >>> shards.samples, shards.total_weight
    (3, 4.5)
    """
    samples, targets, groups, sample_weight = unpacked(X, y, groups=groups, sample_weight=sample_weight)
    samples, columns = complete("X", samples)
    targets, known = coded("y", targets)
    _checks.choice("scheme", scheme, SCHEMES)
    if classes is not None and scheme != "dirichlet":
        raise ValueError(f"classes goes with scheme='dirichlet' and with no other; got scheme={scheme!r}, classes={classes!r}")
    by_class = _checks.flag("classes", classes) if classes is not None else True if known is not None else None
    X, y = arrays(samples, targets)
    names, group = ([], None) if groups is None else numbered(groups, len(y))
    if sample_weight is None:
        members = _members(y, agents, scheme, seed, sizes, concentration, group, by_class)
        parts = ((X[own], y[own], own) for own in members)
        return Shards(
            **padded(parts, [*map(len, members)], X, y), columns=columns, classes=known, labels=_labels(names, members)
        )
    weights = weights_of(sample_weight, len(y), y.dtype)
    there = np.flatnonzero(weights)
    if group is not None:  # groups without weight are gone
        left, group = np.unique(group[there], return_inverse=True)
        names = [names[number] for number in left.tolist()]
    members = [there[own] for own in _members(y[there], agents, scheme, seed, sizes, concentration, group, by_class)]
    weighted = ((X[own], y[own], own, weights[own]) for own in members)
    filled = padded(weighted, [*map(len, members)], X, y)
    total = float(weights.sum(dtype=np.float64))
    return Shards(**filled, columns=columns, classes=known, total_weight=total, labels=_labels(names, members))


def _labels(names: list[Hashable], members: list[np.ndarray]) -> tuple[Hashable, ...] | None:
    """Return the names of the groups if each has an agent of its own."""
    return tuple(names) if len(names) == len(members) else None


def _members(
    y: np.ndarray,
    agents: int | None,
    scheme: str,
    seed: int | np.random.Generator,
    sizes: ArrayLike | None,
    concentration: float,
    group: np.ndarray | None,
    by_class: bool | None,
) -> list[np.ndarray]:
    """Return the samples of each agent, as places in ``y``."""
    samples = len(y)
    if group is not None:
        if scheme != "iid" or sizes is not None:
            raise ValueError(f"groups replace a scheme, and go with no scheme or sizes; got scheme={scheme!r}, sizes={sizes!r}")
        return owned(group, agents)
    if agents is None:
        raise ValueError("agents must be given, or groups, which assign each sample; got neither")
    agents = _checks.count("agents", agents)
    if agents > samples:
        raise ValueError(f"agents must be at most the number of samples, {samples}, so that none is empty; got {agents}")
    if (sizes is not None) != (scheme == "sizes"):
        raise ValueError(f"sizes goes with scheme='sizes' and with no other; got scheme={scheme!r}, sizes={sizes!r}")
    rng = _checks.seed(seed)
    if scheme == "dirichlet":
        labels = y[:, 0] if _are_classes(y[:, 0], by_class) else np.searchsorted(np.quantile(y[:, 0], _DECILES), y[:, 0])
        return _dirichlet(labels, agents, _checks.number("concentration", concentration, above=0), rng)
    order = np.argsort(y[:, 0], kind="stable") if scheme == "sorted" else rng.permutation(samples)
    if scheme == "sizes":
        return np.split(order, np.cumsum(_sizes(sizes, agents, samples))[:-1])
    return np.array_split(order, agents)


def _sizes(sizes: ArrayLike | None, agents: int, samples: int) -> np.ndarray:
    sizes = _checks.dense("sizes", sizes)
    if sizes.shape != (agents,) or sizes.dtype.kind not in "iu" or sizes.sum() != samples:
        raise ValueError(
            f"sizes must be {agents} whole numbers that sum to the number of samples, {samples}; got {sizes.tolist()}"
        )
    if sizes.min() < 1:
        raise ValueError(f"sizes must give every agent a sample; agent {sizes.argmin()} would get {sizes.min()}")
    return sizes


def _are_classes(targets: np.ndarray, given: bool | None) -> bool:
    """Return whether targets are classes: as ``given``, or if there are at most 50; a warning says so of more whole numbers."""
    if given is not None:
        return given
    count = len(np.unique(targets))
    if count > _CLASSES and (targets == np.rint(targets)).all():
        _checks.warn(
            f"y has {count} different whole numbers, which are taken for numbers: scheme='dirichlet' spreads their deciles; "
            "classes=True spreads each of them as a class, classes=False says that they are numbers"
        )
    return count <= _CLASSES


def _dirichlet(labels: np.ndarray, agents: int, concentration: float, rng: np.random.Generator) -> list[np.ndarray]:
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for _ in range(_DRAWS):
        dealt: list[list[np.ndarray]] = [[] for _ in range(agents)]
        for members in classes:
            proportions = rng.dirichlet(np.full(agents, concentration))
            cuts = np.rint(np.cumsum(proportions)[:-1] * len(members)).astype(int)
            for own, some in zip(dealt, np.split(rng.permutation(members), cuts), strict=True):
                own.append(some)
        groups = [np.concatenate(own) for own in dealt]
        if min(map(len, groups)) > 0:
            return groups
    raise ValueError(
        f"{_DRAWS} Dirichlet splits over {agents} agents all left one without samples: raise concentration "
        f"(got {concentration}) or use fewer agents"
    )
