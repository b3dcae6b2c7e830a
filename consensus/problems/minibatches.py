"""Minibatches: the samples that every agent uses in a round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from consensus import _checks
from consensus._arrays.streams import stream
from consensus.problems.base import BaseProblem
from consensus.problems.batch import Batch, NumberedBatch
from consensus.problems.samples import in_turn

_NONE = np.iinfo(np.intp).max  # a place that is not drawn
_TOGETHER = 1 << 16  # places that are sorted at a time


@dataclass(frozen=True)
class Minibatches:
    """Every agent uses a few of its own samples per round, drawn at random.

    Agent i goes through its n_i samples in epochs: in each it takes them in a new order, ``size`` per round, and the last batch
    of an epoch holds the rest (PyTorch's ``drop_last=False``). With replacement every sample is drawn from all n_i instead, and
    all batches are of the same size. An agent with at most ``size`` samples uses all of them in every round; a ``size`` above
    that of all shards is rejected.

    The sum over a batch of b samples is multiplied by n_i / b, so that its expectation is the agent's whole gradient; without
    replacement the batches of an epoch, weighted by b / n_i, add up to it exactly. Samples are drawn alike whatever their
    weights, by which their gradients are multiplied.

    An agent's draws depend only on the seed, its number in the network and the epoch: not on the engine, nor on earlier rounds.

    Parameters
    ----------
    size : int
        Samples per agent and round, at least 1.
    seed : int
        Seed of the draws, at least 0.
    replacement : bool
        Whether samples are drawn with replacement.

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
        """Check that minibatches of this size can be drawn.

        Parameters
        ----------
        problem : BaseProblem
            The problem.

        Raises
        ------
        TypeError
            If the problem has no samples.
        ValueError
            If the largest shard has fewer than ``size``.
        """
        shards = _checks.problem(problem).shards
        if shards is None:
            raise TypeError(f"minibatches need a problem with samples, and {problem} has none: leave batch out")
        most = shards.weights.shape[1]  # the largest shard of the network, in every block
        if self.size > most:
            raise ValueError(f"size of Minibatches must be at most {most}, the samples of the largest shard; got {self.size}")

    def least(self, problem: BaseProblem) -> int:
        """Return how many samples the smallest batch of an agent has.

        Parameters
        ----------
        problem : BaseProblem
            The problem, whose agents draw.

        Returns
        -------
        int
            The number.
        """
        return self.sizes(problem)[0]

    def sizes(self, problem: BaseProblem) -> list[int]:
        """Return how many samples batches of agents have, from the smallest to the largest.

        Parameters
        ----------
        problem : BaseProblem
            The problem, whose agents draw.

        Returns
        -------
        list of int
            The numbers that occur.
        """
        return self._order(problem).counts

    def at(self, problem: BaseProblem, round: int) -> Batch:
        """Return the batch of a round.

        Parameters
        ----------
        problem : BaseProblem
            The problem, whose agents draw.
        round : int
            The round, from 0.

        Returns
        -------
        Batch
            The batch of all agents held here.
        """
        return problem.cache.get(self, lambda: self._order(problem)).batch(_checks.count("round", round, least=0))

    def _order(self, problem: BaseProblem) -> _Order:
        self.check(problem)
        return _Order(self, problem)


class _Order:
    """The batches of the agents of a block, each of the epoch that was asked for last.

    Drawing and sorting them takes longer than a batch's gradient: they are kept for the rounds of the epoch.
    """

    def __init__(self, rule: Minibatches, problem: Any) -> None:  # noqa: ANN401  # any problem with samples
        real = problem.shards.weights > 0
        self.rule, self.agents = rule, problem.rows
        self.places = [np.flatnonzero(own) for own in real]
        self.samples = real.sum(axis=1)
        self.batches = np.maximum(1, -(-self.samples // rule.size))  # in an epoch
        self.common = int(self.batches[0]) if len(set(self.batches.tolist())) == 1 else None
        width = min(rule.size, real.shape[1])  # the same on all processes, because the bits of sums depend on it
        self.everyone = np.arange(len(real))
        self.indices: np.ndarray = np.zeros((self.batches.max(), len(real), width), np.intp)
        factors = self._weights()
        counts = np.unique((factors > 0).sum(axis=2))
        self.counts: list[int] = counts[counts > 0].tolist()
        self.weights = factors.astype(problem.dtype)
        self.weights.flags.writeable = False
        self.epoch = np.full(len(real), -1)

    def _weights(self) -> np.ndarray:
        """Return n / b for the b samples of each batch; the last of an epoch may have fewer than others."""
        turns, width = np.arange(len(self.indices))[:, None], np.arange(self.indices.shape[2])
        counts = np.clip(self.samples - self.rule.size * turns, 0, self.rule.size)
        if self.rule.replacement:
            counts[(self.batches > 1) & (turns < self.batches)] = self.rule.size
        return np.asarray((width < counts[:, :, None]) * (self.samples / np.maximum(1, counts))[:, :, None])

    def batch(self, round: int) -> Batch:
        if self.common:  # all agents have as many batches: those of a round are neighbours in memory
            epoch, turn = divmod(round if self.common > 1 else 0, self.common)
            if epoch != self.epoch[0]:
                self.indices = np.zeros_like(self.indices)  # callers may hold the old ones
                self._draw(self.everyone, np.full(len(self.everyone), epoch))
                self.indices.flags.writeable = False
            return NumberedBatch.of(self.indices[turn], self.weights[turn], round)
        epochs, turns = np.divmod(round, self.batches)
        epochs[self.batches == 1] = 0  # all samples, whose order does not matter
        self._draw(np.flatnonzero(epochs != self.epoch), epochs)
        return NumberedBatch.of(self.indices[turns, self.everyone], self.weights[turns, self.everyone], round)

    def _draw(self, agents: np.ndarray, epochs: np.ndarray) -> None:
        """Draw the epochs of some agents, of which ``epochs`` has everyone's."""
        most, _, width = self.indices.shape
        few = max(1, _TOGETHER // (most * width))
        for some in (agents[first : first + few] for first in range(0, len(agents), few)):
            order: np.ndarray = np.full((len(some), most * width), _NONE)
            for own, row in zip(order, some.tolist(), strict=True):
                places, batches = self.places[row], self.batches[row]
                # Philox is a counter: seed and agent are its key, and the counters of two epochs are far from each other.
                rng = stream((self.rule.seed, self.agents[row]), (0, 0, 0, int(epochs[row])))
                again = self.rule.replacement and batches > 1
                drawn = rng.integers(len(places), size=batches * width) if again else rng.permutation(len(places))
                own[: len(drawn)] = places[drawn]
            order = order.reshape(len(some), most, width)
            order.sort(axis=2)  # as in the shard, so that a batch of all samples has the bits of the whole gradient
            order[order == _NONE] = 0
            self.indices[:, some] = order.swapaxes(0, 1)
        self.epoch[agents] = epochs[agents]


def as_minibatches(batch: int | Minibatches | None, name: str = "batch") -> Minibatches | None:
    """Return the setting ``batch``, or what ``name`` says, as a rule: a number of samples becomes :class:`Minibatches`.

    None, for all samples, stays None.
    """
    if batch is None:
        return None
    if isinstance(batch, Integral) and not isinstance(batch, bool):
        return Minibatches(_checks.count(name, batch))
    rule: Minibatches = _checks.offers(name, batch, ("at", "check"), "a number of samples or a rule such as Minibatches(32)")
    return rule


def draw(batch: int | Minibatches | None, problem: BaseProblem, round: int) -> Batch | None:
    """Return the batch of ``round`` by a solver's setting ``batch``; if that is None, the problem's: None, for all samples."""
    if batch is None:
        return problem.batch_of(round)
    return (Minibatches(batch) if isinstance(batch, int) else batch).at(problem, round)


def walked(
    problem: BaseProblem, batch: int | Minibatches | None, steps: range, update: Callable[..., np.ndarray], *rows: np.ndarray
) -> np.ndarray:
    """Return w after the local steps ``w = update(w, g, *others)``, with g the gradients of the average form at w.

    ``rows`` are w and the others, (agents, ...); ``batch`` is a setting as for :func:`draw`, ``steps`` the batches' numbers.
    """

    def walk(problem: BaseProblem, w: np.ndarray, *others: np.ndarray) -> np.ndarray:
        for k in steps:
            w = update(w, problem.average_gradient(w, draw(batch, problem, k)), *others)
        return w

    return in_turn(walk, problem, batch, *rows)
