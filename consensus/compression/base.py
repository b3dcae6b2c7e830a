"""The base classes of compressors and of the messages that they make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

import numpy as np

from consensus import _checks
from consensus._arrays.streams import stream
from consensus.communication import Packed
from consensus.problems import BaseProblem

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class Compressor(ABC):
    """A map Q from rows of numbers to shorter messages; best a frozen dataclass of settings.

    :func:`consensus.testing.check_compressor` tries one of your own.

    Its contraction constant omega bounds the loss: ``E |Q(x) - x|^2 <= (1 - omega) |x|^2`` for all x, with the expectation over
    random draws. Methods that remember what they sent tolerate any omega > 0.

    Attributes
    ----------
    unbiased : bool
        Whether ``E Q(x) = x``.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.compression import TopK
    >>> packed = TopK(2).pack(np.array([[3.0, -5.0, 1.0, 0.5]]), agents=np.array([0]), number=0)
    >>> packed.unpack(), packed.bytes, TopK(2).omega(4)
    (array([[ 3., -5.,  0.,  0.]]), array([17]), 0.5)
    """

    unbiased: bool = False

    @abstractmethod
    def pack(self, rows: Float[np.ndarray, "agents P"], agents: Int[np.ndarray, " agents"], number: int) -> Packed:
        """Compress rows, each by itself.

        Parameters
        ----------
        rows : ndarray (agents, P)
            A row of each agent.
        agents : ndarray (agents,)
            The agents' numbers in the network.
        number : int
            Number of the message, the same for all agents. Random draws depend on it, the agent and the seed alone.

        Returns
        -------
        Packed
            One message per agent.
        """

    @abstractmethod
    def omega(self, parameters: int) -> float:
        """Return the contraction constant.

        Parameters
        ----------
        parameters : int
            P, the length of a row.

        Returns
        -------
        float
            Constant, at most 1; zero or negative if the map is no contraction.
        """

    def check(self, problem: BaseProblem) -> None:
        """Raise ``ValueError`` if the settings do not fit the parameters of a problem.

        Parameters
        ----------
        problem : Problem
            The problem that is about to be solved.
        """
        _checks.problem(problem)

    def prepared(self, problem: BaseProblem) -> Self:
        """Return the compressor with the settings that depend on the problem.

        Parameters
        ----------
        problem : Problem
            The problem that is about to be solved.

        Returns
        -------
        Compressor
            This compressor, if no setting is missing.
        """
        _checks.problem(problem)
        return self


def compressor_of(value: object) -> Compressor:
    """Return ``value`` if it is a compressor; raise ``TypeError`` otherwise."""
    attributes = ("pack", "omega", "unbiased", "check", "prepared")
    compressor: Compressor = _checks.offers("compressor", value, attributes, "one, such as TopK(0.1)")
    return compressor


def rows_of(rows: np.ndarray) -> np.ndarray:
    """Return ``rows`` as an array (agents, P) of floats, P > 0; raise ``TypeError`` or ``ValueError`` if they are none."""
    rows = _checks.floats("rows", rows)
    if rows.ndim != 2 or not rows.shape[1]:
        raise ValueError(f"rows must have shape (agents, P); got {rows.shape}")
    return rows


def generator(seed: int, agent: int, number: int) -> np.random.Generator:
    """Return the generator of an agent's message of that ``number``; its stream is not used by other messages or batches.

    It is to be used up before the thread asks for the next one.
    """
    return stream((seed, agent), (0, 0, 1, number))
