"""An MLP whose units are split over workers."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from consensus import _checks
from consensus.costs import Load
from consensus.model_parallel.costs import load_of, maps_of
from consensus.model_parallel.grid import DIMENSIONS
from consensus.model_parallel.mlp import ShardedMLP, divisible
from consensus.model_parallel.on_grid import OnGrid, Sharded
from consensus.model_parallel.workers import Team
from consensus.models import MLP
from consensus.servers.pool import Worker
from consensus.workers.blocks import blocks_of
from consensus.workers.shared_memory import SharedArray


class Memory(NamedTuple):
    """Memory that workers share.

    Attributes
    ----------
    w, gradient : SharedArray (P,)
        Parameters, and their gradient.
    h : list of SharedArray (samples, width)
        Inputs of each layer; at last the outputs.
    u : SharedArray (samples, outputs)
        Sensitivities of the outputs.
    sums : SharedArray (2, workers, samples, width)
        Each worker's sums for the sensitivities of two layers in turn: some workers may still read those of one layer
        when others write those of the next.
    """

    w: SharedArray
    gradient: SharedArray
    h: list[SharedArray]
    u: SharedArray
    sums: SharedArray

    @classmethod
    def of(cls, widths: Sequence[int], parameters: int, workers: int, samples: int, dtype: np.dtype) -> "Memory":
        """Return memory for so many ``samples`` at a time."""
        h = [SharedArray((samples, width), dtype) for width in widths]
        sums = SharedArray((2, workers, samples, max(widths[1:])), dtype)
        w, gradient = (SharedArray((parameters,), dtype) for _ in range(2))
        return cls(w, gradient, h, SharedArray((samples, widths[-1]), dtype), sums)


class Units(NamedTuple):
    """The worker ``number`` of ``workers``, with its part of every layer's units."""

    model: MLP
    memory: Memory
    number: int
    workers: int

    def begin(self) -> Callable[[str, int, int], None]:
        """Return ``work(way, layer, samples)``, a pass ``"up"`` or ``"down"`` through one layer."""
        memory, activation, widths = self.memory, self.model._activation, self.model.widths
        own = [blocks_of(width, self.workers)[self.number] for width in widths]
        layers, slopes = (self.model._split(part.array) for part in (memory.w, memory.gradient))
        kept: dict[int, Any] = {}
        last = len(layers) - 1
        assert activation is not None, "an MLP has one"

        def up(layer: int, n: int) -> None:
            """Activations of the own units, from all of the layer below."""
            (weights, bias), units = layers[layer], own[layer + 1]
            a = memory.h[layer].array[:n] @ weights[:, units]
            if layer < last:
                a, kept[layer + 1] = activation.apply(a[None], bias[None, :, units])
                a = a[0]
            else:
                a += bias[:, units]
            memory.h[layer + 1].array[:n, units] = a

        def down(layer: int, n: int) -> None:
            """Gradients of the own columns, and what they add to the sensitivities below."""
            units = own[layer + 1]
            if layer == last:
                d = memory.u.array[:n, units]
            else:
                d = memory.sums.array[layer % 2, :, :n, units].sum(axis=0)
                if activation.backward is not None:
                    d = activation.backward(d[None], kept[layer + 1], out=d[None])[0]
                else:
                    d *= activation.derivative(kept[layer + 1])[0]
            slopes[layer][0][:, units] = memory.h[layer].array[:n].T @ d
            slopes[layer][1][:, units] = d.sum(axis=0)
            if layer > 0:
                memory.sums.array[(layer - 1) % 2, self.number, :n, : widths[layer]] = d @ layers[layer][0][:, units].T

        ways = {"up": up, "down": down}
        return lambda way, layer, n: ways[way](layer, n)


UNITS = "units"


