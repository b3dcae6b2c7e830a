"""A worker of :class:`LayerParallel`: a slab of layers, and the memory by which it meets the caller."""

from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from consensus.centralised.multigrid import Multigrid
from consensus.centralised.pass_memory import PassMemory
from consensus.centralised.slab_line import Line
from consensus.models import ResNet


class Done(NamedTuple):
    """Answer of a slab: squares of its residuals before each iteration and after the last one, and counts of its messages."""

    squares: list[float]
    messages: int
    numbers: int


class Slab(NamedTuple):
    """The worker ``number`` of ``workers``, with pipes to the slabs before and after it."""

    model: ResNet
    memory: PassMemory
    number: int
    workers: int
    coarsening: int
    levels: int
    before: Connection | None
    after: Connection | None

    def begin(self) -> Callable[..., Done | None]:
        """Return ``work(way, ...)``, the passes ``"forward"`` and ``"backward"``; it returns None if a neighbour has ended."""
        slab = Layers(self)
        ways: dict[str, Callable[..., Done]] = {"forward": slab.forward, "backward": slab.backward}

        def work(way: str, *request: Any) -> Done | None:  # noqa: ANN401 (the arguments of both)
            try:
                return ways[way](*request)
            except (EOFError, OSError):
                return None

        return work


class Layers:
    """The layers of a slab, with the coarser ones that stand for several of them.

    A coarse layer's step is the sum of the steps that it stands for, its W and b are their means. (Günther et al. take those of
    the first one; means are as good for parameters that change little from layer to layer, and much better for others.)
    """

    def __init__(self, slab: Slab) -> None:
        model, memory = slab.model, slab.memory
        per, c = model.layers // slab.workers, slab.coarsening
        assert model._activation is not None, "a ResNet has one"
        self._slab, self._memory, self._activation = slab, memory, model._activation
        self._counts = [per // c**level for level in range(slab.levels)]
        self._steps = [model.step * c**level for level in range(slab.levels)]
        weights, slopes = model._split(memory.w.array), model._split(memory.gradient.array)
        self._opening, self._head = (weights[0], slopes[0]), (weights[-1], slopes[-1])
        self._first, self._end = slab.number == 0, slab.number == slab.workers - 1
        start, size = model.matrices[1 + slab.number * per][0], model.width * (model.width + 1)
        self._rows, self._slopes = (
            array[start : start + per * size].reshape(per, size) for array in (memory.w.array, memory.gradient.array)
        )
        self._layers: list[tuple[np.ndarray, np.ndarray]] = []
        odd = bool(slab.number % 2)
        self._lines = Line(slab.before, slab.after, odd), Line(slab.after, slab.before, odd)
        self._grids: tuple[Multigrid, Multigrid] | None = None
        self._known: dict[bytes, list[np.ndarray]] = {}

    def forward(self, key: bytes, samples: int, iterations: int, limit: int) -> Done:
        """Find the states, and the outputs. ``key`` names the samples, of which the last ``limit`` ones' states are kept."""
        memory, grid = self._memory, self._grid(samples, 0)
        self._layers = [self._coarsened(level) for level in range(len(self._counts))]
        start = None
        if self._first:
            (weights, bias), _ = self._opening
            start, self._opened = self._activation.apply(memory.x.array[None, :samples] @ weights, bias)
        known = self._known.pop(key, [])
        grid.begin(start, known[0] if known else None)
        self._kept: list[list[Any]] = [[None] * count for count in self._counts]
        squares = [*(grid.iterate() for _ in range(iterations)), grid.finish(self._recorded)]
        if self._end:
            (weights, bias), _ = self._head
            memory.outputs.array[:samples] = grid.corners[-1, 0] @ weights + bias
        self._known[key] = [grid.corners.copy(), *known[1:]]
        while len(self._known) > limit:
            del self._known[next(iter(self._known))]
        return self._done(squares, 0)

    def backward(self, key: bytes, samples: int, iterations: int) -> Done:
        """Find the cotangents of the states of the last pass ``"forward"``, and the gradient."""
        memory, grid, c = self._memory, self._grid(samples, 1), self._slab.coarsening
        forward, start = self._grid(samples, 0), None
        if self._end:
            (weights, _), (slope, of_bias) = self._head
            u, states = memory.u.array[:samples], forward.corners[-1, 0]
            np.matmul(states.T, u, out=slope)
            np.sum(u, axis=0, keepdims=True, out=of_bias)
            start = u @ weights.T
        for level, (count, layers) in enumerate(zip(self._counts, self._layers, strict=True)):
            if level > 0:
                for place, state in enumerate(forward.corners[: -1 : c ** (level - 1)]):
                    self._kept[level][place] = self._activated(layers, place, state)[1]
                assert place == count - 1
        known = self._known[key]
        grid.begin(start, known[1] if len(known) > 1 else None)
        squares = [*(grid.iterate() for _ in range(iterations)), grid.finish(self._differentiated)]
        if self._first:
            _, (slope, of_bias) = self._opening
            d = self._sloped(grid.corners[-1].copy(), self._opened)[0]
            np.matmul(memory.x.array[:samples].T, d, out=slope)
            np.sum(d, axis=0, keepdims=True, out=of_bias)
        self._known[key] = [known[0], grid.corners.copy()]
        return self._done(squares, 1)

    def _grid(self, samples: int, way: int) -> Multigrid:
        memory, model = self._memory, self._slab.model
        if self._grids is None or self._grids[0].corners.shape[2] != samples:
            shape = (1, samples, model.width)
            make = partial(Multigrid, counts=self._counts, coarsening=self._slab.coarsening, shape=shape, dtype=memory.w.dtype)
            forward, backward = self._lines
            self._inputs = np.empty((self._counts[0], *shape), memory.w.dtype)
            self._grids = make(self._advanced, line=forward), make(self._pulled_back, line=backward)
        return self._grids[way]

    def _coarsened(self, level: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the W (count, width, width) and b (count, 1, width) of a level."""
        width, count = self._slab.model.width, self._counts[level]
        rows = self._rows if level == 0 else self._rows.reshape(count, -1, self._rows.shape[1]).mean(axis=1)
        return rows[:, : width**2].reshape(count, width, width), rows[:, None, width**2 :]

    def _activated(self, layers: tuple[np.ndarray, np.ndarray], place: int, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weights, bias = layers
        return self._activation.apply(state @ weights[place], bias[None, place])

    def _advanced(self, level: int, place: int, state: np.ndarray) -> np.ndarray:
        h: np.ndarray = self._steps[level] * self._activated(self._layers[level], place, state)[0]
        h += state
        return h

    def _recorded(self, level: int, place: int, state: np.ndarray) -> np.ndarray:
        """Advance, and keep what the backward pass needs."""
        self._inputs[place] = state
        h, self._kept[level][place] = self._activated(self._layers[level], place, state)
        moved: np.ndarray = state + self._steps[level] * h
        return moved

    def _sloped(self, d: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Return d times the slope of the activation, in place."""
        if self._activation.backward is not None:
            return self._activation.backward(d, kept, out=d)
        d *= self._activation.derivative(kept)
        return d

    def _pulled_back(self, level: int, place: int, state: np.ndarray) -> np.ndarray:
        """Advance backwards: the cotangents of a layer's inputs from those of its outputs."""
        layer = self._counts[level] - 1 - place
        below: np.ndarray = self._sloped(self._steps[level] * state, self._kept[level][layer]) @ self._layers[level][0][layer].T
        below += state
        return below

    def _differentiated(self, level: int, place: int, state: np.ndarray) -> np.ndarray:
        """Advance backwards, and write the gradient of the layer."""
        layer, width = self._counts[level] - 1 - place, self._slab.model.width
        d = self._sloped(self._steps[level] * state, self._kept[level][layer])
        row = self._slopes[layer]
        np.matmul(self._inputs[layer, 0].T, d[0], out=row[: width**2].reshape(width, width))
        np.sum(d[0], axis=0, out=row[width**2 :])
        below: np.ndarray = state + d @ self._layers[level][0][layer].T
        return below

    def _done(self, squares: list[float], way: int) -> Done:
        line = self._lines[way]
        sent = line.messages, line.numbers
        line.messages = line.numbers = 0
        return Done(squares, *sent)
