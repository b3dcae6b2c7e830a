"""Which agent gets which samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.data.frames import Columns, labels
from consensus.data.owners import owned
from consensus.data.samples import arrays
from consensus.data.shards import Shards
from consensus.workers import shared_memory

SCHEMES = ("iid", "sorted", "dirichlet", "sizes")
_DRAWS = 1000  # redraws of a Dirichlet split that leaves an agent empty


def partition(
    X: ArrayLike,
    y: ArrayLike,
    agents: int | None = None,
    scheme: Literal["iid", "sorted", "dirichlet", "sizes"] = "iid",
    seed: int | np.random.Generator = 0,
    *,
    sizes: ArrayLike | None = None,
    concentration: float = 0.5,
    groups: ArrayLike | None = None,
) -> Shards:
    """Give every sample to exactly one agent.

    Data that have owners stay with them: ``groups`` says whose each sample is. :meth:`Shards.from_list` takes data that are
    apart already.

    Parameters
    ----------
    X : array_like (samples, features), or (samples, ...)
        A sample may have any shape, as images (samples, channels, height, width) have. float32, int32 and int64 stay as they
        are: models of PyTorch and JAX may take whole numbers, others get them as float64. uint8, int8, uint16, int16 and
        float16 become float32, everything else float64. Of a data frame the names are kept, booleans become zero and one, and
        columns of pandas' ``category`` dtype a feature for each category: ``shards.columns`` knows, and does the same to other
        frames.
    y : array_like (samples,) or (samples, outputs)
        Targets, or integer classes. A Series of ``category`` dtype becomes codes, and ``shards.classes`` has the categories.
    agents : int
        How many agents; at most the number of samples, or of groups. With ``groups`` it may be left out: an agent a group.
    scheme : {"iid", "sorted", "dirichlet", "sizes"}
        ``iid``: shuffled, shards of equal size up to one sample. ``sorted``: ordered by target (its first column)
        before the split, so that agents see different targets. ``dirichlet``: each class is spread over the agents by
        proportions drawn from a Dirichlet distribution [1]_; a target with more than 50 distinct values is cut into its
        deciles, which then act as classes. ``sizes``: shuffled, agent i takes ``sizes[i]`` samples.
    seed : int
        Of the shuffle and the Dirichlet draws.
    sizes : sequence of int, optional
        For ``scheme="sizes"``: every agent's number of samples; they sum to the number of samples.
    concentration : float
        For ``scheme="dirichlet"``: small means that agents see few classes, large approaches ``iid``.
    groups : array_like (samples,), optional
        Whose each sample is, as numbers or text: instead of a scheme. Agent i has the i-th group in sorted order, that is
        ``groups[shards.indices[i, 0]]``, its samples in the order given. Where there are fewer agents than groups, a group is
        still with one agent: the largest first, each goes to the agent with the fewest samples so far (the first of these).

    Returns
    -------
    Shards

    Raises
    ------
    ValueError
        If shapes disagree, data are not finite, a column is neither numbers nor categories, there are more agents than samples
        or groups, an agent would stay empty, or a sample has no group.

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
    >>> shards.sizes, shards.indices[2]
    (array([1, 1, 3]), array([0, 2, 4]))
    """
    columns = Columns.of(X, "X")
    y, classes = labels("y", y)
    X, y = arrays(X if columns is None else columns.transform(X, "X"), y)
    _checks.choice("scheme", scheme, SCHEMES)
    if groups is not None:
        if scheme != "iid":
            raise ValueError(f"groups say who has which samples, and go with no scheme; got scheme={scheme!r}")
        return replace(_padded(X, y, owned(groups, agents, len(X))), columns=columns, classes=classes)
    if agents is None:
        raise ValueError("agents must be given, or groups, which say whose each sample is; got neither")
    agents = _checks.count("agents", agents)
    if agents > len(X):
        raise ValueError(f"agents must be at most the number of samples, {len(X)}, so that none is empty; got {agents}")
    if (sizes is not None) != (scheme == "sizes"):
        raise ValueError(f"sizes goes with scheme='sizes' and with no other; got scheme={scheme!r}, sizes={sizes!r}")
    rng = _checks.seed(seed)
    if scheme == "dirichlet":
        members = _dirichlet(y[:, 0], agents, _checks.number("concentration", concentration, above=0), rng)
    else:
        order = np.argsort(y[:, 0], kind="stable") if scheme == "sorted" else rng.permutation(len(X))
        if scheme == "sizes":
            members = np.split(order, np.cumsum(_sizes(sizes, agents, len(X)))[:-1])
        else:
            members = np.array_split(order, agents)
    return replace(_padded(X, y, members), columns=columns, classes=classes)


def _sizes(sizes, agents, samples):
    sizes = _checks.dense("sizes", sizes)
    if sizes.shape != (agents,) or sizes.dtype.kind not in "iu" or sizes.sum() != samples:
        raise ValueError(
            f"sizes must be {agents} whole numbers that sum to the number of samples, {samples}; got {sizes.tolist()}"
        )
    if sizes.min() < 1:
        raise ValueError(f"sizes must give every agent a sample; agent {sizes.argmin()} would get {sizes.min()}")
    return sizes


def _dirichlet(labels, agents, concentration, rng):
    if len(np.unique(labels)) > 50:
        labels = np.searchsorted(np.quantile(labels, np.arange(0.1, 1.0, 0.1)), labels)
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for _ in range(_DRAWS):
        groups = [[] for _ in range(agents)]
        for members in classes:
            proportions = rng.dirichlet(np.full(agents, concentration))
            cuts = np.rint(np.cumsum(proportions)[:-1] * len(members)).astype(int)
            for group, part in zip(groups, np.split(rng.permutation(members), cuts), strict=True):
                group.append(part)
        groups = [np.concatenate(group) for group in groups]
        if min(map(len, groups)) > 0:
            return groups
    raise ValueError(
        f"{_DRAWS} Dirichlet splits over {agents} agents all left one without samples: raise concentration "
        f"(got {concentration}) or use fewer agents"
    )


def _padded(X, y, members):
    sizes = [len(own) for own in members]
    indices = np.full((len(members), max(sizes)), -1)
    features, owner = shared_memory.zeros((*indices.shape, *X.shape[1:]), X.dtype, sizes)
    for agent, own in enumerate(members):
        indices[agent, : len(own)] = own
        np.take(X, own, axis=0, out=features[agent, : len(own)], mode="clip")  # other modes take a copy first
    real = indices >= 0
    targets = y[indices]
    targets[~real] = 0
    return Shards(features, targets, real.astype(y.dtype), indices, len(X), memory=(owner,))
