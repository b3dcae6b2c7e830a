"""What a compressor is."""

from abc import ABC, abstractmethod
from typing import Self

import numpy as np

from consensus import _checks
from consensus.communication import Packed
from consensus.problems import BaseProblem


class Compressor(ABC):
    """A map Q of rows of numbers to messages that are shorter: settings, best a frozen dataclass, and :meth:`pack`.

    What it loses is bounded by its contraction constant, ``E |Q(x) - x|^2 <= (1 - omega) |x|^2`` for all x, with the
    expectation over what it draws. Methods that remember what they sent stand any omega > 0.

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
    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        """The messages that stand for ``rows`` (agents, P), one an agent, each from its own row alone.

        Parameters
        ----------
        rows : ndarray (agents, P)
        agents : ndarray (agents,)
            Their numbers in the network,
        number : int
            and which of their messages it is: with the seed, all that a draw depends on.
        """

    @abstractmethod
    def omega(self, parameters: int) -> float:
        """The contraction constant for rows of P = ``parameters`` numbers; not above zero where the map is no contraction."""

    def check(self, problem: BaseProblem) -> None:
        """Raise ``ValueError`` if the settings do not fit the parameters of ``problem``."""
        _checks.problem(problem)

    def prepared(self, problem: BaseProblem) -> Self:
        """The compressor as it runs: this one, with what is left to be found from ``problem``."""
        _checks.problem(problem)
        return self


def compressor_of(value: object, name: str = "compressor") -> Compressor:
    """``value`` if it is a compressor; raise ``TypeError`` otherwise."""
    return _checks.offers(name, value, ("pack", "omega", "unbiased", "check", "prepared"), "one, such as TopK(0.1)")


def rows_of(rows: np.ndarray) -> np.ndarray:
    """``rows`` as an array (agents, P) of floats, P > 0.

    Raises
    ------
    TypeError, ValueError
        If they are none.
    """
    rows = _checks.floats("rows", rows)
    if rows.ndim != 2 or not rows.shape[1]:
        raise ValueError(f"rows must have shape (agents, P); got {rows.shape}")
    return rows


def generator(seed: int, agent: int, number: int) -> np.random.Generator:
    """What an agent draws from for its message of that ``number``: far from what it draws for others, and for minibatches."""
    return np.random.Generator(np.random.Philox(key=[seed, agent], counter=[0, 0, 1, number]))
