"""A worker's slab of layers, which solves its part of the layer-parallel equations by multigrid."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from consensus.costs import Load
from consensus.model_parallel.workers import PassMemory
from consensus.models import ResNet


class Line:
    """A slab's place in a chain of slabs: where states come ``from``, and where they go ``to``; None at the ends.

    Parameters
    ----------
    before, after : Connection or None
        To the slab before this one, and to the next one.
    odd : bool
        Whether the slab's number is odd: it then takes before it gives, so that neighbours never wait for each other in a row.

    Attributes
    ----------
    messages, numbers : int
        What it has given so far.
    """

    def __init__(self, before: Connection | None, after: Connection | None, odd: bool) -> None:
        self._before, self._after, self._odd = before, after, odd
        self.messages = self.numbers = 0

    def take(self, into: np.ndarray) -> None:
        """Write the state that the slab before gives to ``into``, a contiguous array; nothing at the start of the chain."""
        if self._before is not None:
            self._before.recv_bytes_into(into.reshape(-1).view(np.uint8).data)

    def give(self, state: np.ndarray) -> None:
        """Give a state to the next slab, if there is one."""
        if self._after is not None:
            self._after.send_bytes(state.data)
            self.messages += 1
            self.numbers += state.size

    def swap(self, state: np.ndarray, into: np.ndarray) -> None:
        """Give and take one state."""
        if self._odd:
            self.take(into)
        self.give(state)
        if not self._odd:
            self.take(into)


class SlabWork(NamedTuple):
    """The sizes on which the work of a gradient depends: those of the network, its slabs and its levels, and ``samples``."""

    layers: int
    width: int
    workers: int
    coarsening: int
    levels: int
    iterations: int
    samples: int

    @property
    def counts(self) -> list[int]:
        """A slab's steps on every level."""
        return [self.layers // self.workers // self.coarsening**level for level in range(self.levels)]

    def steps(self, iterations: int, cold: bool) -> int:
        """Return how many steps follow each other in a pass.

        An iteration goes twice through a level that has a next one, computes the next one's sources and, but on the finest
        level, renews the states between corners. Slab after slab marches through the last level. In the end all steps of the
        finest level are taken once more.
        """
        counts = self.counts
        fill = sum(count - coarse for count, coarse in itertools.pairwise(counts[1:]))
        march = self.workers * counts[-1]
        cycle = sum(2 * count + coarse for count, coarse in itertools.pairwise(counts)) + fill + march
        return iterations * cycle + (fill + march if cold else 0) + counts[0]

    def messages(self, cold: bool) -> int:
        """Return how many states a slab that has a next one sends it in a pass: one a level and iteration."""
        return self.iterations * self.levels + cold

    def load(self, itemsize: int, cold: bool) -> Load:
        """Return what follows one another in a gradient, forward and backward."""
        size, counts = self.samples * self.width, self.counts
        marches = (self.iterations + cold) * (self.workers - 1)
        swaps = self.iterations * (self.levels - 1) if self.workers > 1 else 0
        # Backward, slopes of the activation are computed on all levels but the first, and the gradient of each layer.
        steps = 2 * self.steps(self.iterations, cold) + sum(counts[1:]) + counts[0]
        return Load(
            exchanges=np.array([2 * (marches + swaps)]),
            bytes=np.array([2 * (marches + 2 * swaps) * size * itemsize]),
            flops=np.array([2.0 * size * self.width * steps]),
            waits=float(self.workers),
            adds=np.array([float((self.levels - 1) * counts[0] * self.width * (self.width + 1))]),  # coarse levels' W and b
        )


Advance: TypeAlias = Callable[[int, int, np.ndarray], np.ndarray]  # (level, place, state) -> the next state, a new array


class Multigrid:
    """The states u of one slab of a chain ``u_n = F_n(u_{n-1})``, found by iterations in which all slabs work at once.

    Every c-th point of a level, a corner, is a point of the next level, whose steps stand for c steps each. A V-cycle relaxes
    (F, C, F: between corners, at corners, and between corners again from there) and solves the next level for corrected
    corners, by a V-cycle of its own. The last level is marched through from slab to slab. Levels l >= 1 solve

        v_j - F^l_j(v_{j-1}) = g_j,     g_j = r_j + u_{jc} - F^l_j(u_{(j-1)c}) ,

    with the residuals r of the level above (the full approximation scheme). With two levels, each iteration makes two more
    corners exact.

    Parameters
    ----------
    advance : callable
        Step ``place`` of a level.
    counts : sequence of int
        The slab's steps on every level, two or more levels; each a multiple of the next.
    coarsening : int
        c.
    shape, dtype : tuple of int, numpy.dtype
        Shape and dtype of a state.
    line : Line
        To the slabs before and after this one.

    Attributes
    ----------
    corners : ndarray (counts[1] + 1, ...)
        States at the corners of the finest level; the first is that at which the slab before ends.
    """

    def __init__(
        self, advance: Advance, counts: Sequence[int], coarsening: int, shape: tuple[int, ...], dtype: np.dtype, line: Line
    ) -> None:
        self._advance, self._counts, self._coarsening, self._line = advance, counts, coarsening, line
        self._last = len(counts) - 1
        self.corners = np.zeros((counts[1] + 1, *shape), dtype)
        # The finest level has no more than its corners: steps from there renew the states between them.
        self._states = [self.corners[:0], *(np.zeros((count + 1, *shape), dtype) for count in counts[1:])]
        self._sources = [self.corners[:0], *(np.zeros((count, *shape), dtype) for count in counts[1:])]
        self._corners = [self.corners, *(states[::coarsening] for states in self._states[1:-1])]

    def begin(self, start: np.ndarray | None, corners: np.ndarray | None) -> None:
        """Set the ``start`` of the whole chain (None but in its first slab), and the ``corners`` of an earlier solution.

        Without these, the slabs march through the last level, whose states are filled in from level to level.
        """
        if corners is not None:
            self.corners[...] = corners
        if start is not None:
            self.corners[0] = self._states[-1][0] = start
        if corners is None:
            for sources in self._sources[1:]:
                sources[...] = 0
            self._march()
            for level in reversed(range(self._last)):
                self._corners[level][...] = self._states[level + 1]
                self._fill(level)

    def iterate(self) -> float:
        """Do a V-cycle; return the sum of squares of the residuals before it."""
        return self._cycle(0)

    def finish(self, advance: Advance) -> float:
        """Go through all steps once more by ``advance``, from the corners; return the sum of squares of the residuals."""
        return sum(_square(end - self.corners[j]) for j, end in self._ends(0, advance))

    def _cycle(self, level: int) -> float:
        if level == self._last:
            self._march()
            return 0.0
        corners, coarse, sources = self._corners[level], self._states[level + 1], self._sources[level + 1]
        squares = 0.0
        for j, end in self._ends(level, self._advance):
            squares += _square(end - corners[j])
            corners[j] = end
        self._line.swap(corners[-1], corners[0])
        coarse[...] = corners
        for j, end in self._ends(level, self._advance):  # end becomes r_j + u_jc
            np.subtract(end, self._advance(level + 1, j - 1, coarse[j - 1]), out=sources[j - 1])
        self._cycle(level + 1)
        corners[...] = coarse
        self._fill(level)
        return squares

    def _ends(self, level: int, advance: Advance) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the number of each corner, and the state in which the steps from the corner before end; backwards.

        So that a corner may be replaced before the next one is asked for.
        """
        size, corners, sources = self._coarsening, self._corners[level], self._sources[level]
        for j in reversed(range(1, len(corners))):
            state = corners[j - 1]
            for place in range((j - 1) * size, j * size):
                state = advance(level, place, state)
                if level > 0:
                    state += sources[place]
            yield j, state

    def _fill(self, level: int) -> None:
        """Renew the states between corners, which the finest level does not store."""
        if level == 0:
            return
        states, sources = self._states[level], self._sources[level]
        for place in range(self._counts[level]):
            if (place + 1) % self._coarsening:
                np.add(self._advance(level, place, states[place]), sources[place], out=states[place + 1])

    def _march(self) -> None:
        """Solve the last level: step by step, slab after slab."""
        states, sources, level = self._states[-1], self._sources[-1], self._last
        self._line.take(states[0])
        for place in range(self._counts[level]):
            np.add(self._advance(level, place, states[place]), sources[place], out=states[place + 1])
        self._line.give(states[-1])


def _square(array: np.ndarray) -> float:
    return float(np.vdot(array, array))


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
