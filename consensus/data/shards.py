"""The samples of every agent, padded to one length."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._arrays.sparse import SparseRows
from consensus.data.samples import arrays, weights_of
from consensus.data.tables import Classes, Columns, alike, coded, complete
from consensus.workers import shared_memory
from topologies import _names


@dataclass(frozen=True, eq=False)
class Shards:
    """Every agent's own samples, padded to the size of the largest shard with samples of zero weight.

    The padding of large shards is never allocated, because nothing reads it.

    Parameters
    ----------
    features : ndarray (agents, most, features), or (agents, most, ...)
        Samples of any shape; of sparse samples an object in place of an array, with the same axes.
    targets : ndarray (agents, most, outputs)
        Targets in the dtype of the features, or float64 if these are whole numbers.
    weights : ndarray (agents, most)
        Weights of the samples' losses, above 0, by default 1; 0 for the padding of smaller shards.
    indices : ndarray of int (agents, most)
        Each sample's row in the original data; -1 on padding.
    samples : int
        N, the number of samples of the whole network, also in a block.
    rows : ndarray of int (agents,)
        The numbers of the agents held here; by default all.
    network_size : int
        A, the number of agents of the whole network, also in a block.
    memory : tuple
        Owners of the shared memory behind the arrays.
    columns : Columns or None
        The columns of a data frame: ``columns.features`` are their names, and ``columns.transform(frame)`` converts another.
    classes : tuple or None
        The classes of targets that were categories.
    total_weight : float or None
        Sum of the weights of the whole network's samples, also in a block, by which a mean loss is divided; None if all are 1,
        so that it is N.
    labels : tuple or None
        The names of all agents of the network, also in a block; None if they have none. :func:`consensus.solve` matches them
        with those of the network.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> consensus.partition(np.eye(6), np.arange(6.0), agents=2, seed=0)
    Shards(2 agents, 3 samples each, features (6,), targets (1,), float64)
    """

    features: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    indices: np.ndarray
    samples: int
    rows: np.ndarray = None  # type: ignore[assignment]  # by default made by __post_init__
    network_size: int = None  # type: ignore[assignment]
    memory: tuple[object, ...] = field(default=(), repr=False)
    columns: Columns | None = None
    classes: Classes | None = None
    total_weight: float | None = None
    labels: tuple[Hashable, ...] | None = None

    def __post_init__(self) -> None:
        if self.rows is None:  # no block, whose arrays may be set later
            _check_shapes(self)
            object.__setattr__(self, "rows", np.arange(len(self.features)))
            object.__setattr__(self, "network_size", len(self.features))

    def __repr__(self) -> str:
        some = "" if self.agents == self.network_size else f" of {self.network_size}"
        sizes = np.unique(self.sizes if self.agents else 0).tolist()
        each = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
        shapes = f"features {self.features.shape[2:]}, targets {self.targets.shape[2:]}"
        return f"Shards({self.agents}{some} agents, {each} samples each, {shapes}, {self.features.dtype})"

    @classmethod
    def from_list(
        cls,
        parts: Iterable[tuple[ArrayLike, ...]] | Mapping[Any, tuple[ArrayLike, ...]],
        labels: Sequence[Hashable] | None = None,
    ) -> Shards:
        """Return shards of data that are in separate arrays: agent i has the samples of the i-th pair.

        Parameters
        ----------
        parts : iterable or mapping of (X, y) or (X, y, sample_weight)
            The data of each agent, as :func:`consensus.partition` takes them, with at least one sample. All have the same
            features and outputs; data frames have the same columns, and the categories of the first agent's dtype. ``indices``
            count through all samples, agent after agent. Weights are those of :func:`consensus.partition`: 1 for agents that
            give none if others do. The keys of a mapping are the names of the agents, in its order.
        labels : sequence, optional
            The names of the agents, one for each part.

        Returns
        -------
        Shards
            The shards, in float32, int32 or int64 if the features of all agents are; in float64 otherwise.

        Raises
        ------
        ValueError
            If shapes disagree, data are not finite, or an agent has no samples but of weight 0; the message names the agent.
            If two agents have one name, or there is not a name for each.
        TypeError
            If ``parts`` are not pairs, or triples.

        Examples
        --------
        >>> import numpy as np
        >>> from consensus import Shards
        >>> shards = Shards.from_list([(np.eye(3), np.ones(3)), (np.zeros((1, 3)), [2.0])])
        >>> shards.sizes, shards.targets[1, :, 0]
        (array([3, 1]), array([2., 0., 0.]))
        >>> Shards.from_list({"Oslo": (np.eye(3), np.ones(3)), "Rome": (np.zeros((1, 3)), [2.0])}).labels
        ('Oslo', 'Rome')
        """
        if isinstance(parts, Iterable):
            parts, labels = _names.of_parts("parts", parts, labels)
        try:
            pairs = [(X, y, *some) for X, y, *some in parts]
            weighted = max((len(some) for _, _, *some in pairs), default=0)
            if weighted > 1:
                raise ValueError("too many arrays")
        except (TypeError, ValueError) as error:
            raise TypeError(f"parts must be pairs (X, y), one for every agent; got {_checks.shown(parts)}") from error
        if not pairs:
            raise ValueError("parts must be pairs (X, y), one for every agent; got none")
        columns, classes = complete("X of parts[0]", pairs[0][0])[1], coded("y of parts[0]", pairs[0][1])[1]
        found = []
        for agent, (X, y, *_) in enumerate(pairs):
            names = (f"X of parts[{agent}]", f"y of parts[{agent}]")
            found.append(arrays(alike(names[0], X, columns, **{names[1]: y}), coded(names[1], y, classes)[0], names))
        if len({sp.issparse(X) for X, _ in found}) > 1:
            raise TypeError(
                "parts must have sparse features of all agents, or of none: scipy.sparse.csr_array(X) makes one sparse"
            )
        shapes = [(X.shape[1:], y.shape[1:]) for X, y in found]
        for agent, shape in enumerate(shapes):
            if shape != shapes[0]:
                raise ValueError(
                    f"parts must have samples of one shape, agent 0's features {shapes[0][0]} and targets "
                    f"{shapes[0][1]}; those of {_names.agent(agent, labels)} have {shape[0]} and {shape[1]}"
                )
        sizes = [len(y) for _, y in found]
        indices = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        dtypes = [np.result_type(*(part.dtype for part in each)) for each in zip(*found, strict=True)]
        X, y = (np.empty((0, *shape), dtype) for shape, dtype in zip(shapes[0], dtypes, strict=True))
        X = sp.csr_array(X) if sp.issparse(found[0][0]) else X
        own = [(X, y, rows) for (X, y), rows in zip(found, indices, strict=True)]
        if not weighted:
            return cls(**padded(own, sizes, X, y), columns=columns, classes=classes, labels=labels)
        called = [f"sample_weight of parts[{agent}]" for agent in range(len(pairs))]
        weights = [
            weights_of(some[0] if some else np.ones(size), size, y.dtype, name)
            for (_, _, *some), size, name in zip(pairs, sizes, called, strict=True)
        ]
        there = [tuple(array[c > 0] for array in (*part, c)) for part, c in zip(own, weights, strict=True)]
        total = float(sum(c.sum(dtype=np.float64) for c in weights))
        arrays_of_all = padded(there, [len(part[1]) for part in there], X, y)
        return cls(**arrays_of_all, columns=columns, classes=classes, total_weight=total, labels=labels)

    @property
    def agents(self) -> int:
        """Number of agents held here."""
        return len(self.features)

    @property
    def sizes(self) -> np.ndarray:
        """Number of samples of each agent held here, shape (agents,)."""
        return np.asarray(np.count_nonzero(self.indices >= 0, axis=1))

    def restrict(self, rows: slice | ArrayLike) -> Shards:
        """Return the shards of some agents.

        Parameters
        ----------
        rows : slice or array_like of int
            The agents, as positions in this block; arrays of a slice are views.

        Returns
        -------
        Shards
            The block.
        """
        rows = _checks.rows(rows, self.agents)
        return replace(
            self,
            features=self.features[rows],
            targets=self.targets[rows],
            weights=self.weights[rows],
            indices=self.indices[rows],
            rows=self.rows[rows],
        )

    def weighted(self, agents: ArrayLike) -> Shards:
        """Return the same shards with a weight for each agent, by which all its samples' losses are multiplied.

        A mean loss is divided by the same total as before.

        Parameters
        ----------
        agents : array_like (network_size,)
            Weights c_i > 0 of all agents of the network.

        Returns
        -------
        Shards
            With other weights of the samples.

        Raises
        ------
        ValueError
            If there is not a weight > 0 for each agent.
        """
        factors = _checks.floats("agents", agents)
        if factors.shape != (self.network_size,) or not (np.isfinite(factors) & (factors > 0)).all():
            raise ValueError(f"agents must be {self.network_size} finite weights > 0; got {_checks.shown(agents)}")
        weights = np.zeros_like(self.weights)
        own = factors[self.rows, None].astype(weights.dtype)
        np.multiply(self.weights, own, out=weights, where=self.weights != 0)  # padding is never touched
        total = float(self.samples) if self.total_weight is None else self.total_weight
        return replace(self, weights=weights, total_weight=total)


def _check_shapes(shards: Shards) -> None:
    """Raise ``TypeError`` or ``ValueError`` unless the arrays of ``shards`` belong together."""
    wanted: dict[str, tuple[str, ...]] = {"features": ("agents", "most", "..."), "targets": ("agents", "most", "outputs")}
    wanted |= dict.fromkeys(("weights", "indices"), ("agents", "most"))
    for name, axes in wanted.items():
        array = getattr(shards, name)
        rows = isinstance(array, SparseRows) and name == "features"
        if not (isinstance(array, np.ndarray) or rows) or array.dtype.kind not in "fiub":
            raise TypeError(f"{name} of Shards must be an array of numbers ({', '.join(axes)}); got {_checks.shown(array)}")
        fits = array.ndim == len(axes) or (axes[-1] == "..." and array.ndim > len(axes))
        if not fits or array.shape[:2] != shards.features.shape[:2]:
            raise ValueError(
                f"{name} of Shards must have shape ({', '.join(axes)}), agents and most as in features "
                f"{shards.features.shape}; got {array.shape}"
            )
    _checks.count("samples of Shards", shards.samples)


def padded(
    parts: Iterable[tuple[Any, ...]],
    sizes: list[int],
    X: Any,  # noqa: ANN401  # an array, or a sparse one
    y: np.ndarray,
    most: int = 0,
) -> dict[str, Any]:
    """Return the arrays of :class:`Shards` by name, from the features, targets, indices and weights, if any, of each agent.

    ``X`` and ``y`` have the dtypes, and the shapes of a sample; ``most`` is the number of samples per agent with padding, if
    more than the largest size.
    """
    shape = len(sizes), max(most, *sizes)
    sparse: list[sp.csr_array] | None = [] if sp.issparse(X) else None
    features: Any = None  # an array, or sparse rows in its place
    owner: object = None
    if sparse is None:
        features, owner = shared_memory.zeros((*shape, *X.shape[1:]), X.dtype, sizes)
    targets, indices = np.zeros((*shape, *y.shape[1:]), y.dtype), np.full(shape, -1)
    weights = np.zeros(shape, targets.dtype)  # its padding is never touched, as that of the others
    for row, part in enumerate(parts):
        weights[row, : len(part[1])] = 1
        if sparse is None:
            features[row, : len(part[0])] = part[0]
        else:
            sparse.append(part[0].astype(X.dtype, copy=False))
        for array, own in zip((targets, indices, weights), part[1:], strict=False):
            array[row, : len(own)] = own
    if sparse is not None:
        features = SparseRows.filled(sparse, shape[1])
    arrays = {"features": features, "targets": targets, "weights": weights, "indices": indices}
    return arrays | {"samples": int(np.sum(sizes)), "memory": (owner,)}
