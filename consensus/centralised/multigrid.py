"""Multigrid reduction in time on one slab of a chain of steps."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from consensus.centralised.slab_line import Line

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
