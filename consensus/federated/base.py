"""Base class of the federated systems: local steps of clients, and the draw of each round's participants."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from consensus import _checks
from consensus._arrays.streams import stream
from consensus.privacy.fixed_point import SecureSums
from consensus.privacy.keys import KEY
from consensus.privacy.masks import Masks
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.problems.samples import in_turn
from consensus.servers.system import Advance, S, System, Traffic


@dataclass(frozen=True)
class Federated(System[S]):
    """Base of :class:`FedAvg`, which documents the common settings, and of the other federated methods."""

    learning_rate: float
    local_steps: int | Sequence[int] = 5
    batch: int | None = None
    share: float = 1.0
    seed: int = 0
    secure: SecureSums | None = field(default=None, kw_only=True)

    smooth = True

    def __post_init__(self) -> None:
        _checks.number("learning_rate", self.learning_rate, above=0)
        if isinstance(self.local_steps, Sequence) and not isinstance(self.local_steps, str):
            steps = tuple(_checks.count(f"local_steps[{k}]", count) for k, count in enumerate(self.local_steps))
            object.__setattr__(self, "local_steps", steps)
        else:
            _checks.count("local_steps", self.local_steps)
        if self.batch is not None:
            _checks.count("batch", self.batch)
        _checks.number("share", self.share, above=0, most=1)
        _checks.count("seed", self.seed, least=0)
        if self.secure is not None:
            _checks.offers("secure", self.secure, ("encode", "decode"), "consensus.privacy.SecureSums(), or None")
            if self.share < 1:
                raise ValueError(
                    f"secure sums need all clients in every round, as sums over others in each can be subtracted until single "
                    f"clients are left; got share={self.share:g}: give share=1.0, or secure=None"
                )

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        if not isinstance(self.local_steps, int) and len(self.local_steps) != problem.agents:
            raise ValueError(
                f"local_steps must be one count, or one for each of the {problem.agents} clients; got {self.local_steps}"
            )
        if self.batch is not None:
            Minibatches(self.batch).check(problem)
        if self.secure is not None and problem.agents < 2:
            raise ValueError("secure sums need two clients or more; the problem has one: give secure=None")

    def count(self, agents: int) -> int:
        """Return how many of so many clients take part in a round."""
        return max(1, int(self.share * _checks.count("agents", agents) + 0.5))

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
        sizes = problem.shards.weights.sum(axis=1, dtype=float) if problem.shards is not None else np.ones(problem.agents)
        self.weights = sizes / sizes.sum()  #: n_i / n, a client's share of the samples' weight; 1/A where costs are functions
        self.steps = np.broadcast_to(system.local_steps, problem.agents)  #: K of each client
        self._masks: Masks | None = None
        self._sums = 0

    def chosen(self, round: int) -> np.ndarray:
        """Return the numbers of the clients that take part in ``round``, in order."""
        agents = self.problem.agents
        count = self.system.count(agents)
        if count == agents:
            return np.arange(agents)
        rng = stream((self.system.seed, round))
        return np.sort(rng.permutation(agents)[:count])

    def total(self, rows: np.ndarray, who: np.ndarray, round: int, traffic: Traffic) -> np.ndarray:
        """Return the sum (1, P) of ``rows`` (clients, P), one from each of ``who``, that reach the server; they are counted.

        With secure sums, which are over all clients, these are masked, eight bytes a number, and the sum is exact in fixed
        point. Before the first one each client sends its public key to the server, which passes all of them on.
        """
        secure, (count, numbers) = self.system.secure, rows.shape
        if secure is None:
            traffic.send(count, numbers, count, exchanges=0)
            whole: np.ndarray = rows.sum(axis=0, keepdims=True)
            return whole
        if self._masks is None:
            agents = self.problem.agents
            self._masks = Masks(range(agents))
            self._masks.agree(self._masks.public)
            if round == 0:
                for keys in (1, agents):  # of each client to the server; of all to each
                    traffic.send(agents, keys * KEY // 8, agents, exchanges=0, itemsize=8)
        codes = secure.encode(rows, who, count) + self._masks.drawn(self._sums, numbers)
        self._sums += 1
        traffic.send(count, numbers, count, exchanges=0, itemsize=8)
        return secure.decode(codes.sum(axis=0)).astype(rows.dtype)[None]

    def local(
        self,
        w: np.ndarray,
        who: np.ndarray,
        round: int,
        scale: np.ndarray,
        traffic: Traffic,
        correction: np.ndarray | float = 0.0,
        pull: float = 0.0,
    ) -> np.ndarray:
        """Return y (clients, P) after K_i local steps from w (1, P).

            y <- y - a (scale grad g_i(y) + grad r(y) + correction + pull (y - w))

        The shapes are ``who`` and ``scale`` (clients,), ``correction`` (clients, P).
        """
        system, agents, steps = self.system, self.problem.agents, self.steps[who]
        y, factor = np.repeat(w, len(who), axis=0), scale[:, None].astype(w.dtype)
        correction = np.broadcast_to(np.asarray(correction, w.dtype), y.shape)
        most, done, samples = int(self.steps.max()), 0, 0

        def walk(taken: range, problem: BaseProblem, x: np.ndarray, c: np.ndarray, f: np.ndarray) -> np.ndarray:
            for step in taken:
                batch = draw(self.rule, problem, round * most + step)
                gradient = f * problem.gradient(x, batch) + problem.regularizer.gradient(x) + c
                x = x - system.learning_rate * (gradient + pull * (x - w) if pull else gradient)
            return x

        for until in np.unique(steps):  # clients with fewer steps wait for the others
            at_work = np.flatnonzero(steps >= until)
            problem = self.problem if len(at_work) == agents else self.problem.restrict(who[at_work])
            before, given = problem.work.samples, (y[at_work], correction[at_work], factor[at_work])
            y[at_work] = in_turn(partial(walk, range(done, until)), problem, self.rule, *given)
            done, samples = int(until), samples + problem.work.samples - before
        traffic.work(done, samples)
        return y
