"""What the federated systems share: clients that take local steps, and who takes part in a round."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from consensus import _checks
from consensus.centralised.system import Advance, S, System, Traffic
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw


@dataclass(frozen=True)
class Federated(System[S]):
    """Base of :class:`FedAvg`, which documents the common settings, :class:`SCAFFOLD` and :class:`FedAdam`."""

    learning_rate: float
    local_steps: int = 5
    batch: int | None = None
    share: float = 1.0
    seed: int = 0

    smooth = True

    def __post_init__(self) -> None:
        _checks.number("learning_rate", self.learning_rate, above=0)
        _checks.count("local_steps", self.local_steps)
        if self.batch is not None:
            _checks.count("batch", self.batch)
        _checks.number("share", self.share, above=0, most=1)
        _checks.count("seed", self.seed, least=0)

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        if self.batch is not None:
            Minibatches(self.batch).check(problem)

    @abstractmethod
    def step(self, clients: "Clients", traffic: Traffic, state: S) -> S:
        """Return the state one round later."""

    @contextmanager
    def running(self, problem: BaseProblem, traffic: Traffic, state: S) -> Iterator[Advance[S]]:
        clients = Clients(self, problem)
        yield lambda state, due: self.step(clients, traffic, state)


class Clients:
    """The clients, stacked: which of them take part in a round, and the results of their local steps."""

    def __init__(self, system: Federated[S], problem: BaseProblem) -> None:
        self.system, self.problem = system, problem
        self.rule = None if system.batch is None else Minibatches(system.batch, system.seed)
        sizes = problem.shards.weights.sum(axis=1, dtype=float) if hasattr(problem, "shards") else np.ones(problem.agents)
        self.weights = sizes / sizes.sum()  #: n_i / n, a client's share of the samples' weight; 1/A where costs are functions

    def chosen(self, round: int) -> np.ndarray:
        """Return the numbers of the clients that take part in ``round``, in order."""
        agents = self.problem.agents
        count = max(1, int(self.system.share * agents + 0.5))
        if count == agents:
            return np.arange(agents)
        rng = np.random.Generator(np.random.Philox(key=[self.system.seed, round]))
        return np.sort(rng.permutation(agents)[:count])

    def local(
        self,
        w: np.ndarray,
        who: np.ndarray,
        round: int,
        scale: np.ndarray,
        traffic: Traffic,
        correction: np.ndarray | float = 0.0,
    ) -> np.ndarray:
        """Return y (clients, P) after K local steps from w (1, P): ``y <- y - a (scale grad g_i(y) + grad r(y) + correction)``.

        The shapes are ``who`` and ``scale`` (clients,), ``correction`` (clients, P).
        """
        system, problem = self.system, self.problem
        if len(who) < problem.agents:
            problem = problem.restrict(who)
        before = problem.work.samples
        y, factor = np.repeat(w, len(who), axis=0), scale[:, None].astype(w.dtype)
        for step in range(system.local_steps):
            batch = draw(self.rule, problem, round * system.local_steps + step)
            gradient = factor * problem.gradient(y, batch) + problem.regularizer.gradient(y)
            y = y - system.learning_rate * (gradient + correction)
        traffic.work(system.local_steps, problem.work.samples - before)
        return y
