"""A worker of a :class:`SplitMLP`: some units of every layer, and the memory by which it meets the others."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from consensus.models import MLP
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
