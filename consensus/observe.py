"""What is measured during a run, outside of its clock and of the algorithm."""

import numpy as np

from consensus._parallel import CHUNK_BYTES
from consensus.data import _arrays
from consensus.history import History
from consensus.problem import Problem


class Observer:
    """Called by the engine after every round: records, decides on stopping, moves the progress bar.

    It sees all agents, which none of them does; nothing that it computes goes back into the algorithm.
    """

    def __init__(self, problem, every, rounds, tolerance, test, agent_objectives, bar):
        self.problem, self.every, self.rounds, self.tolerance = problem, every, rounds, tolerance
        self.test = None if test is None else _test_set(problem, test)
        self.agent_objectives = agent_objectives
        self.bar = bar
        self.history = History()
        self.round, self.w = 0, None

    def __call__(self, round, w, counts, seconds):
        """Observe the iterates ``w`` (agents, P) of ``round``; return a reason to stop, or None."""
        self.bar.update(round - self.round)
        self.round, self.w = round, w
        if round % self.every and round != self.rounds:
            return None
        row = {"round": round, **self.measure(w), **counts, "seconds": seconds}
        self.history.append(row)
        self.bar.set_postfix_str(f"objective {row['objective']:.4g}", refresh=False)
        if self.tolerance is not None and max(row["stationarity"], row["disagreement"]) <= self.tolerance:
            return f"stationarity and disagreement at most {self.tolerance:g} at round {round}"
        return None

    def measure(self, w):
        """The measured quantities at the iterates ``w``, by name."""
        mean = agents_mean(w)
        row = {
            "objective": self.problem.objective(mean),
            "stationarity": self.problem.stationarity(mean),
            "disagreement": float(np.sqrt(np.square(w - mean).sum(axis=1).mean())),
        }
        if self.agent_objectives:
            row["agent_objective"] = np.array([self.problem.objective(point) for point in w])
        if self.test is not None:
            row["test_error"] = float(self._test_errors(mean[None])[0])
            row["test_error_worst"] = float(self._test_errors(w).max())
        return row

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


def _test_set(problem, test):
    if not isinstance(problem, Problem):
        raise TypeError(f"test needs a problem with a model; got {problem}")
    X, y = _arrays(*test)
    features = problem.shards.features.shape[2]
    if X.shape[1] != features:
        raise ValueError(f"test features must have {features} columns as in training; got {X.shape[1]}")
    problem.loss.check(y, problem.model.outputs)
    return X.astype(problem.dtype, copy=False), y.astype(problem.dtype, copy=False)