class SplitMLP(OnGrid[MLP], MLP):  # type: ignore[misc]  # a linearization of its own
    """:class:`consensus.MLP` whose forward and backward pass run on worker processes, each with a part of every layer.

    With ``split="units"`` worker j has the columns of every layer's W and b that belong to its units. Forward, it computes
    these units' activations from the whole layer below; backward, from its units' sensitivities, the gradients of its columns
    and its summand of the sensitivities of the units below. So once per layer and direction every worker sends every other one
    message, with the numbers of all samples: activations of its own units up, sums for the other's units down.

    With ``"1d"``, ``"2d"`` and ``"3d"`` the workers are a line, a square or a cube. Each has blocks of W, b and activations,
    as described for :class:`ShardedMLP`, which does the same on MPI ranks.

    It replaces an MLP anywhere, with the same numbers to rounding; other products than with J' (``jvp``, ``jacobian``,
    ``gram``) are computed in this process. Workers start when they are first needed. They end with :meth:`close`, with a
    ``with`` block, or with the model. Pickled, as for worker processes of an engine, it is an MLP.

    Parameters
    ----------
    widths : sequence of int
        ``[inputs, hidden, ..., outputs]``.
    workers : int
        At most the units of the widest layer; a square number for ``"2d"``, a cube for ``"3d"``.
    activation : str
        One of those of :class:`consensus.MLP`.
    split : {"units", "1d", "2d", "3d"}
        How layers are spread. All widths must be multiples of the workers for ``"1d"``, of their square root for ``"2d"``,
        of their cube root for ``"3d"``.

    Attributes
    ----------
    crossed_bytes, crossed_messages : int
        Bytes and messages that workers have sent one another so far.
    passed : list
        What each worker sent in the last pass, and what it has: ``numbers``, ``messages``, bytes of ``parameters`` and of
        ``activations``; none with ``split="units"``.

    Raises
    ------
    ValueError
        If the number of workers is no square or cube, or a width is not a multiple.
    WorkerError
        If a worker dies; the next call starts new ones.

    References
    ----------
    Dean et al., "Large scale distributed deep networks", NeurIPS 2012, section 3, for ``split="units"``; the others are those
    of :class:`ShardedMLP`.

    Examples
    --------
    >>> from consensus.centralized import SplitMLP
    >>> model = SplitMLP([13, 20, 1], workers=2)
    >>> model.parameters, model
    (301, SplitMLP([13, 20, 1], workers=2, activation='tanh', split='units'))
    """

    def __init__(self, widths: Sequence[int], workers: int, activation: str = "tanh", split: str = UNITS) -> None:
        super().__init__(widths, activation)
        self.split = _checks.choice("split", split, (UNITS, *DIMENSIONS))
        if split == UNITS:
            workers = _checks.count("workers", workers, most=max(self.widths[1:]))
        else:
            workers = _checks.count("workers", workers)
            divisible(self.widths, split, workers)
        self._prepare(MLP(widths, activation), workers)
        self.passed = []

    def __repr__(self) -> str:
        of = f"activation={self.activation!r}, split={self.split!r}"
        return f"SplitMLP({list(self.widths)}, workers={self.workers}, {of})"

    def __reduce__(self) -> tuple[type[MLP], tuple[Any, ...]]:
        if type(self) is not SplitMLP:
            raise TypeError(f"{type(self).__name__} cannot be copied: workers would take it for an MLP; derive from MLP")
        return MLP, (self.widths, self.activation)

    def load(self, samples: int, itemsize: int = 8) -> Load:
        """Return the work that a gradient waits for, to be priced by :meth:`consensus.costs.Cluster.seconds`.

        Operations of the activations are left out. One exchange is counted for each collective.

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
        _checks.count("itemsize", itemsize)
        if self.split != UNITS:
            return load_of(maps_of(self.widths, self.split, self.workers, samples), itemsize)
        hidden = self.widths[1:-1]
        sent = samples * sum(hidden) * (self.workers - 1) / self.workers
        return Load(
            exchanges=np.array([2.0 * len(hidden) if self.workers > 1 else 0.0]),
            bytes=np.array([4 * itemsize * sent]),  # sent and received, both ways
            flops=np.array([6.0 * samples * self.parameters / self.workers]),
            waits=float(self.workers),
            adds=np.array([sent]),
        )

    def _network(self) -> Callable[..., Sharded]:
        return partial(ShardedMLP, self.widths, activation=self.activation)

    def _begun(self, dtype: np.dtype, stack: ExitStack) -> tuple[Sequence[Worker], Any, str]:
        if self.split != UNITS:
            return super()._begun(dtype, stack)
        memory = Memory.of(self.widths, self.parameters, self.workers, self.most, dtype)
        return [Units(self.plain, memory, number, self.workers) for number in range(self.workers)], memory, "worker"

    def _up(self, w: np.ndarray, x: np.ndarray, team: Team) -> np.ndarray:
        if self.split != UNITS:
            return super()._up(w, x, team)
        team.memory.w.array[...] = w
        team.memory.h[0].array[: len(x)] = x
        for layer in range(len(self._spans)):
            self._all(team, "up", layer, len(x))
        self._crossed(len(x), team.dtype.itemsize)
        outputs: np.ndarray = team.memory.h[-1].array[: len(x)]
        return outputs

    def _down(self, u: np.ndarray, team: Team) -> np.ndarray:
        if self.split != UNITS:
            return super()._down(u, team)
        team.memory.u.array[: len(u)] = u
        for layer in reversed(range(len(self._spans))):
            self._all(team, "down", layer, len(u))
        self._crossed(len(u), team.dtype.itemsize)
        gradient: np.ndarray = team.memory.gradient.array
        return gradient

    def _crossed(self, samples: int, itemsize: int) -> None:
        others = self.workers - 1
        self.crossed_bytes += samples * sum(self.widths[1:-1]) * others * itemsize
        self.crossed_messages += len(self.widths[1:-1]) * self.workers * others
