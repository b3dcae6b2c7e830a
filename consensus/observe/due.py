"""The rounds that are observed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Due:
    """The rounds that are observed; it can be sent to other processes.

    Parameters
    ----------
    every : int
        A row is recorded at the start, after every so many rounds and at the last.
    rounds : int
        Number of rounds of the run.
    saves : int or None
        A checkpoint is written after every so many rounds and at the last; None: never.

    Examples
    --------
    >>> from consensus.observe import Due
    >>> due = Due(every=10, rounds=25, saves=None)
    >>> [round for round in range(26) if due(round)]
    [0, 10, 20, 25]
    """

    every: int
    rounds: int
    saves: int | None

    def recorded(self, round: int) -> bool:
        """Return whether a row is recorded at a round.

        Parameters
        ----------
        round : int
            Number of rounds done.

        Returns
        -------
        bool
            Whether it is.
        """
        return round % self.every == 0 or round == self.rounds

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

    def __call__(self, round: int) -> bool:
        last = round == self.rounds  # not by the two methods, because it is called in every round
        return last or round % self.every == 0 or (self.saves is not None and round % self.saves == 0)
