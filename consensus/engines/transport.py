"""Transport of arrays between ranks: the part in which MPI and PyTorch differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np

Pairs: TypeAlias = Sequence[tuple[int, np.ndarray]]  # a rank, and the rows that go to it or come from it
Pending: TypeAlias = Any  # messages on their way, of a type that only their transport knows
MIXED, COLLECTED = 1904, 1903  # kinds of messages: rows that agents mix, and what all ranks collect; they are tags as well
UNEVEN = 1902  # the kind of messages that may be shorter than the arrays they fill
NOTES = 1905  # the tag of notes
GOES_ON, WAITS, ENDS = 0, 1, 2  # notes: of ranks that wait longer than usual, that no longer do, and that end the job


class LostRank(Exception):
    """The connection to a rank broke: its process has ended, or its machine.

    Parameters
    ----------
    rank : int
        The rank.
    """

    def __init__(self, rank: int) -> None:
        super().__init__(f"the connection to rank {rank} broke")
        self.rank = rank


class Transport(Protocol):
    """Messages between ranks. Nothing waits here but :meth:`done`, for a moment, and nothing is reduced on the way.

    Messages of one kind between two ranks arrive in the order in which they were sent. Arrays are contiguous, and must not
    change before :meth:`done` says so. All ranks call :meth:`broadcast` together.

    Attributes
    ----------
    me, size : int
        This rank, and the number of ranks.
    engine : str
        Name of the engine, for messages.
    absent : str
        Why a rank may never come, for messages.
    """

    me: int
    size: int
    engine: str
    absent: str

    def exchange(self, kind: int, receives: Pairs, sends: Pairs) -> Pending:
        """Begin to receive arrays and to send others.

        Parameters
        ----------
        kind : int
            ``MIXED``, ``COLLECTED`` or ``UNEVEN``.
        receives : sequence of (int, ndarray)
            Ranks, and the arrays to be filled, of the size of the messages that come, or larger if they are ``UNEVEN``.
        sends : sequence of (int, ndarray)
            Ranks, and what is sent to them.

        Returns
        -------
        pending
            The messages.
        """

    def broadcast(self, rows: np.ndarray) -> Pending:
        """Begin to send an array of the first rank to all others.

        Parameters
        ----------
        rows : ndarray
            What the first rank sends; on the others, of the same size, it is filled.

        Returns
        -------
        pending
            The messages.
        """

    def done(self, pending: Pending, polls: int) -> bool:
        """Return whether messages have been sent and received.

        Parameters
        ----------
        pending : pending
            The messages.
        polls : int
            How often to look before saying no; a transport that is told when messages arrive waits a millisecond instead.

        Returns
        -------
        bool
            True once; ``pending`` must not be used again then.

        Raises
        ------
        LostRank
            If a message cannot arrive any more. Most MPIs end the whole job instead.
        """

    def note(self, note: int) -> None:
        """Send a small number to all other ranks, which need never read it.

        Parameters
        ----------
        note : int
            The number, from 0 to 127.
        """

    def notes(self) -> list[tuple[int, int]]:
        """Return the notes that have arrived since the last call.

        Returns
        -------
        list of (int, int)
            Ranks and their notes; those of one rank in their order.
        """

    def abort(self, seconds: float) -> NoReturn:
        """End the job on all ranks.

        Parameters
        ----------
        seconds : float
            What the output of this rank is given to be passed on.
        """
