"""Random buckets of messages."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from consensus import _checks
from consensus.communication.messages import Messages
from consensus.robust.pre_aggregation import PreAggregation


@dataclass(frozen=True)
class Bucketing(PreAggregation):
    """Bucketing: an agent puts the messages into random buckets of ``size`` and aggregates the buckets' means.

    Agent i permutes the rows x_j that it receives, anew in every round, and averages each ``size`` of them, and what is left at
    the end, with their weights W_ij; a mean has the sum of these weights. Its own row x_i stays as it is. Means of s rows that
    were drawn without replacement from m have the variance of one row times ``(m - s) / (s (m - 1))``, so that rules which
    judge by distance mistake fewer honest rows for lies when agents' data differ.

    The price: a liar spoils a whole bucket. With equal weights of edges, liars of weight b spoil a weight of at most
    ``size`` b, and so much is what the rule then tolerates; b has to be below 1 / ``size``, and much of what is heard is left
    out or clipped. (The paper's theorem is of a server and rules that do not look at distances from an own row, with s times
    the liars' share below what the rule tolerates.)

    Parameters
    ----------
    size : int
        s >= 2, messages in a bucket.
    seed : int
        >= 0. The permutation depends on it, the agent and the round alone.

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
    >>> NNA(DGD(0.1), tolerated=0.1, before=Bucketing(2)).before
    Bucketing(size=2, seed=0)
    """

    size: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        _checks.count("size of Bucketing", self.size, least=2)
        _checks.count("seed of Bucketing", self.seed, least=0)

    @property
    def spread(self) -> int:  # type: ignore[override]  # as many as share a bucket with a liar
        return self.size

    def __call__(self, heard: Messages, tolerated: float, agents: np.ndarray, round: int) -> Messages:
        degrees = np.bincount(heard.receivers, minlength=len(heard.own))
        drawn = [_stream(self.seed, agent, round).random(degree) for agent, degree in zip(agents, degrees, strict=True)]
        order = np.lexsort((np.concatenate(drawn), heard.receivers)) if drawn else np.arange(0)
        place = np.arange(len(order)) - np.searchsorted(heard.receivers, heard.receivers)
        starts = np.flatnonzero(place % self.size == 0)  # of buckets: every agent begins its own
        bucket = np.cumsum(place % self.size == 0) - 1
        weights = np.bincount(bucket, heard.weights[order], minlength=len(starts)).astype(heard.weights.dtype)
        shares = (heard.weights[order] / weights[bucket]).astype(heard.rows.dtype, copy=False)
        ends = np.append(starts, len(order))
        means = sp.csr_array((shares, heard.sources[order], ends), shape=(len(starts), len(heard.rows))) @ heard.rows
        return heard._replace(
            receivers=heard.receivers[starts],
            senders=heard.senders[order][starts],  # one of each bucket
            weights=weights,
            rows=means,
            sources=np.arange(len(starts)),
        )


def _stream(seed, agent, round):
    return np.random.Generator(np.random.Philox(key=[seed, agent], counter=[0, 0, 2, round]))
