"""Minibatches: which of its samples every agent uses in a round."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import numpy as np

from consensus import _checks
from consensus.problems.base import BaseProblem
from consensus.problems.batch import Batch


@dataclass(frozen=True)
class Minibatches:
    """Every agent uses a few of its own samples a round, drawn at random.

    Agent i goes through its n_i samples in epochs: in each it takes them in a new order, ``size`` a round, the last batch of an
    epoch holding what is left (PyTorch's ``drop_last=False``). With replacement every sample is drawn from all n_i instead, and
    all batches are of the same size. Where shards are unequal, an agent with at most ``size`` samples uses all of them in every
    round; a ``size`` that no agent has is refused.

    The sum over a batch of b samples is multiplied by n_i / b, so that its expectation is the agent's whole gradient; without
    replacement the batches of an epoch, weighted by b / n_i, add up to it exactly.

    What an agent draws depends on the seed, its number in the network and the epoch alone: not on the engine, nor on the rounds
    that were asked for before.

    Parameters
    ----------
    size : int
        Samples an agent and round, >= 1.
    seed : int
        >= 0.
    replacement : bool

    Raises
    ------
    ValueError
        If ``size``, ``seed`` or ``replacement`` is out of range.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> shards = consensus.partition(np.eye(6), np.zeros(6), agents=2, scheme="sizes", sizes=[4, 2])
    >>> problem = consensus.Problem(consensus.Linear(6), consensus.SquaredLoss(), shards)
    >>> rule = consensus.Minibatches(3)
    >>> first, rest = rule.at(problem, 0), rule.at(problem, 1)
    >>> np.sort([*first.indices[0], rest.indices[0, 0]]), rest.weights[0]
    (array([0, 1, 2, 3]), array([4., 0., 0.]))
    >>> w = np.ones((2, 7))
    >>> parts = 3 / 4 * problem.gradient(w, first)[0] + 1 / 4 * problem.gradient(w, rest)[0]
    >>> bool(np.allclose(parts, problem.gradient(w)[0]))
    True
    """

    size: int
    seed: int = 0
    replacement: bool = False

    def __post_init__(self) -> None:
        _checks.count("size of Minibatches", self.size)
        _checks.count("seed of Minibatches", self.seed, least=0)
        _checks.flag("replacement", self.replacement)

    def check(self, problem: BaseProblem) -> None:
        """Raise ``TypeError`` if ``problem`` has no samples to draw from, ``ValueError`` if the largest shard has too few."""
        shards = getattr(_checks.problem(problem), "shards", None)
        if shards is None:
            raise TypeError(f"minibatches need a problem with samples, and {problem} has none: leave batch out")
        most = shards.weights.shape[1]  # of all agents' shards, also where some are held elsewhere
        if self.size > most:
            raise ValueError(f"size of Minibatches must be at most {most}, the samples of the largest shard; got {self.size}")

    def at(self, problem: BaseProblem, round: int) -> Batch:
        """The batch of ``round`` for the agents that ``problem`` holds."""
        return problem.cache.get(self, lambda: self._order(problem)).batch(_checks.count("round", round, least=0))

    def _order(self, problem):
        self.check(problem)
        return _Order(self, problem)


class _Order:
    """The batches of the agents of a block, each in the epoch that was last asked for.

    Drawing and sorting them takes longer than a batch's gradient: they are kept for the rounds of the epoch.
    """

    def __init__(self, rule, problem):
        real = problem.shards.weights > 0
        self.rule, self.agents = rule, problem.rows
        self.places = [np.flatnonzero(own) for own in real]
        self.samples = real.sum(axis=1)
        self.batches = np.maximum(1, -(-self.samples // rule.size))  # of an epoch
        self.alike = int(self.batches[0]) if len(set(self.batches.tolist())) == 1 else None
        width = min(rule.size, real.shape[1])  # the same on all processes, as sums' bits depend on it
        self.everyone = np.arange(len(real))
        self.indices = np.zeros((self.batches.max(), len(real), width), np.intp)
        self.weights = self._weights().astype(problem.dtype)
        self.weights.flags.writeable = False
        self.epoch = np.full(len(real), -1)

    def _weights(self):
        """n / b for the b samples of a batch, of which the last of an epoch may have fewer."""
        turns, width = np.arange(len(self.indices))[:, None], np.arange(self.indices.shape[2])
        counts = np.clip(self.samples - self.rule.size * turns, 0, self.rule.size)
        if self.rule.replacement:
            counts[(self.batches > 1) & (turns < self.batches)] = self.rule.size
        return (width < counts[:, :, None]) * (self.samples / np.maximum(1, counts))[:, :, None]

    def batch(self, round):
        if self.alike:  # a round's batches are together, as they are kept
            epoch, turn = divmod(round if self.alike > 1 else 0, self.alike)
            if epoch != self.epoch[0]:
                self.indices = np.zeros_like(self.indices)  # others may have the old ones
                for row in self.everyone:
                    self._draw(row, epoch)
                self.indices.flags.writeable = False
            return Batch(self.indices[turn], self.weights[turn])
        epoch, turn = np.divmod(round, self.batches)
        epoch[self.batches == 1] = 0  # they use all samples, in whatever order
        for row in np.flatnonzero(epoch != self.epoch):
            self._draw(row, epoch[row])
        return Batch(self.indices[turn, self.everyone], self.weights[turn, self.everyone])

    def _draw(self, row, epoch):
        places, batches, size = self.places[row], self.batches[row], self.rule.size
        # Philox counts: seed and agent are its key, and each epoch begins at a number of its own, far from the next.
        rng = np.random.Generator(np.random.Philox(key=[self.rule.seed, self.agents[row]], counter=[0, 0, 0, epoch]))
        if self.rule.replacement and batches > 1:
            drawn = rng.integers(len(places), size=batches * size)
        else:
            drawn = rng.permutation(len(places))
        size, missing = min(size, len(places)), np.iinfo(np.intp).max
        order = np.full((batches, size), missing)
        order.reshape(-1)[: len(drawn)] = places[drawn]
        order.sort(axis=1)  # as in the shard, what is missing at the end: all samples at once give the whole gradient's bits
        order[order == missing] = 0
        self.indices[:batches, row, :size] = order
        self.epoch[row] = epoch


def as_minibatches(batch: int | Minibatches | None) -> Minibatches | None:
    """``batch`` as a rule: a number of samples becomes :class:`Minibatches`; None, for all samples, and rules pass."""
    if batch is None:
        return None
    if isinstance(batch, Integral) and not isinstance(batch, bool):
        return Minibatches(_checks.count("batch", batch))
    return _checks.offers("batch", batch, ("at", "check"), "a number of samples or a rule such as Minibatches(32)")


def draw(batch: int | Minibatches | None, problem: BaseProblem, round: int) -> Batch | None:
    """The batch of ``round``, by a solver's setting ``batch``; None, for all samples, where that is None."""
    return None if batch is None else (Minibatches(batch) if isinstance(batch, int) else batch).at(problem, round)
