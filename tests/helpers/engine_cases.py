"""Runs to be compared between engines: solvers, problems and networks by name."""

import functools
import itertools
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import NamedTuple

import networkx as nx
import numpy as np
from pictures import Pictures
from problems import data

import consensus
import topologies
from consensus.compression import Quantised, Quantize, Sparse, TopK
from consensus.robust import ALIE, IPM, NNA, NNM, Attack, Bucketing, ClippedGossip, CSPlus, Dissensus, SignFlip
from consensus.solvers import (
    DATOS,
    DGD,
    NEXT,
    SGP,
    SONATA,
    AdaptiveNEXT,
    Compressed,
    Gossip,
    GradientTracking,
    PowerGossip,
    PushDIGing,
    PushPull,
    Solver,
    TreeLBFGS,
    TreeNewton,
)
from consensus.step_sizes import Diminishing, InverseSqrt
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization

AGENTS = 7  # so that neither 2, 3 nor 4 workers have equal parts
SIZES = {"equal": [9, 9, 9, 9, 8, 8, 8], "unequal": [2, 20, 5, 11, 1, 14, 7]}
GRAPH = topologies.erdos_renyi(AGENTS, 0.5, seed=3)
PAIRS = nx.Graph([(1, 2), (3, 4), (5, 6)])  # all inside the blocks of 2 and of 4 ranks
PAIRS.add_node(0)
NETWORKS = {
    "static": topologies.Static(GRAPH),
    "random": topologies.RandomEdges(GRAPH, 0.4, seed=1),
    "periodic": topologies.Periodic([topologies.path(AGENTS), topologies.star(AGENTS), PAIRS]),
}
TREES = {"static": NETWORKS["static"], "path": topologies.Static(topologies.path(AGENTS))}
TREE_SOLVERS = [TreeLBFGS(), TreeLBFGS(rounded=False), TreeNewton(columns=3)]
MLP = consensus.MLP([4, 3, 1])
OBSERVED = {"rounds": 7, "record_every": 3, "agent_objectives": True}  # a last row off the grid


class Case(NamedTuple):
    """The arguments of a run."""

    problem: object
    network: object
    solver: object
    options: dict

    def run(self, **more):
        return consensus.solve(self.problem, self.network, self.solver, **{**self.options, **more})


def problem(loss="squared", regularizer=None, model=MLP, sizes="unequal", dtype=float, samples=60):
    X, y = data(samples=samples)
    losses = {"squared": (consensus.SquaredLoss(), y), "logistic": (consensus.LogisticLoss(), (y > 0.2).astype(float))}
    loss, targets = losses[loss]
    shards = consensus.partition(X.astype(dtype), targets, AGENTS, "sizes", sizes=SIZES[sizes])
    return consensus.Problem(model, loss, shards, regularizer)


def images():
    """Minibatches of samples of two axes, with a test set of them."""
    X, y = data(samples=60)
    shards = consensus.partition(X.reshape(-1, 2, 2), y, AGENTS, "sizes", sizes=SIZES["unequal"])
    p = consensus.Problem(Pictures(MLP, (2, 2)), consensus.SquaredLoss(), shards, consensus.L2(0.02))
    return Case(p, NETWORKS["random"], GradientTracking(0.05, batch=3), OBSERVED | {"test": (X.reshape(-1, 2, 2), y)})


def _test_set(loss):
    X, y = data(samples=13, seed=1)
    return X, (y > 0.2).astype(float) if loss == "logistic" else y


METHODS = {
    "NEXT partial squared L2": ("squared", consensus.L2(0.02), MLP, NEXT(PartialLinearization(0.5), Diminishing(0.5, 0.01))),
    "NEXT partial logistic L1": ("logistic", consensus.L1(0.01), consensus.Linear(4), NEXT(PartialLinearization(0.2), 0.5)),
    "NEXT blocks": ("squared", consensus.L2(0.02), MLP, NEXT(Blocks(PartialLinearization(0.5), 3), Diminishing(0.5, 0.01))),
    "NEXT full L1": ("squared", consensus.L1(0.02), MLP, NEXT(FullLinearization(4.0), 0.5)),
    "tracking atc": ("squared", consensus.L2(0.02), MLP, GradientTracking(0.05, order="atc")),
    "tracking cta": ("squared", consensus.L2(0.02), MLP, GradientTracking(0.05, order="cta")),
    "DGD": ("squared", consensus.L2(0.02), MLP, DGD(InverseSqrt(0.1))),
    "adaptive": ("squared", consensus.L2(0.02), MLP, AdaptiveNEXT()),
}


