"""The observer, to which an engine reports its rounds: it records rows, decides when a run stops and calls callbacks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from consensus._arrays.files import Hold
from consensus._arrays.progress import Lines
from consensus.checkpoints.best import with_state
from consensus.checkpoints.checkpoint import Checkpoint
from consensus.history import History
from consensus.observe.callbacks import Callback, RoundInfo, first_reason
from consensus.observe.gather import BETWEEN_HOSTS, Gather, Whole
from consensus.observe.protocols import Costs
from consensus.observe.recorder import Recorder
from consensus.observe.spacing import Spacing
from consensus.observe.stopping import Keeper, Stopper


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
    every : int, float or None
        The distance of two rows, if it is given.
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
    every: float | None = None
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
        return round if self.every is None or self.every < 1 else round - round % int(self.every)

    def __call__(self, round: int) -> bool:
        if (
            self.each or round == self.next or round == self.rounds
        ):  # not by the two methods, because it is called in every round
            return True
        return self.saves is not None and round % self.saves == 0


class Gathered(NamedTuple):
    """A round of the whole network, as an engine reports it.

    Attributes
    ----------
    round : int
        Number of rounds done.
    w : ndarray (A, P)
        Iterates of all agents; of those of this process, if processes observe together.
    report : ndarray (A, columns) or None
        Numbers for the columns of the solver, if it has any.
    counts : dict
        Counts of this run, and the ``traffic`` (A,) of each agent, or with a server the ``bytes_busiest`` of a machine.
    seconds : float
        Seconds spent in rounds.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.engines import Stacked, StackedNetwork
    >>> from consensus.observe import Gathered
    >>> class OnlyTheStart(Stacked):
    ...     def run(self, problem, schedule, solver, begin, rounds, observer):
    ...         network = StackedNetwork(schedule, problem.dtype)
    ...         counts = network.counts | problem.work.counts | {"traffic": network.traffic}
    ...         observer.see(Gathered(0, begin.numbers["w"], None, counts, seconds=0.0))
    ...         return "only the start is wanted"
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> solver = consensus.solvers.DGD(0.1)
    >>> result = consensus.solve(problem, topologies.ring(3), solver, rounds=9, start=np.ones(1), engine=OnlyTheStart())
    >>> result.history["objective"].tolist(), result.reason
    ([3.0], 'only the start is wanted')
    """

    round: int
    w: np.ndarray
    report: np.ndarray | None
    counts: dict[str, Any]
    seconds: float


class Decision(NamedTuple):
    """The answer of the observer to an engine.

    Attributes
    ----------
    reason : str or None
        Reason to stop.
    save : bool
        Whether the engine passes the state of all agents to :meth:`Observer.save`.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.engines import Stacked, StackedNetwork
    >>> from consensus.observe import Gathered
    >>> class OnlyTheStart(Stacked):
    ...     def run(self, problem, schedule, solver, begin, rounds, observer):
    ...         network = StackedNetwork(schedule, problem.dtype)
    ...         counts = network.counts | problem.work.counts | {"traffic": network.traffic}
    ...         decision = observer.see(Gathered(0, begin.numbers["w"], None, counts, seconds=0.0))
    ...         print(decision)
    ...         return decision.reason
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> result = consensus.solve(
    ...     problem, topologies.ring(3), rounds=9, engine=OnlyTheStart(), callbacks=[lambda info: "enough"])
    Decision(reason='enough', save=False)
    """

    reason: str | None
    save: bool


class Saver(NamedTuple):
    """The file ``path`` of a run's checkpoints, written after every so many rounds; ``hold`` keeps other runs from it.

    ``fingerprint`` identifies the run: see :func:`consensus.checkpoints.checkpoint.fingerprint`.
    """

    path: Path
    every: int
    fingerprint: dict[str, str | None]
    hold: Hold


class Observer:
    """Observes a run: records rows, calls callbacks, decides when to stop, saves, and moves the progress bar.

    Nothing that it computes goes back into the algorithm. An engine

    - calls :meth:`attach` before the first round, if its processes observe together;
    - calls :meth:`tick` as rounds are done;
    - at rounds that are :attr:`due`, the start among them, gathers the numbers of the network, calls :meth:`see`, and follows
      the decision: it calls :meth:`save` with the state of the network, or stops.

    :func:`consensus.engines.rounds.reports` does this for engines whose rounds run in the observing process.

    Parameters
    ----------
    recorder : Recorder
        Measures and records.
    stopper : Stopper
        Bounds of the run.
    callbacks : sequence of callable
        Functions of a :class:`RoundInfo`.
    saver : Saver or None
        Writes checkpoints.
    spacing : Spacing
        Distance of recorded rounds.
    rounds : int
        Number of rounds of the run.
    bar : tqdm or Lines
        Progress bar, or progress as lines of the log.
    keeper : Keeper or None
        Keeps the best point.

    Attributes
    ----------
    due : Due
        Rounds that are observed.
    round : int
        Number of rounds known to be done.
    latest : (int, ndarray) or None
        The last observed round and its iterates, for the result of an interrupted run.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.engines import Stacked
    >>> class Watched(Stacked):
    ...     def run(self, problem, schedule, solver, begin, rounds, observer):
    ...         reason = super().run(problem, schedule, solver, begin, rounds, observer)
    ...         print(observer.round, observer.history["round"].tolist(), observer.latest[1].shape)
    ...         return reason
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> result = consensus.solve(
    ...     problem, topologies.ring(3), consensus.solvers.DGD(0.1), rounds=6, record_every=3, engine=Watched())
    6 [0, 3, 6] (3, 1)
    """

    def __init__(
        self,
        recorder: Recorder,
        stopper: Stopper,
        callbacks: Sequence[Callback],
        saver: Saver | None,
        spacing: Spacing,
        rounds: int,
        bar: tqdm | Lines,
        keeper: Keeper | None = None,
    ) -> None:
        self.recorder, self.stopper, self.callbacks, self.saver, self.bar = recorder, stopper, callbacks, saver, bar
        self.keeper, self.spacing = keeper, spacing
        self.watched = bool(callbacks)  # whether the process that decides has some
        self.due = Due(rounds, saver.every if saver else None, spacing.every)
        self.problem: Any = recorder.problem  # as the user gave it
        self.gather: Gather = Whole()
        self.round = 0
        self.latest: tuple[int, np.ndarray] | None = None
        # Counts and seconds before this run, which a checkpoint gives, and in total.
        self._before: tuple[dict[str, Any], float] = {}, 0.0
        self._total = self._before

    @property
    def history(self) -> History:
        """History of the run."""
        return self.recorder.history

    def attach(self, problem: Costs, gather: Gather) -> None:
        """Observe together with other processes.

        Parameters
        ----------
        problem : Problem
            Block of agents of this process.
        gather : Gather
            Collective operations of the processes.
        """
        self.gather = gather
        self.recorder.attach(problem, gather)

    def resume(self, checkpoint: Checkpoint, path: object) -> None:
        """Continue the run of a checkpoint.

        Parameters
        ----------
        checkpoint : Checkpoint
            The checkpoint.
        path : path
            Its file, for messages.
        """
        self.recorder.resume(checkpoint.history, path)
        last = self.history.last()["round"]
        if last == checkpoint.round and self.spacing.regular(self.history):
            self.due.next = last  # seen again, but not recorded
        else:
            if last == checkpoint.round:
                self.history.drop_last()  # the last row of a shorter run
            self.due.next = max(self.spacing.after(self.history), checkpoint.round)
        if self.keeper is not None:
            self.keeper.resume(checkpoint.best, checkpoint.history, path)
        self._before = checkpoint.counts, checkpoint.seconds
        self.tick(checkpoint.round)

    def tick(self, round: int, w: np.ndarray | None = None) -> None:
        """Move the progress bar.

        Parameters
        ----------
        round : int
            Number of rounds done.
        w : ndarray (A, P), optional
            Iterates of the round, to keep as the latest ones; of the agents that :meth:`see` gets.
        """
        if not self.bar.disable:
            self.bar.update(round - self.round)
        self.round = round
        if w is not None:
            self.latest = round, w

    def see(self, gathered: Gathered) -> Decision:
        """Record a due round, and decide what the engine does next.

        Parameters
        ----------
        gathered : Gathered
            The round of the whole network.

        Returns
        -------
        Decision
            Reason to stop, and whether to save.
        """
        round, w, report, counts, seconds = gathered
        self.tick(round, w)
        counts_before, seconds_before = self._before
        if BETWEEN_HOSTS in counts_before:  # and perhaps on one machine now
            counts = {BETWEEN_HOSTS: 0} | counts
        counts = {name: count + counts_before.get(name, 0) for name, count in counts.items()}
        self._total = counts, seconds + seconds_before
        reason = None
        if self.due.each and not self.due.recorded(round):
            row = self.history.last() | {"round": round}
            row |= self.recorder.counted(*self._total, w.itemsize, self.history.rows)
            mean = self.recorder.mean(w) if self.watched else w[0]  # which takes messages, and callbacks alone look at it
            reason = self.gather.decide(lambda everyone: (self._reason(row, mean, everyone), False), w)[0]
        if reason is not None or self.due.recorded(round):  # the history ends where the run does
            reason = self._record(round, w, report, reason)
        return Decision(reason, self.due.saved(round) or (reason is not None and self.saver is not None))

    def _record(self, round: int, w: np.ndarray, report: np.ndarray | None, reason: str | None) -> str | None:
        """Record a row, keep its point if it is the best so far, and return the reason to stop: one that is known, if any."""
        regular, mean = round == self.due.next, self.recorder.mean(w)
        row = self.recorder.record(round, w, mean, report, *self._total)
        self.due.next = self.spacing.after(self.history)
        batches = row["epochs"] != row["gradients"]
        epochs = f"epoch {row['epochs']:.2f}, " if batches else ""
        self.bar.set_postfix_str(f"{epochs}objective {row['objective']:.4g}", refresh=False)

        def decided(everyone: Callable[[], np.ndarray]) -> tuple[str | None, bool]:
            found = self._reason(row, mean, everyone) if reason is None else reason
            return found, self.keeper is not None and self.keeper.better(row)

        # One process decides, because rounding can differ between machines.
        found, better = self.gather.decide(decided, w)
        if self.keeper and better:
            self.keeper.keep(row, mean, None if self.recorder.personal is None else w, regular)
        return found

    def _reason(self, row: dict[str, Any], mean: np.ndarray, everyone: Callable[[], np.ndarray]) -> str | None:
        """Return the reason to stop after a round, whose row may have older measurements; callbacks are called."""
        info = RoundInfo(self.round, MappingProxyType(row), self.history, self.problem, mean, everyone)
        users = first_reason(self.callbacks, info)  # called although a bound may be reached: the last row is theirs, too
        return self.stopper.reason(row) or users

    def save(self, fields: dict[str, Any]) -> None:
        """Write a checkpoint of the round that was observed last.

        Parameters
        ----------
        fields : dict
            State of the solver by field, of all agents; of those of this process if several observe together.

        Raises
        ------
        TypeError
            If it holds anything but numbers.
        """
        assert self.saver is not None, "without a saver no decision says that the state is to be saved"
        fields, best = with_state(fields, None if self.keeper is None else self.keeper.regular)
        self.gather.save(self.saver.hold, Checkpoint(fields, self.history, *self._total, self.saver.fingerprint, best))
