"""The rounds that are observed."""

from dataclasses import dataclass


@dataclass
class Due:
    """The rounds that are observed: a row is recorded at the ``next`` one and at the last.

    The observer sets ``next`` whenever it has recorded a row. A copy in another process has to be told of it.

    Parameters
    ----------
    rounds : int
        Number of rounds of the run.
    saves : int or None
        A checkpoint is written after every so many rounds and at the last; None: never.
    every : int or None
        The distance of two rows, if it is fixed.
    next : int
        The next round of which a row is recorded.
    each : bool
        Whether all rounds are observed, for callbacks and bounds.

    Examples
    --------
    >>> from consensus.observe import Due
    >>> due = Due(rounds=25, saves=10)
    >>> due.next = 4
    >>> [round for round in range(1, 26) if due(round)]
    [4, 10, 20, 25]
    """

    rounds: int
    saves: int | None = None
    every: int | None = None
    next: int = 0
    each: bool = False

    def recorded(self, round: int) -> bool:
        """Return whether a row is recorded at a round: the next one, or one that an engine reached instead.

        Parameters
        ----------
        round : int
            Number of rounds done.

        Returns
        -------
        bool
            Whether it is.
        """
        return round >= self.next or round == self.rounds  # engines without rounds may pass the next one

    def saved(self, round: int) -> bool:
        """Return whether a checkpoint is written at a round.

        Parameters
        ----------
        round : int
            Number of rounds done.

        Returns
        -------
        bool
            Whether it is.
        """
        return self.saves is not None and (round % self.saves == 0 or round == self.rounds)

    def passed(self, round: int) -> int | None:
        """Return the newest round up to this one of which a row is due, for engines that may pass one; None if there is none.

        Parameters
        ----------
        round : int
            Number of rounds done.

        Returns
        -------
        int or None
            The round.
        """
        if round >= self.rounds:
            return self.rounds
        if round < self.next:
            return None
        return round if self.every is None else round - round % self.every

    def __call__(self, round: int) -> bool:
        if (
            self.each or round == self.next or round == self.rounds
        ):  # not by the two methods, because it is called in every round
            return True
        return self.saves is not None and round % self.saves == 0
