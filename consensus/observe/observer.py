"""The one thing that an engine speaks to: it tells of rounds and hears when to stop, and when to save."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from consensus.checkpoint import Checkpoint
from consensus.history import History
from consensus.observe.callbacks import RoundInfo, ask
from consensus.observe.gather import Gather, Whole
from consensus.observe.recorder import Costs, Recorder
from consensus.observe.saver import Saver
from consensus.observe.stopper import Stopper


@dataclass(frozen=True)
class Due:
    """Which rounds are observed. It can be sent to other processes.

    Parameters
    ----------
    every : int
        A row is recorded at the start, at every so many rounds and at the last.
    rounds : int
    saves : int or None
        A checkpoint is written at every so many rounds and at the last; None: never.

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
        return round % self.every == 0 or round == self.rounds

    def saved(self, round: int) -> bool:
        return self.saves is not None and (round % self.saves == 0 or round == self.rounds)

    def __call__(self, round: int) -> bool:
        last = round == self.rounds  # at once, not by the methods: asked in every round
        return last or round % self.every == 0 or (self.saves is not None and round % self.saves == 0)


class Gathered(NamedTuple):
    """What an engine tells of a round, of the whole network.

    Fields: the ``round``; all agents' iterates ``w`` (A, P); the solver's ``report`` (A, columns), None if it has no columns;
    the ``counts`` of what was sent and computed in this run, numbers and the ``traffic`` (A,) of each agent, or with a server
    the busiest machine's ``bytes_busiest``; and the ``seconds`` spent in rounds.
    """

    round: int
    w: np.ndarray
    report: np.ndarray | None
    counts: dict[str, Any]
    seconds: float


class Decision(NamedTuple):
    """What an engine hears: the ``reason`` to stop, or None; and whether to ``save`` all agents' state."""

    reason: str | None
    save: bool


class Observer:
    """Sees a run from outside: records, decides when to stop, calls the user's callbacks, saves, moves the progress bar.

    It sees all agents, which none of them does; nothing that it computes goes back into the algorithm. An engine

    - calls :meth:`attach` before the first round, if its processes observe together;
    - calls :meth:`tick` as rounds go by;
    - at rounds that are :attr:`due`, the start among them, gathers the whole network's numbers, calls :meth:`see`, and does
      what the decision says: :meth:`save` with the whole network's state, stop.

    :func:`consensus.engines.rounds.reports` does this for engines whose rounds run where they are observed.

    Parameters
    ----------
    recorder : Recorder
    stopper : Stopper
    callbacks : sequence of callable
    saver : Saver or None
    every, rounds : int
        A row is recorded at the start, at every so many rounds and at the last.
    bar : tqdm

    Attributes
    ----------
    due : Due
        Which rounds are observed.
    round : int
        Rounds known to be done.
    latest : (int, ndarray) or None
        The round last seen and its iterates: what is left of a run that ctrl-C stops.
    """

    def __init__(
        self,
        recorder: Recorder,
        stopper: Stopper,
        callbacks: Sequence[Callable[[RoundInfo], str | None]],
        saver: Saver | None,
        every: int,
        rounds: int,
        bar: Any,
    ) -> None:
        self.recorder, self.stopper, self.callbacks, self.saver, self.bar = recorder, stopper, callbacks, saver, bar
        self.due = Due(every, rounds, saver.every if saver else None)
        self.problem: Any = recorder.problem  # as the user gave it
        self.gather: Gather = Whole()
        self.round = 0
        self.latest: tuple[int, np.ndarray] | None = None
        # Counts and seconds: of the run that is resumed, and of all since the start.
        self._before: tuple[dict[str, Any], float] = {}, 0.0
        self._total = self._before

    @property
    def history(self) -> History:
        return self.recorder.history

    def attach(self, problem: Costs, gather: Gather) -> None:
        """Observe together with other processes: measure with this block of the problem, put together by ``gather``."""
        self.gather = gather
        self.recorder.attach(problem, gather)

    def resume(self, checkpoint: Checkpoint, path: object) -> None:
        """Go on where the run of ``checkpoint``, read from ``path``, stopped."""
        self.recorder.resume(checkpoint.history, path)
        while self.history.rows and not self.due.recorded(self.history.last()["round"]):
            self.history.drop_last()  # the last row of a shorter run
        self._before = checkpoint.counts, checkpoint.seconds
        self.tick(checkpoint.round)

    def tick(self, round: int, w: np.ndarray | None = None) -> None:
        """Move the progress bar to ``round``; remember its iterates, if they are at hand."""
        self.bar.update(round - self.round)
        self.round = round
        if w is not None:
            self.latest = round, w

    def see(self, gathered: Gathered) -> Decision:
        """Record a due round, and say what is to be done."""
        round, w, report, counts, seconds = gathered
        self.tick(round, w)
        counts_before, seconds_before = self._before
        counts = {name: count + counts_before.get(name, 0) for name, count in counts.items()}
        self._total = counts, seconds + seconds_before
        reason = None
        if self.due.recorded(round):
            row = self.recorder.record(round, w, report, *self._total)
            batches = row["epochs"] != row["gradients"]  # gradients are of some of the samples: users then think in epochs
            epochs = f"epoch {row['epochs']:.2f}, " if batches else ""
            self.bar.set_postfix_str(f"{epochs}objective {row['objective']:.4g}", refresh=False)
            # One process decides, should rounding differ between kinds of machines.
            seen = RoundInfo(round, MappingProxyType(row), self.history, self.problem, w, self.recorder.honest)
            reason = self.gather.once(lambda: self._reason(seen))
        return Decision(reason, self.due.saved(round) or (reason is not None and self.saver is not None))

    def _reason(self, seen):
        users = ask(self.callbacks, seen)  # called even if the run is over: the last row is theirs, too
        return self.stopper.reason(seen.row) or users

    def save(self, fields: dict[str, Any]) -> None:
        """Write a checkpoint: the state, by field and of all agents, of the round seen last."""
        assert self.saver is not None, "without one no decision says that the state is to be saved"
        self.saver.save(fields, self.history, *self._total)
