"""What is measured during a run, outside of its clock and of the algorithm."""

import numpy as np

from consensus import _checks
from consensus._parallel import CHUNK_BYTES
from consensus.data.shards import arrays
from consensus.history import History
from consensus.problems import Problem
from consensus.solvers.state import flatten


class Observer:
    """Sees the run from outside: records, decides on stopping, saves checkpoints, moves the progress bar.

    It sees all agents, which none of them does; nothing that it computes goes back into the algorithm. An engine calls
    :meth:`see` after every round with its block's state; where the block is not the whole network it first calls
    :meth:`attach`, to say how blocks are put together.

    Parameters
    ----------
    problem : Problem
    solver : Solver
    every, rounds : int
        A row is recorded at the start, at every so many rounds and at the last.
    tolerance : float or None
    exchanges : int or None
    test : (X, y) or None
        As :func:`checked_test_set` gives it.
    agent_objectives : bool
    bar : tqdm
    saver : Saver or None
        Writes checkpoints; see :mod:`consensus.checkpoint`.
    """

    def __init__(self, problem, solver, every, rounds, tolerance, exchanges, test, agent_objectives, bar, saver=None):
        self.problem, self.solver = problem, solver
        self.every, self.rounds, self.tolerance, self.exchanges = every, rounds, tolerance, exchanges
        self.test = test
        self.agent_objectives, self.bar, self.saver = agent_objectives, bar, saver
        self.history = History()
        self.round, self.w = 0, None
        self.counts_before, self.seconds_before = {}, 0.0
        self.collect = lambda rows: rows
        self.total = lambda counts, seconds: (counts, seconds)

    def attach(self, problem, collect, total):
        """Work with a block: ``collect`` (agents here, ...) -> (all agents, ...), ``total`` sums counts over all blocks."""
        self.problem, self.collect, self.total = problem, collect, total

    def resume(self, checkpoint):
        """Go on where the run of ``checkpoint`` stopped."""
        self.history = checkpoint.history
        while self.history.rows and not self.due(self.history.last()["round"]):
            self.history.drop_last()  # the last row of a shorter run
        self.counts_before, self.seconds_before = checkpoint.counts, checkpoint.seconds
        self.round = checkpoint.round
        self.bar.update(checkpoint.round)

    def due(self, round):
        """Whether a row is recorded at ``round``."""
        return round % self.every == 0 or round == self.rounds

    def saves(self, round):
        """Whether a checkpoint is written at ``round``."""
        return self.saver is not None and (round % self.saver.every == 0 or round == self.rounds)

    def see(self, state, counts, seconds):
        """Observe the ``state`` of a block after a round; return a reason to stop, or None."""
        round = state.round
        self.tick(round)
        self.w = state.w
        if not (self.due(round) or self.saves(round)):
            return None
        counts, seconds = self.total(counts, seconds)
        reason = None
        if self.due(round):
            report = self.collect(self.solver.report(state)) if self.solver.columns else None
            reason = self.record(round, self.collect(state.w), counts, seconds, report)
        if self.saves(round) or (reason and self.saver):
            fields = {name: self.collect(value) if np.ndim(value) else value for name, value in flatten(state).items()}
            self.save(fields, counts, seconds)
        return reason

    def tick(self, round):
        """Move the progress bar to ``round``."""
        self.bar.update(round - self.round)
        self.round = round

    def record(self, round, w, counts, seconds, report):
        """Append the row of ``round`` for all iterates ``w`` and the network's counts; return a reason to stop, or None.

        ``report`` (A, columns) is the solver's own, if it has any.
        """
        if not self.history.rows or self.history.last()["round"] < round:  # a resumed run has its first row already
            own = {name: float(join(report[:, k])) for k, (name, join) in enumerate(self.solver.columns.items())}
            self.history.append({"round": round, **self.measure(w), **self._since_start(counts, seconds), **own})
        last = self.history.last()
        self.bar.set_postfix_str(f"objective {last['objective']:.4g}", refresh=False)
        if self.tolerance is not None and max(last["stationarity"], last["disagreement"]) <= self.tolerance:
            return f"stationarity and disagreement at most {self.tolerance:g} at round {round}"
        if self.exchanges is not None and last["exchanges"] >= self.exchanges:
            return f"{last['exchanges']} exchanges done at round {round}"
        return None

    def save(self, fields, counts, seconds):
        """Write a checkpoint of all agents' state, given by its fields."""
        total = self._since_start(counts, seconds)
        self.saver.save(fields, self.history, {name: total[name] for name in counts}, total["seconds"])

    def _since_start(self, counts, seconds):
        total = {name: value + self.counts_before.get(name, 0) for name, value in counts.items()}
        return total | {"seconds": seconds + self.seconds_before}

    def measure(self, w):
        """The measured quantities at all iterates ``w`` (A, P), by name."""
        mean = agents_mean(w)
        row = {
            "objective": self._objective(mean),
            "stationarity": self._stationarity(mean),
            "disagreement": float(np.sqrt(np.square(w - mean).sum(axis=1).mean())),
        }
        if self.agent_objectives:
            row["agent_objective"] = np.array([self._objective(point) for point in w])
        if self.test is not None:
            row["test_error"] = float(self._test_errors(mean[None])[0])
            row["test_error_worst"] = float(self._test_errors(w).max())
        return row

    def _objective(self, point):
        here = np.broadcast_to(point, (self.problem.agents, len(point)))
        return float(self.collect(self.problem.value(here)).sum() + self.problem.regularizer.value(point))

    def _stationarity(self, point):
        here = np.broadcast_to(point, (self.problem.agents, len(point)))
        step = point - self.collect(self.problem.gradient(here)).sum(axis=0)
        return float(np.linalg.norm(point - self.solver.prox(self.problem)(step, 1.0)))

    def _test_errors(self, w):
        """The mean test error of every row of ``w``, a few agents at a time."""
        X, y = self.test
        model = self.problem.model
        few = max(1, CHUNK_BYTES // (len(X) * max(getattr(model, "widths", [model.outputs])) * X.itemsize))
        errors = []
        for first in range(0, len(w), few):
            part = w[first : first + few]
            outputs = model.predict(part, np.broadcast_to(X, (len(part), *X.shape)))
            errors.append(self.problem.loss.error(outputs, np.broadcast_to(y, (len(part), *y.shape))).mean(axis=1))
        return np.concatenate(errors)


def agents_mean(w):
    """The mean of the rows of ``w``; exactly the common row where they are equal, so that agreement is measured as zero."""
    return w[0] + (w - w[0]).mean(axis=0)


def checked_test_set(problem, test):
    """The arrays of a ``test`` set, (X, y), that fits ``problem``."""
    if not isinstance(problem, Problem):
        raise TypeError(f"test needs a problem with a model; got {problem}")
    try:
        X, y = test
    except (TypeError, ValueError) as error:
        raise TypeError(f"test must be a pair (X, y); got {_checks.shown(test)}") from error
    _checks.needs("test", problem.loss, "error")
    X, y = arrays(X, y, ("X of test", "y of test"))
    features = problem.shards.features.shape[2]
    if X.shape[1] != features:
        raise ValueError(f"test features must have {features} columns as in training; got {X.shape[1]}")
    problem.loss.check(y, problem.model.outputs)
    return X.astype(problem.dtype, copy=False), y.astype(problem.dtype, copy=False)
