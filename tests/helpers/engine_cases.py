"""Runs to be compared between engines: solvers, problems and networks by name."""

import functools
import itertools
from typing import NamedTuple

import networkx as nx
import numpy as np

import consensus
import topologies
from consensus.compression import Quantize, TopK
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
    TreeLBFGS,
    TreeNewton,
)
from consensus.step_sizes import Diminishing, InverseSqrt
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization
from tests.helpers.engine_models import trained
from tests.helpers.engine_solvers import Cheat, CtrlC, Faulty, HeavyBall, Mixed, Slow, Speed, Stops, Trouble, Turned, Watching  # noqa: F401
from tests.helpers.owner_cases import of_owners
from tests.helpers.problems import data

AGENTS = 7  # so that neither 2, 3 nor 4 workers have equal parts
SIZES = {"equal": [9, 9, 9, 9, 8, 8, 8], "unequal": [2, 20, 5, 11, 1, 14, 7]}
GRAPH = topologies.erdos_renyi(AGENTS, 0.5, seed=3)
PAIRS = nx.Graph({0: [], 1: [2], 3: [4], 5: [6]})  # all inside the blocks of 2 and of 4 ranks
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
    options: dict = OBSERVED

    def run(self, **more):
        return consensus.solve(self.problem, self.network, self.solver, **{**self.options, **more})


def problem(loss="squared", regularizer=None, model=MLP, sizes="unequal", dtype=float, samples=60):
    X, y = data(samples=samples)
    losses = {"squared": (consensus.SquaredLoss(), y), "logistic": (consensus.LogisticLoss(), (y > 0.2).astype(float))}
    loss, targets = losses[loss]
    shards = consensus.partition(X.astype(dtype), targets, AGENTS, "sizes", sizes=SIZES[sizes])
    return consensus.Problem(model, loss, shards, regularizer)


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
        p = problem(loss, regularizer, model, sizes)
        cases[f"{name}, {network}, {sizes}"] = Case(p, NETWORKS[network], solver, options)
    return cases


