"""The samples of every agent, read from its dataset as they are needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._arrays.digest import digest
from consensus.streaming.items import dataset_of, plain, read
from consensus.streaming.sent import Pickled
from topologies import _names

_KNOWN_BY = 16  # samples of each agent, by which checkpoints know its data
_READING = threading.Lock()  # datasets need not be made for several threads


@dataclass(frozen=True, eq=False, repr=False)
class LazyShards:
    """Every agent's samples, read from its dataset as they are needed: for :class:`consensus.problems.LazyProblem`.

    :meth:`from_list` takes a dataset for each agent, :meth:`split` one dataset and the samples of each agent. Datasets are read
    as PyTorch's ``DataLoader`` reads them: the items ``dataset[i]`` of a batch's samples, or ``dataset.__getitems__(numbers)``
    where there is such a method, are given to ``collate``.

    Parameters
    ----------
    datasets : tuple
        The dataset of each agent held here; several agents may share one.
    indices : tuple of (ndarray of int, or None)
        The samples of each agent in its dataset; None for all.
    sizes : ndarray of int (agents,)
        How many samples each agent has.
    collate : callable or None
        The function that makes ``(inputs, targets)`` of a list of items; None if an item is a pair (x, y) of arrays.
    chunk : int
        Samples of an agent that are read at a time by passes over all.
    samples : int
        N, the number of samples of the whole network, also in a block.
    most : int
        The largest size in the whole network, also in a block.
    rows : ndarray of int (agents,)
        The numbers of the agents held here.
    network_size : int
        A, the number of agents of the whole network, also in a block.
    labels : tuple or None
        The names of all agents of the network, also in a block; None if they have none.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.data import LazyShards
    >>> LazyShards.from_list([(np.eye(5), np.ones(5)), [(np.zeros(5), 1.0), (np.ones(5), 2.0)]])
    LazyShards(2 agents, 7 samples)
    """

    datasets: tuple[Any, ...]
    indices: tuple[np.ndarray | None, ...]
    sizes: np.ndarray
    collate: Callable[[list[Any]], Any] | None
    chunk: int
    samples: int
    most: int
    rows: np.ndarray
    network_size: int
    labels: tuple[Hashable, ...] | None = None

    def __repr__(self) -> str:
        some = f" of {self.network_size}" if self.agents < self.network_size else ""
        return f"LazyShards({self.agents}{some} agents, {self.sizes.sum()} samples)"

    @classmethod
    def from_list(
        cls,
        datasets: Sequence[Any] | Mapping[Any, Any],
        collate: Callable[[list[Any]], Any] | None = None,
        *,
        chunk: int = 256,
        labels: Sequence[Hashable] | None = None,
    ) -> LazyShards:
        """Return shards of one dataset for each agent.

        Parameters
        ----------
        datasets : sequence or mapping
            The dataset of each agent: a ``torch.utils.data.Dataset`` or any object with ``__len__`` and ``__getitem__``, such
            as a dataset of Hugging Face; or a pair (X, y) of arrays, such as ``numpy.load("X.npy", mmap_mode="r")``. An item
            must be the same whenever it is read: random augmentation belongs to the module. The keys of a mapping are the
            names of the agents, in its order.
        collate : callable, optional
            ``collate(items) -> (inputs, targets)`` for a list of items, as ``DataLoader(collate_fn=)`` has it: inputs are what
            the module takes, targets have shape (samples,) or (samples, ...). By default items are pairs (x, y), whose arrays
            x all have one shape.
        chunk : int
            Samples of an agent that objectives, metrics and gradients of all samples read at a time.
        labels : sequence, optional
            The names of the agents, one for each dataset.

        Returns
        -------
        LazyShards
            The shards.

        Raises
        ------
        TypeError
            If ``datasets`` is no list, or a dataset has no length or cannot be indexed, as an ``IterableDataset``.
        ValueError
            If a dataset is empty.
        """
        names: tuple[Hashable, ...] | None = None
        if isinstance(datasets, Mapping | list | tuple):
            datasets, names = _names.of_parts("datasets", datasets, labels)
        if not isinstance(datasets, list | tuple) or not datasets:
            raise TypeError(f"datasets must be a list of datasets, one per agent; got {_checks.shown(datasets)}")
        known = {id(dataset): dataset_of(f"datasets[{agent}]", dataset) for agent, dataset in enumerate(datasets)}
        own = tuple(known[id(dataset)] for dataset in datasets)
        sizes = [len(dataset) for dataset in own]
        if 0 in sizes:
            raise ValueError(f"datasets must have a sample for every agent; datasets[{sizes.index(0)}] is empty")
        return cls._of(own, (None,) * len(own), sizes, collate, chunk, names)

    @classmethod
    def split(
        cls,
        dataset: Any,  # noqa: ANN401  # no common class
        indices: Iterable[ArrayLike] | Mapping[Any, ArrayLike],
        collate: Callable[[list[Any]], Any] | None = None,
        *,
        chunk: int = 256,
        labels: Sequence[Hashable] | None = None,
    ) -> LazyShards:
        """Return shards of one dataset, of which each agent has some samples.

        Parameters
        ----------
        dataset : object
            As in :meth:`from_list`.
        indices : iterable or mapping of array_like of int
            The samples of each agent, without entries of -1, the padding in ``consensus.partition(...).indices``. The keys of a
            mapping are the names of the agents, in its order.
        collate : callable, optional
            As in :meth:`from_list`.
        chunk, labels : optional
            As in :meth:`from_list`.

        Returns
        -------
        LazyShards
            The shards.

        Raises
        ------
        TypeError
            If the dataset has no length or cannot be indexed, or indices are no whole numbers.
        ValueError
            If an agent has no samples, or has some that the dataset has not.

        Examples
        --------
        >>> import numpy as np
        >>> from consensus.data import LazyShards
        >>> X, y = np.arange(20.0).reshape(10, 2), np.arange(10.0)
        >>> LazyShards.split((X, y), np.array_split(np.random.default_rng(0).permutation(10), 3)).sizes
        array([4, 3, 3])
        """
        one, found = dataset_of("dataset", dataset), []
        parts, names = _names.of_parts("indices", indices, labels)
        for agent, numbers in enumerate(parts):
            own = _checks.dense(f"indices[{agent}]", numbers)
            if own.ndim != 1 or own.dtype.kind not in "iu":
                raise TypeError(f"indices[{agent}] must be a sequence of whole numbers; got {_checks.shown(numbers)}")
            own = own[own != -1].astype(np.int64)
            if not len(own) or own.min() < 0 or own.max() >= len(one):
                shown = f"{own.min()} .. {own.max()}" if len(own) else "none"
                raise ValueError(f"indices[{agent}] must be at least one of the samples 0 .. {len(one) - 1}; got {shown}")
            found.append(own)
        if not found:
            raise ValueError("indices must have the samples of each agent; got none")
        return cls._of((one,) * len(found), tuple(found), [*map(len, found)], collate, chunk, names)

    @classmethod
    def _of(
        cls,
        datasets: tuple[Any, ...],
        indices: tuple[np.ndarray | None, ...],
        sizes: list[int],
        collate: Callable[[list[Any]], Any] | None,
        chunk: int,
        labels: tuple[Hashable, ...] | None,
    ) -> LazyShards:
        if collate is not None and not callable(collate):
            raise TypeError(f"collate must be a function of a list of items; got {_checks.shown(collate)}")
        rows, chunk = np.arange(len(sizes)), _checks.count("chunk", chunk)
        return cls(datasets, indices, np.array(sizes), collate, chunk, sum(sizes), max(sizes), rows, len(sizes), labels)

    @property
    def agents(self) -> int:
        """Number of agents held here."""
        return len(self.rows)

    @property
    def weights(self) -> np.ndarray:
        """The mask of places that have a sample, in shards padded to the largest of the network: bool (agents, most)."""
        return np.asarray(np.arange(self.most) < self.sizes[:, None])

    def restrict(self, rows: slice | ArrayLike) -> Self:
        """Return the shards of some agents.

        Parameters
        ----------
        rows : slice or array_like of int
            The agents, as positions in this block.

        Returns
        -------
        LazyShards
            The block.
        """
        own = np.arange(self.agents)[_checks.rows(rows, self.agents)]
        datasets, indices = (tuple(every[agent] for agent in own.tolist()) for every in (self.datasets, self.indices))
        return replace(self, datasets=datasets, indices=indices, sizes=self.sizes[own], rows=self.rows[own])

    def read(self, agent: int, places: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return inputs and targets of some of an agent's samples.

        Parameters
        ----------
        agent : int
            The agent, as a position in this block.
        places : ndarray of int (samples,)
            The samples' places in the agent's shard.

        Returns
        -------
        inputs : ndarray (samples, ...), or object
            What ``collate`` made; without it the features.
        targets : ndarray (samples, columns)
            The targets.

        Raises
        ------
        TypeError, ValueError
            If an item, or what ``collate`` returned, is of another kind; the message names the agent.
        """
        own, dataset = self.indices[agent], self.datasets[agent]
        with _READING:
            opened = dataset.opened() if isinstance(dataset, Pickled) else dataset
            numbers = places if own is None else own[places]
            return read(opened, numbers, self.collate, f"the dataset of {_names.agent(self.rows[agent], self.labels)}")

    def digests(self) -> list[str]:
        """Return a digest of each agent's size, indices, and 16 samples: checkpoints store them.

        Returns
        -------
        list of str
            One for each agent.
        """
        found = []
        for agent, size in enumerate(self.sizes.tolist()):
            places = np.unique(np.linspace(0, size - 1, _KNOWN_BY).astype(int))
            found.append(digest(size, self.indices[agent], *map(plain, self.read(agent, places))))
        return found
