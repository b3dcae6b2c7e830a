"""Label flipping: an attack on the data of some agents."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from consensus import _checks
from consensus.data import Shards
from consensus.robust.attack import byzantine_agents


def flip_labels(shards: Shards, byzantine: Sequence[int | str], classes: int | None = None) -> Shards:
    """Return shards in which some agents have wrong targets: the label-flip attack.

    Targets y become ``classes - 1 - y``, or ``-y`` for regression. The agents follow the method on these data. Pass the others
    to ``solve(..., honest=...)``, which then excludes the cost of the wrong targets from the objective.

    Parameters
    ----------
    shards : Shards
        Shards of all agents, or of some.
    byzantine : sequence of int or str
        The agents whose targets are flipped: their numbers in the network, or names of ``shards.labels``.
    classes : int, optional
        Number of classes, 2 for labels 0 and 1; None for regression.

    Returns
    -------
    Shards
        Shards with the same features and weights.

    Raises
    ------
    ValueError
        If ``byzantine`` does not name different agents of the network, or targets are not among the ``classes``.
    TypeError
        If ``byzantine`` is not a list of numbers or names, or ``shards`` are not shards.

    References
    ----------
    He, Karimireddy, Jaggi, "Byzantine-robust decentralized learning via ClippedGossip", arXiv 2202.01545, 2022, section 6.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.robust import flip_labels
    >>> shards = consensus.partition(np.zeros((4, 1)), np.array([0, 1, 2, 2]), agents=2, scheme="sorted")
    >>> flip_labels(shards, byzantine=[1], classes=3).targets[..., 0].tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    shards = _checks.shards(shards)
    agents = byzantine_agents(byzantine, shards.labels)
    if agents and agents[-1] >= shards.network_size:
        raise ValueError(f"byzantine must be among 0 .. {shards.network_size - 1}; got {list(agents)}")
    real = shards.weights > 0
    if classes is not None:
        last = _checks.count("classes", classes, least=2) - 1
        odd = shards.targets[real][~np.isin(shards.targets[real], np.arange(last + 1))]
        if odd.size:
            raise ValueError(f"targets must be classes 0 .. {last}, as classes={classes} says; got {odd[0]:g}")
    flipped = -shards.targets if classes is None else last - shards.targets
    change = np.isin(shards.rows, agents)[:, None] & real
    return replace(shards, targets=np.where(change[..., None], flipped, shards.targets), memory=())
