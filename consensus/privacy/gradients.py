"""A problem whose gradients are clipped and noisy, and which says nothing else of its data."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import numpy as np

from consensus._arrays.parallel import for_chunks
from consensus._arrays.rows import taken
from consensus.models.linear import SparseLinear
from consensus.privacy.keys import PairKeys
from consensus.privacy.sampling import Words, discrete_normal, normal, of_the_system
from consensus.problems import Batch, Problem
from consensus.regularizers import Regularizer
from consensus.variance_reduced.sample_gradients import clipped_sums, sample_gradients

_OWN, _EDGE = 0x6F776E, 0x65646765  # apart from each other, whatever the seed


class Noise(NamedTuple):
    """The noise of a run: ``clip``, the standard deviations, ``seed``, the edges' ends (edges,), and the ``grid``.

    In a simulation all noise follows from the seed. If it is ``secret``, an agent's own comes from its operating system, and is
    kept nowhere; that of an edge comes from one of the ``keys``, which its two agents alone know.
    """

    clip: float
    noise: float
    correlated: float
    seed: int
    first: np.ndarray
    second: np.ndarray
    grid: float | None = None
    secret: bool = False
    keys: PairKeys | None = None

    def drawn(self, agents: np.ndarray, size: int, *draw: int) -> np.ndarray:
        """Return the noise of some agents (agents, size): their own, plus or minus that of each of their edges."""
        found = np.empty((len(agents), size))
        for row, agent in enumerate(agents.tolist()):
            np.multiply(self.noise, self._own(agent, size, draw), out=found[row])
        if not self.correlated:
            return found
        place = {agent: row for row, agent in enumerate(agents.tolist())}
        touched = np.isin(self.first, agents) | np.isin(self.second, agents)
        for i, j in zip(self.first[touched].tolist(), self.second[touched].tolist(), strict=True):
            shared = self.correlated * self._shared((i, j), size, draw)
            if i in place:
                found[place[i]] += shared
            if j in place:
                found[place[j]] -= shared
        return found

    def on_grid(self, means: np.ndarray, agents: np.ndarray, *draw: int) -> np.ndarray:
        """Return clipped ``means`` (agents, P), rounded towards zero to the grid, with discrete noise: multiples of the grid.

        Rounding towards zero makes no norm longer; rows that are longer than ``clip`` by rounding errors are made shorter.
        """
        assert self.grid is not None, "there is a grid"
        radius = self.clip / self.grid * (1 - 1e-9)  # sums of squares are not known better
        codes = np.trunc(means / self.grid)
        norms = np.sqrt(np.vecdot(codes, codes))
        codes = np.trunc(codes * np.minimum(1, radius / np.maximum(norms, 1e-300))[:, None])
        for row, agent in zip(codes, agents.tolist(), strict=True):
            row += discrete_normal(self._words(agent, draw), len(row), round(self.noise / self.grid))
        found: np.ndarray = codes * self.grid
        return found

    def _words(self, agent: int, draw: tuple[int, ...]) -> Words:
        if self.secret:
            return of_the_system
        rng = np.random.default_rng([self.seed, _OWN, agent, *draw])
        return lambda count: rng.integers(0, 2**64, count, dtype=np.uint64)

    def _own(self, agent: int, size: int, draw: tuple[int, ...]) -> np.ndarray:
        if self.secret:
            return normal(of_the_system(size))
        return np.random.default_rng([self.seed, _OWN, agent, *draw]).standard_normal(size)

    def _shared(self, edge: tuple[int, int], size: int, draw: tuple[int, ...]) -> np.ndarray:
        if self.secret:
            assert self.keys is not None, "correlated noise has keys"
            round, taken = draw
            return normal(self.keys.words(edge, round << 32 | taken, size))
        return np.random.default_rng([self.seed, _EDGE, *edge, *draw]).standard_normal(size)


class PrivateProblem:
    """Problem as a solver sees it: noisy gradients, sizes, the regularizer. Anything else raises a ``TypeError``.

    The gradients of the samples, times A times the agent's share of all samples, are clipped to norm C, averaged, and get
    noise that depends on the round and on how many gradients were taken in it before. One that is not finite counts as zero.

    Parameters
    ----------
    problem : Problem
        The problem.
    noise : Noise
        The noise.
    round : int
        The round.
    """

    def __init__(self, problem: Problem, noise: Noise, round: int) -> None:
        self._problem, self._noise, self._round, self._taken = problem, noise, round, 0
        self.rows, self.agents, self.network_size = problem.rows, problem.agents, problem.network_size
        self.parameters, self.dtype = problem.parameters, problem.dtype
        self.regularizer: Regularizer = problem.regularizer
        self.nonconvex, self.work, self.cache, self.shards = problem.nonconvex, problem.work, problem.cache, problem.shards

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{type(self).__name__} has no {name}: under Private a method sees noisy gradients and nothing else"
        )

    def value(self, w: np.ndarray) -> NoReturn:
        """Raise ``TypeError``."""
        raise TypeError("costs are not private: under Private a method must not ask for them; take one of gradients alone")

    def batch_of(self, round: int) -> None:
        """Return None: without a batch gradients are of all samples."""

    def restrict(self, rows: object) -> NoReturn:
        """Raise ``TypeError``."""
        raise TypeError("a private problem is not restricted: its rows are those of the process")

    def gradient(self, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        """Return noisy gradients of the g_i (agents, P)."""
        found: np.ndarray = self._problem._add_share(self._noisy(w, batch), w)
        return found

    def average_gradient(self, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        """Return noisy gradients of ``f_i = A g_i + r`` (agents, P)."""
        return self._problem.average_form(self._noisy(w, batch), w)

    def descended(self, x: np.ndarray, alpha: float, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        """Return ``x - alpha average_gradient(w, batch)``."""
        return np.asarray(x - float(alpha) * self.average_gradient(w, batch))

    def _noisy(self, w: np.ndarray, batch: Batch | None) -> np.ndarray:
        weights = self._problem.weights
        share = self.network_size * weights.sum(axis=1)  # 1 if all agents have as many samples
        if batch is None:
            places = np.broadcast_to(np.arange(weights.shape[1]), weights.shape)
            factors = weights
        else:
            places, factors = batch.indices, taken(weights, batch.indices) * batch.weights
        self.work.gradients += 1
        self.work.samples += int(np.count_nonzero(factors))
        factors = factors / factors.sum(axis=1, keepdims=True)
        mean = np.empty_like(w)

        def chunk(rows: slice) -> None:
            block = self._problem.restrict(rows)
            if isinstance(block.model, SparseLinear):
                of_rows = share[rows, None] * factors[rows], self._noise.clip / share[rows]
                mean[rows] = clipped_sums(block, block.model, w[rows], places[rows], *of_rows)
                return
            each = share[rows, None, None] * sample_gradients(block, w[rows], places[rows])
            norms = np.sqrt(np.einsum("amp,amp->am", each, each))
            if not np.isfinite(norms).all():
                each, norms = _finite(each)
            kept = factors[rows] * np.minimum(1, self._noise.clip / np.maximum(norms, np.finfo(each.dtype).tiny))
            np.matmul(kept[:, None], each, out=mean[rows][:, None])

        for_chunks(chunk, self.agents, places.shape[1] * self.parameters * w.itemsize)
        if self._noise.grid is None:
            mean += self._noise.drawn(self.rows, self.parameters, self._round, self._taken).astype(w.dtype)
        else:
            mean = self._noise.on_grid(mean.astype(float), self.rows, self._round, self._taken).astype(w.dtype)
        self._taken += 1
        mean /= self.network_size
        return mean


def _finite(each: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows (agents, samples, P), zeros in place of those that are not finite, and their norms without overflow."""
    each = np.where(np.isfinite(each).all(axis=2, keepdims=True), each, 0)
    largest = np.abs(each).max(axis=2, initial=0)
    scaled = (each / np.maximum(largest, np.finfo(each.dtype).tiny)[..., None]).astype(float)
    norms: np.ndarray = largest * np.sqrt(np.einsum("amp,amp->am", scaled, scaled))
    return each, norms
