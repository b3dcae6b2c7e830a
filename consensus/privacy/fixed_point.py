"""Numbers in fixed point, whose sums modulo 2^64 are exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from consensus import _checks
from consensus.privacy.masks import Masks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtyping import Float, Int, UInt64


@dataclass(frozen=True)
class SecureSums:
    """Secure aggregation over agents: numbers in fixed point, with masks that cancel in the sum.

    Agent i sends, modulo 2^64,

        q_i + sum_{j > i} m_ij - sum_{j < i} m_ji ,

    with q_i its number in units of 2^-bits, rounded, and a mask m_ij for each pair of agents, new in every sum, drawn from a
    key that the two agree on. The messages add up to ``sum_i q_i``, exactly. It is a setting of solvers of exact sums, such as
    ``TreeLBFGS(secure=SecureSums())``, and of federated averaging, ``FedAvg(0.1, secure=SecureSums())``.

    Every agent has a pair of X25519 keys, made when a run begins, of which the public ones go to all. Keys of pairs are derived
    by HKDF, masks drawn by ChaCha20. There is no recovery: without the messages of all agents no sum can be read. It needs the
    extra ``secure``.

    Parameters
    ----------
    bits : int
        Fractional bits, from 0 to 60. A sum is wrong by at most ``agents 2^-(bits + 1)``, and an agent's numbers must be below
        ``2^(63 - bits) / agents``. Integers, such as the rounded gradients of ``TreeLBFGS``, are sent as they are.

    Raises
    ------
    ValueError
        If ``bits`` is out of range.

    References
    ----------
    Bonawitz, Ivanov, Kreuter, Marcedone, McMahan, Patel, Ramage, Segal, Seth, "Practical secure aggregation for
    privacy-preserving machine learning", CCS 2017, without its recovery from drop-outs.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.privacy import SecureSums
    >>> from consensus.solvers import TreeLBFGS
    >>> data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    >>> shards = consensus.partition(data.X, data.y, agents=6)
    >>> problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.01))
    >>> result = consensus.solve(problem, topologies.ring(6), TreeLBFGS(secure=SecureSums(bits=46)), rounds=40)
    >>> bool(result.history["stationarity"][-1] < 1e-6)
    True
    """

    bits: int = 40

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", _checks.count("bits", self.bits, least=0, most=60))

    @property
    def unit(self) -> float:
        """The unit of numbers in fixed point, 2^-bits."""
        return 2.0**-self.bits

    def encode(
        self, rows: Float[np.ndarray, "agents n"], agents: Int[np.ndarray, " agents"], terms: int, fixed: int | None = None
    ) -> UInt64[np.ndarray, "agents n"]:
        """Return numbers as integers modulo 2^64.

        Parameters
        ----------
        rows : ndarray (agents, n)
            The numbers.
        agents : ndarray of int (agents,)
            Whose rows these are.
        terms : int
            How many rows will be in the sum.
        fixed : int, optional
            How many columns, the first ones, are in units of 2^-bits; others are integers. By default all.

        Returns
        -------
        ndarray of uint64 (agents, n)
            The integers.

        Raises
        ------
        ValueError
            If a number is NaN, or so large that a sum may overflow: it names the agent, and not the number, as others may
            read the error.
        """
        scales = np.ones(rows.shape[1])
        scales[:fixed] = 2.0**self.bits
        codes = np.rint(rows * scales)
        good = np.abs(codes) < 2.0**63 / terms - 1  # false for NaN
        if not good.all():
            row, column = (int(place[0]) for place in (~good).nonzero())
            who = f"agent {agents[row]}"
            if not np.isfinite(rows[row, column]):
                raise ValueError(f"{who} has a number for a secure sum that is NaN or infinite")
            scaled = "scale the features and targets"
            remedy = f"give SecureSums fewer bits than {self.bits}, or {scaled}" if self.bits else scaled
            raise ValueError(f"{who} has a number that is too large for a secure sum of {terms} agents: {remedy}")
        return np.asarray(codes.astype(np.int64).view(np.uint64))

    def masks(self, agents: Iterable[int]) -> Masks:
        """Return the masks of some agents, to be agreed on with all others.

        Parameters
        ----------
        agents : iterable of int
            The agents of this process.

        Returns
        -------
        Masks
            Masks of these agents; ``agree`` comes first.
        """
        return Masks(agents)

    def decode(self, total: UInt64[np.ndarray, " n"], fixed: int | None = None) -> Float[np.ndarray, " n"]:
        """Return a sum of :meth:`encode`'s integers as numbers.

        Parameters
        ----------
        total : ndarray of uint64 (n,)
            The sum modulo 2^64.
        fixed : int, optional
            As in :meth:`encode`.

        Returns
        -------
        ndarray (n,)
            The numbers, the nearest ones in float64.
        """
        numbers = total.view(np.int64).astype(float)
        numbers[:fixed] /= 2.0**self.bits
        return numbers