def compared():
    """What every engine runs: each method on each network, with equal and unequal shards in turn, and the special cases."""
    turn = {name for k, name in enumerate(grid()) if (k // 6 + k // 2 % 3 + k) % 2}
    return {name: case for name, case in grid().items() if name in turn} | special()


class Runs(dict):
    """What cases give that run to their end in one process, each once it is asked for."""

    def __init__(self, cases, **options):
        super().__init__()
        self.cases, self.options = cases, options

    def __missing__(self, name):
        return self.setdefault(name, self.cases[name].run(**self.options))


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
    static, random, periodic = NETWORKS.values()
    smooth = problem("squared", consensus.L2(0.1), consensus.Linear(4), "equal")
    wide = problem("logistic", consensus.L2(0.05), consensus.MLP([4, 17, 9, 1]), samples=60)
    complete = topologies.Static(topologies.complete(AGENTS))
    half = PartialLinearization(0.5)
    partial = NEXT(half, Diminishing(0.5, 0.01))
    circle = nx.DiGraph([(k, (k + 1) % AGENTS) for k in range(AGENTS)] + [(0, 3), (5, 2), (6, 1)])
    directed = topologies.Static(circle, weights=topologies.push)
    failing = topologies.LinkFailure(directed, 0.3, seed=2, symmetric=False)
    tested = OBSERVED | {"test": data()}
    return {name: Case(p, static, solver, tested) for name, (p, solver) in of_owners(GRAPH, smooth, single).items()} | {
        "functions, tracking": Case(functions, random, GradientTracking(0.02)),
        "functions, DGD": Case(functions, static, DGD(0.02)),
        "functions, a nested state": Case(functions, random, HeavyBall()),
        "functions, NEXT": Case(sparse, periodic, NEXT(FullLinearization(8.0), 0.5)),
        "functions, adaptive": Case(sparse, periodic, AdaptiveNEXT()),
        **{
            name: Case(p, random, solver, OBSERVED | more)
            for name, (p, solver, more) in trained(AGENTS, SIZES["unequal"]).items()
        },
        "memory order, atc": Case(smooth, random, Turned(0.05, order="atc")),
        "memory order, cta": Case(smooth, random, Turned(0.05, order="cta")),
        "float32, NEXT": Case(single, random, partial),
        "float32, NEXT, double rule": Case(single, static, NEXT(FullLinearization(4.0), _numpy_rule)),
        "float32, adaptive": Case(single, random, AdaptiveNEXT()),
        "float32, tracking, double rule": Case(single, static, GradientTracking(_numpy_rule)),
        "rounds without edges": Case(problem("squared", consensus.L2(0.02)), alone, GradientTracking(0.05)),
        "edges are rare": Case(problem("squared", consensus.L2(0.02)), rare, partial),
        "a start for each agent": Case(
            smooth, static, DGD(0.05), OBSERVED | {"start": rng.standard_normal((AGENTS, 5)), "rounds": 5}
        ),
        "no rounds": Case(smooth, static, DGD(0.05), {"rounds": 0}),
        "a larger network to train": Case(wide, random, partial, OBSERVED | {"rounds": 4}),
        "directed, SONATA": Case(single, failing, SONATA(PartialLinearization(0.5), Diminishing(0.5, 0.01))),
        "directed, adaptive": Case(problem("logistic", consensus.L1(0.01)), failing, AdaptiveNEXT()),
        "long, adaptive": Case(smooth, topologies.Static(topologies.path(AGENTS)), AdaptiveNEXT()),
        "directed, Push-DIGing": Case(smooth, failing, PushDIGing(0.02)),
        "directed, push-pull": Case(smooth, directed, PushPull(0.02)),
        "matchings, gossip": Case(smooth, topologies.Matchings(AGENTS, seed=1), Gossip(GradientTracking(0.05), 3)),
        "accelerated gossip": Case(smooth, static, Gossip(partial, 3, topologies.spectral_gap(static.weights(0)))),
        "CS+, signs": Case(wide, random, Attack(CSPlus(DGD(0.05), 0.1), [2, 5], SignFlip())),
        "NNA, a little": Case(single, static, Attack(NNA(GradientTracking(0.05), 0.15), [6], ALIE())),
        "ClippedGossip, inner product": Case(smooth, periodic, Attack(ClippedGossip(partial, 0.1), [0], IPM())),
        "dissensus, several exchanges": Case(
            smooth, static, Attack(CSPlus(Gossip(GradientTracking(0.05), 2), 0.07), [1, 4], Dissensus(1.5))
        ),
        "CS+ of nearest neighbours": Case(single, static, Attack(CSPlus(partial, 0.07, NNM()), [2, 5], ALIE())),
        "NNA, buckets": Case(smooth, complete, Attack(NNA(GradientTracking(0.05), 1 / 7, Bucketing(2)), [6], SignFlip())),
        "attack among packed rows": Case(wide, random, Attack(Mixed(0.05), [3], Dissensus())),
        "batches, DGD": Case(problem("logistic", consensus.L2(0.02)), static, DGD(0.05, batch=3)),
        "batches, tracking": Case(single, random, GradientTracking(0.05, batch=consensus.Minibatches(4, seed=1))),
        "batches, cta, replacement": Case(
            smooth, static, GradientTracking(0.03, "cta", consensus.Minibatches(4, 1, replacement=True))
        ),
        "batches, NEXT": Case(problem("logistic", consensus.L1(0.01)), random, NEXT(PartialLinearization(0.5), 0.3, batch=3)),
        "batches, SONATA": Case(single, failing, SONATA(half, _numpy_rule, batch=3, averaging=_numpy_rule)),
        "directed, SGP": Case(single, failing, SGP(_numpy_rule, 3)),
        "DATOS, changing": Case(smooth, random, DATOS()),
        "packed rows": Case(wide, random, Mixed(0.05)),
        "packed rows, float32": Case(single, periodic, Mixed(0.05)),
        "compressed NEXT": Case(single, static, Compressed(partial, TopK(0.3))),
        "compressed SONATA": Case(smooth, directed, Compressed(SONATA(FullLinearization(4.0), 0.1), Quantize(6), gamma=0.5)),
        "PowerGossip, tracking": Case(wide, static, PowerGossip(GradientTracking(0.02, "cta"), rank=2)),
        "TreeLBFGS": Case(problem("logistic", consensus.L2(0.02)), static, TreeLBFGS(memory=3)),
        "TreeLBFGS, float64 messages": Case(wide, static, TreeLBFGS(rounded=False)),
        "TreeNewton": Case(problem("logistic", consensus.L2(0.02)), static, TreeNewton(columns=4)),
        "tolerance": Case(smooth, static, GradientTracking(0.05), {"rounds": 400, "record_every": 7, "tolerance": 1e-3}),
        "spaced rows": Case(problem(), random, GradientTracking(0.05, batch=8), {"rounds": 90, "test": _test_set("squared")}),
    }


# Static, changing and directed graphs, sums over a tree, messages to neighbours alone, packed rows and minibatches.
FEW = ("NEXT partial logistic L1, random, unequal", "directed, push-pull", "TreeLBFGS", "TreeNewton", "compressed SONATA")
FEW += ("PowerGossip, tracking", "packed rows, float32", "batches, tracking", "directed, adaptive")
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
    spaced = special()["spaced rows"]
    return {name: case._replace(options=case.options | options) for name, case in chosen.items()} | {"spaced rows": spaced}


def watched():
    """Runs with metrics, for callbacks: one recorded at every third round and saved at every second, and one on float32."""
    options = OBSERVED | {"rounds": 13, "every": 2, "metrics": {"norm": np.linalg.norm, "first": lambda mean: mean[0]}}
    names = ("functions, tracking", "float32, adaptive")
    return {name: special()[name]._replace(options=options) for name in names}


def cheating():
    return Case(problem("squared", consensus.L2(0.02)), Cheat(topologies.ring(AGENTS)), DGD(0.05), {"rounds": 4})


def slow(pause=0.0, record_every=5, every=7, rounds=500):
    """A run of about ``pause * rounds`` seconds at least, on a network that differs from round to round."""
    p = problem("squared", consensus.L2(0.02), consensus.Linear(4))
    options = {"rounds": rounds, "record_every": record_every, "every": every}
    return Case(p, NETWORKS["random"], Slow(0.01, pause=pause), options)
