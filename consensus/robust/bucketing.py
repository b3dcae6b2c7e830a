"""Bucketing: averages of random groups of messages."""

from dataclasses import dataclass

import numpy as np

from consensus import _checks
from consensus._arrays.streams import stream
from consensus.communication import Messages
from consensus.robust.pre_aggregation import PreAggregation


@dataclass(frozen=True)
class Bucketing(PreAggregation):
    """Bucketing: each agent divides its messages into random buckets, and aggregates the buckets' means.

    In every round agent i permutes the rows x_j that it receives and averages each ``size`` consecutive ones, and the remaining
    ones, with their weights W_ij. A mean has the sum of these weights. The agent's own row is unchanged. Means of s rows drawn
    without replacement from m have the variance of one row times ``(m - s) / (s (m - 1))``. If agents' data differ, rules that
    judge rows by their distance therefore exclude fewer honest rows.

    A Byzantine agent spoils a whole bucket. If all edges have the same weight, Byzantine agents of weight b spoil a weight of
    at most ``size`` b, which the rule must then tolerate. So b must be below 1 / ``size``, and the rule excludes or clips more.
    The paper's theorem is about a server and rules that do not use distances from an own row, if s times the fraction of
    Byzantine agents is below what the rule tolerates.

    Parameters
    ----------
    size : int
        Number s of messages in a bucket, at least 2.
    seed : int
        Seed, at least 0. A permutation depends on the seed, the agent and the round alone.

    Raises
    ------
    ValueError
        If ``size`` or ``seed`` is out of range.

    References
    ----------
    Karimireddy, He, Jaggi, "Byzantine-robust learning on heterogeneous datasets via bucketing", ICLR 2022, Algorithm 1.

    Examples
    --------
    >>> from consensus.robust import NNA
    >>> from consensus.solvers import DGD
    >>> from consensus.robust import Bucketing
    >>> NNA(DGD(0.1), byzantine_weight=0.1, before=Bucketing(2)).before
    Bucketing(size=2, seed=0)
    """

    size: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        _checks.count("size of Bucketing", self.size, least=2)
        _checks.count("seed of Bucketing", self.seed, least=0)

    @property
    def spread(self) -> int:  # type: ignore[override]
        """Number of messages that share a bucket."""
        return self.size

    def __call__(self, messages: Messages, byzantine_weight: float, agents: np.ndarray, round: int) -> Messages:
        receivers = messages.receivers
        degrees = np.bincount(receivers, minlength=len(messages.own))
        drawn = [
            stream((self.seed, agent), (0, 0, 2, round)).random(degree) for agent, degree in zip(agents, degrees, strict=True)
        ]
        order = np.lexsort((np.concatenate(drawn), receivers)) if drawn else np.arange(0)
        place = np.arange(len(order)) - np.searchsorted(receivers, receivers)
        starts = np.flatnonzero(place % self.size == 0)  # of buckets; the first message of an agent starts one
        bucket = np.cumsum(place % self.size == 0) - 1
        weights = np.bincount(bucket, messages.weights[order], minlength=len(starts)).astype(messages.weights.dtype)
        shares = (messages.weights[order] / weights[bucket]).astype(messages.rows.dtype, copy=False)
        buckets = messages._replace(own=starts, receivers=bucket)  # each adds its messages
        return messages._replace(
            receivers=receivers[starts],
            senders=messages.senders[order][starts],  # one of each bucket
            weights=weights,
            rows=buckets.total(messages.rows[messages.sources[order]], shares),
            sources=np.arange(len(starts)),
        )
