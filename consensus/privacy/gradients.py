"""A problem whose gradients are clipped and noisy, and which says nothing else of its data."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import numpy as np

from consensus._parallel import for_chunks
from consensus._rows import taken
from consensus.problems import Batch, Problem
from consensus.problems.sample_gradients import sample_gradients
from consensus.regularizers import Regularizer

_OWN, _EDGE = 0x6F776E, 0x65646765  # apart from each other, whatever the seed


class Noise(NamedTuple):
    """The noise of a run: ``clip``, the standard deviations, ``seed``, and the edges' ends (edges,)."""

    clip: float
    noise: float
    correlated: float
    seed: int
    first: np.ndarray
    second: np.ndarray

    def drawn(self, agents: np.ndarray, size: int, *draw: int) -> np.ndarray:
        """Return the noise of some agents (agents, size): their own, plus or minus that of each of their edges."""
        found = np.empty((len(agents), size))
        for row, agent in enumerate(agents.tolist()):
            np.multiply(
                self.noise, np.random.default_rng([self.seed, _OWN, agent, *draw]).standard_normal(size), out=found[row]
            )
        if not self.correlated:
            return found
        place = {agent: row for row, agent in enumerate(agents.tolist())}
        touched = np.isin(self.first, agents) | np.isin(self.second, agents)
        for i, j in zip(self.first[touched].tolist(), self.second[touched].tolist(), strict=True):
            shared = self.correlated * np.random.default_rng([self.seed, _EDGE, i, j, *draw]).standard_normal(size)
            if i in place:
                found[place[i]] += shared
            if j in place:
                found[place[j]] -= shared
        return found


class PrivateProblem:
    """What a solver sees of a problem: noisy gradients, sizes, the regularizer. Anything else raises a ``TypeError``.

    The gradients of the samples, times A times the agent's share of all samples, are clipped to norm C, averaged, and get
    noise that depends on the round and on how many gradients were taken in it before.

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
            each = share[rows, None, None] * sample_gradients(block, w[rows], places[rows])
            norms = np.sqrt(np.einsum("amp,amp->am", each, each))
            kept = factors[rows] * np.minimum(1, self._noise.clip / np.maximum(norms, np.finfo(each.dtype).tiny))
            np.matmul(kept[:, None], each, out=mean[rows][:, None])

        for_chunks(chunk, self.agents, places.shape[1] * self.parameters * w.itemsize)
        mean += self._noise.drawn(self.rows, self.parameters, self._round, self._taken).astype(w.dtype)
        self._taken += 1
        mean /= self.network_size
        return mean
