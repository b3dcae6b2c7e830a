"""A map-reduce on Dask's distributed scheduler."""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from consensus import _checks, _extras
from consensus.problems import BaseProblem
from consensus.servers.mappers import Mapper, Sum, Total, added, pairs, partial
from consensus.servers.pool import died


@dataclass(frozen=True)
class Dask(Mapper):
    """Dask's distributed scheduler: each part is sent to a worker once; sums are added there, by tasks.

    Parameters
    ----------
    client : distributed.Client
        Client of the scheduler.

    Raises
    ------
    ImportError
        Without Dask: ``pip install 'consensus-opt[dask]'``.

    Examples
    --------
    >>> import consensus
    >>> from distributed import Client
    >>> from consensus.centralized import Dask, MapReduceGradientDescent, solve
    >>> parts = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    >>> shards = consensus.partition(parts.X, parts.y, agents=4, seed=0)
    >>> problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.01))
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     result = solve(problem, MapReduceGradientDescent(learning_rate=0.2, workers=2, on=Dask(client)), rounds=20)
    >>> bool(result.history["objective"][-1] < 0.6 * result.history["objective"][0])
    True
    """

    client: Any

    def __post_init__(self) -> None:
        distributed = _extras.module("distributed", "consensus.centralized.Dask", "dask")
        if not isinstance(self.client, distributed.Client):
            raise TypeError(f"client must be a distributed.Client; got {_checks.shown(self.client)}")

    @contextmanager
    def open(self, problem: BaseProblem, blocks: list[slice], tree: bool) -> Iterator[Total]:
        client = self.client
        killed = _extras.module("distributed", "consensus.centralized.Dask", "dask").KilledWorker
        parts = client.scatter([problem.restrict(rows) for rows in blocks], hash=False)

        def total(w: np.ndarray) -> Any:  # noqa: ANN401 (dask has no types)
            sums = client.map(partial, parts, [w] * len(parts), pure=False)
            if not tree:
                return client.submit(added, sums, False, pure=False).result()
            for level in pairs(len(sums)):
                for first, second in level:
                    sums[first] = client.submit(added, [sums[first], sums[second]], False, pure=False)
            return sums[0].result()

        def watched(w: np.ndarray) -> Sum:
            try:
                gradient, samples = total(w)
            except (CancelledError, killed) as error:
                raise died("a worker of Dask's died with its part of the data") from error
            return gradient, samples

        yield watched