@functools.cache
def grid():
    """Every method on every network, with equal and unequal shards."""
    cases = {}
    for (name, method), network, sizes in itertools.product(METHODS.items(), NETWORKS, SIZES):
        loss, regularizer, model, solver = method
        options = OBSERVED | {"test": _test_set(loss)}
        cases[f"{name}, {network}, {sizes}"] = Case(
            problem(loss, regularizer, model, sizes), NETWORKS[network], solver, options
        )
    return cases


def compared():
    """What every engine runs: each method on each network, with equal and unequal shards in turn, and the special cases."""
    turn = {name for k, name in enumerate(grid()) if (k // 6 + k // 2 % 3 + k) % 2}
    return {name: case for name, case in grid().items() if name in turn} | special()


def part(cases, many):
    """The names that so many ranks or workers run: all of them on three, a third each on one, two and four."""
    return list(cases) if many == 3 else list(cases)[many // 2 :: 3]


def _numpy_rule(round):
    return 0.3 / np.sqrt(round + 1)  # a NumPy double, which turns float32 arrays into float64


@functools.cache
def special():
    """What engines may stumble over, one at a time."""
    rng = np.random.default_rng(2)
    root = rng.standard_normal((5, 5)) / 5
    matrix, centres = root @ root.T, rng.standard_normal((AGENTS, 5))
    functions = consensus.Problem.from_functions(
        lambda w: np.einsum("ap,pq,aq->a", w - centres, matrix, w - centres) / 2,
        lambda w: (matrix @ (w - centres).T).T,  # in the memory order of Fortran
        agents=AGENTS,
        parameters=5,
        regularizer=consensus.L2(0.1),
    )
    sparse = consensus.Problem.from_functions(
        lambda w: np.square(w - centres).sum(axis=1) / 2,
        lambda w: w - centres,
        agents=AGENTS,
        parameters=5,
        regularizer=consensus.L1(0.5),
    )
    single = problem("squared", consensus.L2(0.02), dtype=np.float32)
    alone = topologies.Periodic([nx.empty_graph(AGENTS), PAIRS, topologies.ring(AGENTS)])
    rare = topologies.RandomEdges(GRAPH, 0.05, seed=4)
    static, smooth = NETWORKS["static"], problem("squared", consensus.L2(0.1), consensus.Linear(4), "equal")
    wide = problem("logistic", consensus.L2(0.05), consensus.MLP([4, 17, 9, 1]), samples=60)
    partial = NEXT(PartialLinearization(0.5), Diminishing(0.5, 0.01))
    circle = nx.DiGraph([(k, (k + 1) % AGENTS) for k in range(AGENTS)] + [(0, 3), (5, 2), (6, 1)])
    directed = topologies.Static(circle, weights=topologies.push)
    failing = topologies.LinkFailure(directed, 0.3, seed=2, symmetric=False)
    return {
        "functions, tracking": Case(functions, NETWORKS["random"], GradientTracking(0.02), OBSERVED),
        "functions, DGD": Case(functions, static, DGD(0.02), OBSERVED),
        "functions, a nested state": Case(functions, NETWORKS["random"], HeavyBall(), OBSERVED),
        "functions, NEXT": Case(sparse, NETWORKS["periodic"], NEXT(FullLinearization(8.0), 0.5), OBSERVED),
        "functions, adaptive": Case(sparse, NETWORKS["periodic"], AdaptiveNEXT(), OBSERVED),
        "images": images(),
        "memory order, atc": Case(smooth, NETWORKS["random"], Turned(0.05, order="atc"), OBSERVED),
        "memory order, cta": Case(smooth, NETWORKS["random"], Turned(0.05, order="cta"), OBSERVED),
        "float32, NEXT": Case(single, NETWORKS["random"], partial, OBSERVED),
        "float32, NEXT, double rule": Case(single, static, NEXT(FullLinearization(4.0), _numpy_rule), OBSERVED),
        "float32, adaptive": Case(single, NETWORKS["random"], AdaptiveNEXT(), OBSERVED),
        "float32, tracking, double rule": Case(single, static, GradientTracking(_numpy_rule), OBSERVED),
        "rounds without edges": Case(problem("squared", consensus.L2(0.02)), alone, GradientTracking(0.05), OBSERVED),
        "edges are rare": Case(problem("squared", consensus.L2(0.02)), rare, partial, OBSERVED),
        "a start for each agent": Case(
            smooth, static, DGD(0.05), OBSERVED | {"start": rng.standard_normal((AGENTS, 5)), "rounds": 5}
        ),
        "no rounds": Case(smooth, static, DGD(0.05), {"rounds": 0}),
        "a larger network to train": Case(wide, NETWORKS["random"], partial, OBSERVED | {"rounds": 4}),
        "directed, SONATA": Case(single, failing, SONATA(PartialLinearization(0.5), Diminishing(0.5, 0.01)), OBSERVED),
        "directed, adaptive": Case(problem("logistic", consensus.L1(0.01)), failing, AdaptiveNEXT(), OBSERVED),
        "long, adaptive": Case(smooth, topologies.Static(topologies.path(AGENTS)), AdaptiveNEXT(), OBSERVED),
        "directed, Push-DIGing": Case(smooth, failing, PushDIGing(0.02), OBSERVED),
        "directed, push-pull": Case(smooth, directed, PushPull(0.02), OBSERVED),
        "matchings, gossip": Case(smooth, topologies.Matchings(AGENTS, seed=1), Gossip(GradientTracking(0.05), 3), OBSERVED),
        "accelerated gossip": Case(smooth, static, Gossip(partial, 3, topologies.spectral_gap(static.weights(0))), OBSERVED),
        "CS+, signs": Case(wide, NETWORKS["random"], Attack(CSPlus(DGD(0.05), 0.1), [2, 5], SignFlip()), OBSERVED),
        "NNA, a little": Case(single, static, Attack(NNA(GradientTracking(0.05), 0.15), [6], ALIE()), OBSERVED),
        "ClippedGossip, inner product": Case(
            smooth, NETWORKS["periodic"], Attack(ClippedGossip(partial, 0.1), [0], IPM()), OBSERVED
        ),
        "dissensus, several exchanges": Case(
            smooth, static, Attack(CSPlus(Gossip(GradientTracking(0.05), 2), 0.07), [1, 4], Dissensus(1.5)), OBSERVED
        ),
        "CS+ of nearest neighbours": Case(single, static, Attack(CSPlus(partial, 0.07, NNM()), [2, 5], ALIE()), OBSERVED),
        "NNA, buckets": Case(
            smooth,
            topologies.Static(topologies.complete(AGENTS)),
            Attack(NNA(GradientTracking(0.05), 1 / 7, Bucketing(2)), [6], SignFlip()),
            OBSERVED,
        ),
        "attack among packed rows": Case(wide, NETWORKS["random"], Attack(Mixed(0.05), [3], Dissensus()), OBSERVED),
        "batches, DGD": Case(problem("logistic", consensus.L2(0.02)), static, DGD(0.05, batch=3), OBSERVED),
        "batches, tracking": Case(
            single, NETWORKS["random"], GradientTracking(0.05, batch=consensus.Minibatches(4, seed=1)), OBSERVED
        ),
        "batches, cta, replacement": Case(
            smooth, static, GradientTracking(0.03, "cta", consensus.Minibatches(4, 1, replacement=True)), OBSERVED
        ),
        "batches, NEXT": Case(
            problem("logistic", consensus.L1(0.01)), NETWORKS["random"], NEXT(PartialLinearization(0.5), 0.3, batch=3), OBSERVED
        ),
        "batches, SONATA": Case(
            single, failing, SONATA(PartialLinearization(0.5), _numpy_rule, batch=3, averaging=_numpy_rule), OBSERVED
        ),
        "directed, SGP": Case(single, failing, SGP(_numpy_rule, 3), OBSERVED),
        "DATOS, changing": Case(smooth, NETWORKS["random"], DATOS(), OBSERVED),
        "packed rows": Case(wide, NETWORKS["random"], Mixed(0.05), OBSERVED),
        "packed rows, float32": Case(single, NETWORKS["periodic"], Mixed(0.05), OBSERVED),
        "compressed NEXT": Case(single, static, Compressed(partial, TopK(0.3)), OBSERVED),
        "compressed SONATA": Case(
            smooth, directed, Compressed(SONATA(FullLinearization(4.0), 0.1), Quantize(6), gamma=0.5), OBSERVED
        ),
        "PowerGossip, tracking": Case(wide, static, PowerGossip(GradientTracking(0.02, "cta"), rank=2), OBSERVED),
        "TreeLBFGS": Case(problem("logistic", consensus.L2(0.02)), static, TreeLBFGS(memory=3), OBSERVED),
        "TreeLBFGS, float64 messages": Case(wide, static, TreeLBFGS(rounded=False), OBSERVED),
        "TreeNewton": Case(problem("logistic", consensus.L2(0.02)), static, TreeNewton(columns=4), OBSERVED),
        "tolerance": Case(smooth, static, GradientTracking(0.05), {"rounds": 400, "record_every": 7, "tolerance": 1e-3}),
    }


UNTIL = 8  # rounds done before the checkpoint of which the runs below are resumed


def saved():
    """Runs to stop and resume, most of them on networks that differ from round to round."""
    names = ("functions, tracking", "functions, NEXT", "directed, SONATA", "functions, adaptive", "directed, adaptive")
    names += ("long, adaptive", "functions, a nested state", "batches, tracking", "batches, SONATA", "directed, SGP")
    names += ("DATOS, changing", "TreeLBFGS", "TreeNewton", "compressed NEXT", "PowerGossip, tracking")
    chosen = {name: special()[name] for name in names}
    names = ("NEXT partial logistic L1", "NEXT blocks", "DGD", "adaptive")
    chosen |= {name: grid()[f"{name}, random, unequal"] for name in names}
    # Neither is a multiple of the other, nor ``UNTIL`` or the number of rounds of either.
    options = {"rounds": 13, "record_every": 3, "every": 5}
    return {name: case._replace(options=case.options | options) for name, case in chosen.items()}


class Watching:
    """A callback that keeps what it sees, and stops the run at round ``until``."""

    def __init__(self, until=None):
        self.until, self.seen = until, []

    def __call__(self, seen):
        row = {name: np.asarray(value).tolist() for name, value in seen.row.items() if name != "seconds"}
        self.seen.append((seen.round, seen.w.tolist(), seen.mean.tolist(), row, seen.history.rows))
        return None if seen.round != self.until else f"enough seen at round {seen.round}"


def watched():
    """Runs with metrics, for callbacks: one recorded at every third round and saved at every second, and one on float32."""
    options = OBSERVED | {"rounds": 13, "every": 2, "metrics": {"norm": np.linalg.norm, "first": lambda mean: mean[0]}}
    names = ("functions, tracking", "float32, adaptive")
    return {name: special()[name]._replace(options=options) for name in names}


class Cheat(topologies.Static):
    """In round 2 agents 1 and 5, no neighbours, exchange their rows nevertheless."""

    def key(self, round):
        return int(round == 2)

    def weights(self, key):
        matrix = self._matrix.tolil()
        if key:
            for agent, other in ((1, 5), (5, 1)):
                matrix[agent, agent] -= 0.125
                matrix[agent, other] += 0.125
        return matrix.tocsr()


def cheating():
    network = Cheat(topologies.ring(AGENTS))
    return Case(problem("squared", consensus.L2(0.02)), network, DGD(0.05), {"rounds": 4})


@dataclass(frozen=True)
class Turned(GradientTracking):
    """Sends arrays in the memory order of Fortran, alone and two at once."""

    def step(self, problem, network, state):
        turned = state._replace(w=np.asfortranarray(state.w), y=np.asfortranarray(state.y))
        return super().step(problem, network, turned)


class Speed(NamedTuple):
    """How fast the agents are, and what is left of it after a round."""

    velocity: np.ndarray
    kept: float


class Memory(NamedTuple):
    """What the agents of :class:`HeavyBall` remember: a state in a state in a state."""

    speed: Speed
    steps: np.ndarray


class HeavyBallState(NamedTuple):
    """The state of :class:`HeavyBall`."""

    round: int
    w: np.ndarray
    memory: Memory


class HeavyBall(Solver):
    """A user's solver with nested states: decentralised gradient descent with momentum, less and less of it."""

    def init(self, problem, w):
        return HeavyBallState(0, w, Memory(Speed(0 * w, 0.9), np.zeros(len(w), int)))

    def step(self, problem, network, state):
        (velocity, kept), steps = state.memory
        velocity = kept * velocity - 0.02 * problem.gradient(state.w)
        (w,) = network.mix(state.round, state.w + velocity)
        return HeavyBallState(state.round + 1, w, Memory(Speed(velocity, 0.95 * kept), steps + problem.rows))


@dataclass(frozen=True)
class Mixed(DGD):
    """Sends its iterate in packed rows of two kinds, of unequal sizes, between arrays."""

    def step(self, problem, network, state):
        n, w = state
        k = 1 + problem.rows % 3
        sparse = Sparse.largest(w, 3)
        order = np.argsort(np.argsort(-np.abs(sparse.values), axis=1, kind="stable"), axis=1)
        few = Sparse(sparse.values, np.where(order < k[:, None], sparse.indices, -1).astype(np.int32), sparse.columns)
        a, b, c, d = network.mix(n, w[:, :2], few, Quantised.nearest(w, 5), w)
        mixed = 0.5 * d + 0.3 * c + 0.2 * b
        mixed[:, :2] += 0.1 * (a - mixed[:, :2])
        mixed -= self.step_size * problem.average_gradient(w)
        return state._replace(round=n + 1, w=mixed.astype(w.dtype))


@dataclass(frozen=True)
class CtrlC(GradientTracking):
    """As the user presses ctrl-C in round ``at``; after a pause, for others to go on meanwhile."""

    at: int = field(default=-1, repr=False, compare=False)

    def step(self, problem, network, state):
        if state.round == self.at and 0 in problem.rows:
            time.sleep(0.2)
            raise KeyboardInterrupt
        return super().step(problem, network, state)


class Trouble(Exception):
    """An exception whose constructor takes other things than its message."""

    def __init__(self, agent, round):
        super().__init__(f"agent {agent} gives up after round {round}")
        self.agent, self.round = agent, round


class Faulty(DGD):
    """In its fourth round agent 5 raises an exception."""

    def step(self, problem, network, state):
        if state.round == 3 and 5 in problem.rows:
            raise Trouble(5, state.round)
        return super().step(problem, network, state)


@dataclass(frozen=True)
class Slow(GradientTracking):
    """Takes its time over every round, that a run can be hit in the middle; without ``pause`` it does the same at once."""

    pause: float = field(default=0.0, repr=False, compare=False)

    def step(self, problem, network, state):
        if self.pause:
            time.sleep(self.pause)
        return super().step(problem, network, state)


@dataclass(frozen=True)
class Stops(GradientTracking):
    """In round ``at`` the process with agent ``of`` is stopped, as by ctrl-Z; it goes on after ``seconds``, if any."""

    at: int = field(default=-1, repr=False, compare=False)
    of: int = field(default=-1, repr=False)
    seconds: float = field(default=0.0, repr=False)

    def step(self, problem, network, state):
        if state.round == self.at and self.of in problem.rows:
            if self.seconds:
                subprocess.Popen(["/bin/sh", "-c", f"sleep {self.seconds}; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().step(problem, network, state)


def slow(pause=0.0, record_every=5, every=7, rounds=500):
    """A run of about ``pause * rounds`` seconds at least, on a network that differs from round to round."""
    p = problem("squared", consensus.L2(0.02), consensus.Linear(4))
    return Case(
        p, NETWORKS["random"], Slow(0.01, pause=pause), {"rounds": rounds, "record_every": record_every, "every": every}
    )
