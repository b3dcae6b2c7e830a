"""Exact sums over owners along a tree of their network, in secret or not, and a log of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

import topologies
from consensus import _arguments, _checks
from consensus.engines.rank_engine import HaloNetwork
from consensus.engines.stacked import StackedNetwork
from consensus.owners.exchanges import OneProcess, Together
from consensus.privacy.fixed_point import SecureSums
from consensus.workers.blocks import blocks_of

if TYPE_CHECKING:
    import networkx as nx
    import pandas

    from topologies.schedules import ScheduleLike

_BITS = 50  # of fractions, whose sums over 8,192 owners have room in 64
_LARGE = 2.0**62  # of the sum of whole parts

Terms: TypeAlias = dict[str, np.ndarray]


class Dealt(Protocol):
    """The protocol of objects that say whose data are here: shards, or anything like them."""

    @property
    def network_size(self) -> int: ...

    @property
    def labels(self) -> Any: ...  # noqa: ANN401  # names, or None


class _Halves:
    """Stands for a codec: the first half of the columns are fractions, the second half whole numbers."""

    def __init__(self, floats: int) -> None:
        self.floats = floats


class Sums:
    """Sums over owners: each adds its terms to those of its children in a tree of the network, and gets the total back.

    Parameters
    ----------
    dealt : Shards
        Whose data are in this process.
    network : networkx.Graph or schedule, optional
        Who talks to whom: static, undirected and connected; by default all with the first owner, or that of peers.
    engine : Engine, optional
        The ranks that add; by default all owners are in this process.
    secure : bool or SecureSums
        Whether masks hide the terms.
    settings : mapping
        Arguments by name that must be the same on all ranks, or sums would be of unlike things.
    """

    def __init__(
        self,
        dealt: Dealt,
        network: nx.Graph | ScheduleLike | None,
        engine: Together | None,
        secure: bool | SecureSums,
        settings: Mapping[str, object],
    ) -> None:
        chosen: Any = OneProcess() if engine is None else engine
        _checks.offers("engine", chosen, ("size", "rows", "agreed", "allgather"), "an engine, such as consensus.engines.MPI()")
        self.engine = chosen
        if not isinstance(secure, bool | SecureSums):
            raise TypeError(f"secure must be True, False or a SecureSums; got {_checks.shown(secure)}")
        self.owners, self._log = dealt.network_size, dict[str, list[Any]]()
        self.secure = (SecureSums(_BITS) if secure is True else secure) or None
        if network is None:  # peers have links to some others alone
            network = getattr(chosen, "network", None) or topologies.complete(self.owners)
        schedule = _arguments.schedule(network)
        if schedule.agents != self.owners:
            raise ValueError(
                f"the network has {schedule.agents} agents, and there are {self.owners} owners: they must be the same"
            )
        schedule = _arguments.joined(dealt, schedule, getattr(self.engine, "root", True))[0]  # type: ignore[arg-type]  # of labels
        links = sorted(zip(*map(np.ndarray.tolist, schedule.weights(schedule.key(0)).nonzero()), strict=True))
        self._agree({**settings, "secure": self.secure is not None, "network": str(links)})
        where: StackedNetwork | HaloNetwork
        if self.engine.size == 1:
            where = StackedNetwork(schedule, np.dtype(float))
        else:
            _checks.offers("engine", engine, ("ranks", "rows"), "an engine on ranks, such as consensus.engines.Torch()")
            ranks, blocks = self.engine.ranks, blocks_of(self.owners, self.engine.size)
            rows = self.engine.rows(self.owners)
            where = HaloNetwork(schedule, rows, np.dtype(float), False, ranks, blocks)
        self._tree = where.tree.secured(self.secure, True)

    def _agree(self, settings: Mapping[str, object]) -> None:
        every = self.engine.allgather([settings])
        for name, value in settings.items():
            if any(own.get(name) != value for own in every):
                shown = " and ".join(dict.fromkeys(_checks.shown(own.get(name)) for own in every))
                raise ValueError(f"{name} must be the same at all owners; got {shown}")

    def __call__(self, name: str, reveals: str, parts: Sequence[Mapping[str, Any]]) -> Terms:
        """Return the sums over all owners of arrays by name, of which ``parts`` has those of each owner here."""
        shapes = {key: np.shape(value) for key, value in parts[0].items()}
        rows = np.array([np.concatenate([np.ravel(part[key]) for key in shapes]).astype(float) for part in parts])
        good = np.isfinite(rows) & (np.abs(rows) < _LARGE / self.owners)
        bad = ~good.all(axis=1, keepdims=True)
        total = self._sum(np.concatenate([np.where(good, rows, 0.0), bad], axis=1))
        if total[-1]:
            raise ValueError(
                f"the {name} of {int(total[-1])} of {self.owners} owners are infinite or too large to be added: look at the "
                "scales of offsets, weights and targets there"
            )
        entry = self._log.setdefault(name, [reveals, 0, 0])
        entry[1] += self.owners * rows.shape[1]
        entry[2] += self.owners * rows.shape[1] * (8 if self.secure is None else 16)
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
        return {key: part.reshape(shapes[key]) for key, part in zip(shapes, np.split(total[:-1], ends[:-1]), strict=True)}

    def _sum(self, rows: np.ndarray) -> np.ndarray:
        tree, columns = self._tree, rows.shape[1]
        if self.secure is None:
            return np.asarray(tree.broadcast(tree.reduce(rows))[0])
        whole = np.floor(rows)
        halves: Any = _Halves(columns)
        total = tree.broadcast(tree.reduce(np.concatenate([rows - whole, whole], axis=1), halves))[0]
        return np.asarray(total[:columns] + total[columns:])

    def reject(self, errors: Sequence[Exception | None]) -> None:
        """Raise an owner's own error where its data are; elsewhere one that says only whose data are rejected."""
        rejected = self.engine.allgather([error is not None for error in errors])
        for error in errors:
            if error is not None:
                raise error
        if any(rejected):
            who = [owner for owner, wrong in enumerate(rejected) if wrong]
            names = f"owner{'s' * (len(who) > 1)} {', '.join(map(str, who))}"
            raise ValueError(f"the data of {names} are rejected there: its own process says why")

    def revealed(self) -> pandas.DataFrame:
        """Return the log, as :attr:`Owned.revealed` is."""
        import pandas

        masked = "" if self.secure is None else ", of the total alone: masks hide each owner's"
        rows = [(name, reveals + masked, numbers, size) for name, (reveals, numbers, size) in self._log.items()]
        return pandas.DataFrame(rows, columns=["exchange", "reveals", "numbers", "bytes"])
