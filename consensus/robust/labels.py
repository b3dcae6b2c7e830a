"""Agents whose data lie."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from consensus import _checks
from consensus.data import Shards
from consensus.robust.attack import agents_of


def flip_labels(shards: Shards, liars: Sequence[int], classes: int | None = None) -> Shards:
    """The shards with other targets for some agents, who then follow the method honestly: the label-flip attack.

    Targets y become ``classes - 1 - y``, or ``-y`` where they are no classes. ``solve(..., honest=...)`` then measures the
    others alone, and leaves the liars' costs out of the objective.

    Parameters
    ----------
    shards : Shards
        Of all agents, or of some.
    liars : sequence of int
        By their numbers in the network.
    classes : int, optional
        How many classes there are: 2 for labels 0 and 1.

    Returns
    -------
    Shards

    Raises
    ------
    ValueError
        If liars are not different agents of the network, or there are other targets than the ``classes``.
    TypeError
        If ``liars`` are no agents' numbers, or ``shards`` none.

    References
    ----------
    He, Karimireddy, Jaggi, "Byzantine-robust decentralized learning via ClippedGossip", arXiv 2202.01545, 2022, section 6.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.robust import flip_labels
    >>> shards = consensus.partition(np.zeros((4, 1)), np.array([0, 1, 2, 2]), agents=2, scheme="sorted")
    >>> flip_labels(shards, liars=[1], classes=3).targets[..., 0].tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    shards, liars = _checks.shards(shards), agents_of(liars)
    if liars and liars[-1] >= shards.network_size:
        raise ValueError(f"liars must be among 0 .. {shards.network_size - 1}; got {list(liars)}")
    real = shards.weights > 0
    if classes is not None:
        last = _checks.count("classes", classes, least=2) - 1
        odd = shards.targets[real][~np.isin(shards.targets[real], np.arange(last + 1))]
        if odd.size:
            raise ValueError(f"targets must be classes 0 .. {last}, as classes={classes} says; got {odd[0]:g}")
    flipped = -shards.targets if classes is None else last - shards.targets
    change = np.isin(shards.rows, liars)[:, None] & real
    return replace(shards, targets=np.where(change[..., None], flipped, shards.targets), memory=())
