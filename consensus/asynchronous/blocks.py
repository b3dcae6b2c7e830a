"""Blocks of agents that wake together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from consensus.asynchronous.arcs import Arcs
from consensus.engines.protocols import AnyProblem

_KEPT = 1024
_BY_AGENT = ("gradients", "solves")


class Block(NamedTuple):
    """Neighbours in the order of agents: their rows, problem and arcs."""

    rows: slice
    problem: AnyProblem
    arcs: Arcs


class Blocks:
    """The blocks of a problem, views of its data, made when they are first needed.

    ``single`` makes all blocks single agents, for methods whose agents draw their samples by their own wakes.
    """

    def __init__(self, problem: AnyProblem, arcs: Arcs, single: bool) -> None:
        self._problem, self._arcs, self._single = problem, arcs, single
        self.problem = problem.restrict(slice(0, problem.agents))  # for the start
        self._made: dict[tuple[int, int], Block] = {}
        self._work: dict[str, int] = {}  # of agents

    def of(self, rows: Sequence[int]) -> list[Block]:
        """Return the blocks that hold ``rows``, which increase."""
        if len(self._made) >= _KEPT:  # not between two of these, whose work is yet to be counted
            self._work = self._counted()
            self._made.clear()
            self.forget()
        ends = [k for k in range(1, len(rows)) if self._single or rows[k] != rows[k - 1] + 1]
        return [self._block(rows[a], rows[b - 1] + 1) for a, b in itertools.pairwise([0, *ends, len(rows)])]

    def _block(self, start: int, stop: int) -> Block:
        found = self._made.get((start, stop))
        if found is None:
            rows = slice(start, stop)
            found = self._made[start, stop] = Block(rows, self._problem.restrict(rows), self._arcs.block(rows))
        return found

    def forget(self) -> None:
        """Count from here on."""
        self.problem.work = type(self.problem.work)()

    def work(self) -> dict[str, float]:
        """Return the work so far, by the names of the history's columns: gradients and solves an agent, others in all."""
        counts, agents = self._counted(), self._problem.network_size
        return {name: count / agents if name in _BY_AGENT else count for name, count in counts.items()}

    def _counted(self) -> dict[str, int]:
        total = dict(self._work)
        for problem in (self.problem, *(block.problem for block in self._made.values())):
            for name, count in problem.work.counts.items():
                total[name] = total.get(name, 0) + count * (problem.agents if name in _BY_AGENT else 1)
        return total
