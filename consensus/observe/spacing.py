"""The distance of two recorded rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from consensus.history import History
from consensus.problems.minibatches import Minibatches
from consensus.problems.state import TestSet

WORK = 10  # the work between two rows, in rows
GRADIENT = 3  # the gradient of a sample's loss, in evaluations of it: one pass forwards, and backwards twice as much


@dataclass(frozen=True)
class Spacing:
    """Says which round is recorded next: by a given distance, or so that rows take at most a tenth of the work.

    Work is counted, never timed, in evaluations of a sample's loss: all processes, and a resumed run, find the same rounds. A
    gradient counts as three. A local solve, and an iteration inside it, count as a gradient of as many samples as gradients
    have had on average. With a row of c evaluations at round n, by which rounds have taken W since the start, the next one is
    at ``n + ceil(10 c n / W)``; the first is at round 1.

    Parameters
    ----------
    every : int, float or None
        The distance; below one it is a part of the rounds so far.
    cost : int
        Evaluations that a row takes, as :func:`cost_of_row` returns them.
    agents : int
        Number of agents, A.

    Examples
    --------
    >>> from consensus import History
    >>> from consensus.observe.spacing import Spacing
    >>> history = History()
    >>> history.append({"round": 0, "samples": 0, "gradients": 0, "solves": 0, "iterations": 0})
    >>> history.append({"round": 1, "samples": 80, "gradients": 1, "solves": 0, "iterations": 0})
    >>> Spacing(None, cost=3 * 400, agents=8).after(history)
    51
    """

    every: float | None
    cost: int
    agents: int

    def after(self, history: History, row: int = -1) -> int:
        """Return the round that is recorded next.

        Parameters
        ----------
        history : History
            The rows so far.
        row : int
            The row from which it is counted, by default the last.

        Returns
        -------
        int
            The round.
        """
        start, now = history.row(0), history.row(row)
        round = int(now["round"])
        if self.every is not None:
            every = int(self.every)
            return round - round % every + every if every else round + max(1, int(self.every * round))
        if round == 0:
            return 1  # tells what a round takes
        names = ("samples", "gradients", "solves", "iterations")
        samples, gradients, solves, iterations = (int(now[name]) - int(start[name]) for name in names)
        each = self.agents * gradients  # gradients of single agents
        if each <= 0:
            return round + WORK  # work that is not counted is taken to be that of a row
        work = GRADIENT * (samples or each) * (each + self.agents * solves + iterations)
        return round - (-WORK * self.cost * round * each // work)

    def regular(self, history: History) -> bool:
        """Return whether a longer run would record the last row, too.

        Parameters
        ----------
        history : History
            The rows so far.

        Returns
        -------
        bool
            Whether it would.
        """
        last = history.row(-1)["round"]
        if self.every is not None and self.every >= 1:
            return bool(last % self.every == 0)
        return history.rows < 2 or self.after(history, -2) == last


def cost_of_row(
    problem: Any,  # noqa: ANN401  # a problem, or a block of its agents
    points: int,
    test: TestSet | None,
    agent_objectives: bool,
    metrics_on: Minibatches | None,
) -> int:
    """Return how many evaluations of a sample's loss a row takes, metrics of the user's left out.

    Parameters
    ----------
    problem : Problem
        The problem of all agents or some.
    points : int
        Iterates that are measured: one of each agent, or the server's.
    test : TestSet or None
        The test set.
    agent_objectives : bool
        Whether the objective is measured at every iterate.
    metrics_on : Minibatches or None
        Samples for the metrics; all by default. Costs given by functions count as one sample an agent.

    Returns
    -------
    int
        The number.
    """
    agents, shards = problem.network_size, problem.shards
    samples = agents if shards is None else int(shards.samples)
    if isinstance(metrics_on, Minibatches):
        samples = min(samples, agents * metrics_on.size)
    kind = None if problem.model is None else problem.model.buffers
    objective = 2 if kind == "average" else 1  # the buffers of a point are a pass of their own
    apart = kind == "average" or not problem.one_pass
    passes = GRADIENT + objective * (apart + points * agent_objectives) + 2 * (kind == "keep" and test is not None)
    return samples * passes + (0 if test is None else test.samples * (1 + points))
