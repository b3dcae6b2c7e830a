"""The samples of every agent, padded to one length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.data.frames import Columns, is_frame, labels
from consensus.data.samples import arrays
from consensus.workers import shared_memory


@dataclass(frozen=True, eq=False)
class Shards:
    """Every agent's own samples, padded once to the largest shard with samples of zero weight.

    Where shards are large, padding takes memory only once somebody looks at it.

    Attributes
    ----------
    features : ndarray (agents, most, features), or (agents, most, ...)
        A sample may have any shape, as images have.
    targets : ndarray (agents, most, outputs)
        In the dtype of the features, or float64 where these are whole numbers.
    weights : ndarray (agents, most)
        One on samples, zero on padding.
    indices : ndarray of int (agents, most)
        Which row of the original data each sample is; -1 on padding.
    samples : int
        N, the number of samples of the whole network (a restricted block keeps it).
    rows : ndarray of int (agents,)
        Which agents of the network are held here; by default all.
    network_size : int
        A, the number of agents of the whole network (a restricted block keeps it).
    columns : Columns or None
        Of a data frame: the features' names, ``columns.features``, and ``columns.transform(frame)`` of another one.
    classes : tuple or None
        The classes behind targets that were categories.
    """

    features: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    indices: np.ndarray
    samples: int
    rows: np.ndarray = None  # type: ignore[assignment]  # what is left out is made, by __post_init__
    network_size: int = None  # type: ignore[assignment]
    memory: tuple = field(default=(), repr=False)  # keeps what is in shared memory known as such
    columns: Columns | None = None
    classes: tuple | None = None

    def __post_init__(self) -> None:
        if self.rows is None:  # not a block, whose arrays may come later
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
    def from_list(cls, parts: Iterable[tuple[ArrayLike, ArrayLike]]) -> Shards:
        """Shards of data that are apart already: agent i has the samples of the i-th pair.

        Parameters
        ----------
        parts : iterable of (X, y)
            As :func:`consensus.partition` takes them, of every agent. All have the same features and outputs, and one sample
            at least. Data frames have the same columns, and no category that is not in the first agent's dtype.
            ``indices`` count through them all, one agent after another.

        Returns
        -------
        Shards
            float32 if the features of all agents are; int32 or int64 likewise; float64 otherwise.

        Raises
        ------
        ValueError
            If shapes disagree, or data are not finite: the agent is named.
        TypeError
            If ``parts`` are no pairs.

        Examples
        --------
        >>> import numpy as np
        >>> from consensus import Shards
        >>> shards = Shards.from_list([(np.eye(3), np.ones(3)), (np.zeros((1, 3)), [2.0])])
        >>> shards.sizes, shards.targets[1, :, 0]
        (array([3, 1]), array([2., 0., 0.]))
        """
        try:
            pairs = [(X, y) for X, y in parts]
        except (TypeError, ValueError) as error:
            raise TypeError(f"parts must be pairs (X, y), one for every agent; got {_checks.shown(parts)}") from error
        if not pairs:
            raise ValueError("parts must be pairs (X, y), one for every agent; got none")
        columns, classes = Columns.of(pairs[0][0], "X of parts[0]"), labels("y of parts[0]", pairs[0][1])[1]
        found = []
        for agent, (X, y) in enumerate(pairs):
            names = (f"X of parts[{agent}]", f"y of parts[{agent}]")
            if columns is not None and is_frame(X):
                X = columns.transform(X, names[0])
            found.append(arrays(X, labels(names[1], y, classes)[0], names))
        shapes = [(X.shape[1:], y.shape[1:]) for X, y in found]
        for agent, shape in enumerate(shapes):
            if shape != shapes[0]:
                raise ValueError(
                    f"parts must have samples of one shape, agent 0's features {shapes[0][0]} and targets "
                    f"{shapes[0][1]}; those of agent {agent} have {shape[0]} and {shape[1]}"
                )
        sizes = [len(X) for X, _ in found]
        indices = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        padding = padded([(*part, own) for part, own in zip(found, indices, strict=True)], max(sizes))
        return cls(**padding, columns=columns, classes=classes)

    @property
    def agents(self) -> int:
        """Number of agents held here."""
        return len(self.features)

    @property
    def sizes(self) -> np.ndarray:
        """Number of samples of each agent held here, shape (agents,)."""
        return np.count_nonzero(self.indices >= 0, axis=1)

    def restrict(self, rows: slice | ArrayLike) -> Shards:
        """The shards of the agents ``rows``, a slice (views, nothing is copied) or a sequence of their numbers."""
        rows = _checks.rows(rows, self.agents)
        return replace(
            self,
            features=self.features[rows],
            targets=self.targets[rows],
            weights=self.weights[rows],
            indices=self.indices[rows],
            rows=self.rows[rows],
        )


def _check_shapes(shards):
    """Raise ``TypeError`` or ``ValueError`` unless the arrays of ``shards`` belong together."""
    wanted = {"features": ("agents", "most", "..."), "targets": ("agents", "most", "outputs")}
    wanted |= dict.fromkeys(("weights", "indices"), ("agents", "most"))
    for name, axes in wanted.items():
        array = getattr(shards, name)
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
            raise TypeError(f"{name} of Shards must be an array of numbers ({', '.join(axes)}); got {_checks.shown(array)}")
        fits = array.ndim == len(axes) or (axes[-1] == "..." and array.ndim > len(axes))
        if not fits or array.shape[:2] != shards.features.shape[:2]:
            raise ValueError(
                f"{name} of Shards must have shape ({', '.join(axes)}), agents and most as in features "
                f"{shards.features.shape}; got {array.shape}"
            )
    _checks.count("samples of Shards", shards.samples)


def padded(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], most: int) -> dict[str, Any]:
    """The arrays of :class:`Shards`, by name, from every agent's features, targets and indices; ``most`` places an agent."""
    (X, y, _), shape = parts[0], (len(parts), most)
    dtype, sizes = np.result_type(*(X for X, _, _ in parts)), [len(own) for _, _, own in parts]
    features, owner = shared_memory.zeros((*shape, *X.shape[1:]), dtype, sizes)
    targets, indices = np.zeros((*shape, *y.shape[1:]), np.result_type(*(y for _, y, _ in parts))), np.full(shape, -1)
    for row, part in enumerate(parts):
        for array, own in zip((features, targets, indices), part, strict=True):
            array[row, : len(own)] = own
    real = indices >= 0
    arrays = {"features": features, "targets": targets, "weights": real.astype(targets.dtype), "indices": indices}
    return arrays | {"samples": int(real.sum()), "memory": (owner,)}
