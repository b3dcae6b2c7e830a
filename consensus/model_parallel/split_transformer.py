"""Model parallelism: one transformer block, its matrices spread over worker processes."""

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from consensus import _checks
from consensus.costs import Load
from consensus.model_parallel.costs import load_of, maps_of_transformer
from consensus.model_parallel.grid import DIMENSIONS
from consensus.model_parallel.on_grid import OnGrid, Sharded
from consensus.model_parallel.transformer import ShardedTransformer, TransformerSizes, check_sizes


class SplitTransformer(OnGrid[TransformerSizes]):
    """A transformer block on worker processes in a line, a square or a cube, each with a part of every matrix.

    :class:`ShardedTransformer` has the equations, and does the same on MPI ranks. A sample is a sequence, its features are the
    numbers of its tokens, one after another, as are its outputs. The block has values and gradients, no other products with
    Jacobians: it takes a model's place for first-order solvers and systems in this process.

    Workers start when they are first needed. They end with :meth:`close`, with a ``with`` block, or with the block.

    Parameters
    ----------
    width : int
        Numbers of a token; a multiple of the heads.
    heads : int
        Heads of the attention.
    hidden : int
        Units of the perceptron.
    sequence : int
        Tokens of a sequence.
    workers : int
        Processes: a square number for ``"2d"``, a cube for ``"3d"``. Heads and hidden units must be multiples of the workers
        for ``"1d"``, of their square root for ``"2d"``, of their cube root for ``"3d"``.
    split : {"1d", "2d", "3d"}
        How matrices are spread.
    activation : str
        One of those of :class:`consensus.MLP`.

    Attributes
    ----------
    crossed_bytes, crossed_messages : int
        Bytes and messages that workers have sent one another so far.
    passed : list
        What each worker sent in the last pass, and what it has: ``numbers``, ``messages``, bytes of ``parameters`` and of
        ``activations``.

    Raises
    ------
    ValueError
        If the number of workers is no square or cube, or a size is not a multiple.
    WorkerError
        If a worker dies; the next call starts new ones.

    Examples
    --------
    >>> from consensus.centralized import SplitTransformer
    >>> block = SplitTransformer(8, heads=2, hidden=16, sequence=5, workers=8, split="3d")
    >>> block.parameters, block.features
    (600, 40)
    """

    def __init__(
        self, width: int, heads: int, hidden: int, sequence: int, workers: int, split: str = "3d", activation: str = "relu"
    ) -> None:
        sizes = TransformerSizes.checked(width, heads, hidden, sequence, activation)
        self.split = _checks.choice("split", split, tuple(DIMENSIONS))
        check_sizes(sizes, split, _checks.count("workers", workers))
        self._prepare(sizes, workers)
        self.passed = []
        self.parameters, self.features, self.outputs = sizes.parameters, sizes.features, sizes.outputs
        self.init = sizes.init

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={value!r}" for name, value in self.plain._asdict().items())
        return f"SplitTransformer({sizes}, workers={self.workers}, split={self.split!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a SplitTransformer has worker processes of its own, and cannot be copied to others: run it in this one"
        )

    def vjp(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return J' u.

        Parameters
        ----------
        w : ndarray (agents, P)
            Parameters.
        x, u : ndarray (agents, samples, sequence * width)
            Tokens and cotangents.

        Returns
        -------
        ndarray (agents, P)
            The product of each agent.
        """
        return self.linearize(w, x)[1].vjp(u)

    def jvp(self, w: np.ndarray, x: np.ndarray, v: np.ndarray) -> NoReturn:
        """Raise a ``TypeError``: the block has gradients alone.

        Parameters
        ----------
        w, x : ndarray
            As in `vjp`.
        v : ndarray (agents, P)
            Tangents.
        """
        raise TypeError("a SplitTransformer has gradients alone: take a first-order solver")

    def load(self, samples: int, itemsize: int = 8) -> Load:
        """Return the work that a gradient waits for, to be priced by :meth:`consensus.costs.Cluster.seconds`.

        Operations are those of the linear maps and of the attention's products. One exchange is counted for each collective.

        Parameters
        ----------
        samples : int
            At most :attr:`most`, as many as pass at a time.
        itemsize : int
            Bytes of a number.

        Returns
        -------
        consensus.costs.Load
            Load of one worker, with one entry each.
        """
        _checks.count("samples", samples, most=self.most)
        found = load_of(maps_of_transformer(self.plain, self.split, self.workers, samples), _checks.count("itemsize", itemsize))
        products = 12.0 * samples * self.plain.sequence**2 * self.plain.width / self.workers  # two forward, four backward
        return found._replace(flops=found.flops + products)

    def _network(self) -> Callable[..., Sharded]:
        sizes: dict[str, Any] = self.plain._asdict()
        return partial(ShardedTransformer, **sizes)
