"""Auto: which method runs where, that it is that method's run, and where it says so."""

import logging
import re

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import consensus
import topologies
from consensus.engines import Processes
from consensus.engines.base import WholeNetwork
from consensus.solvers import EXTRA, NIDS, OPAPC, AdaptiveNEXT, Auto, Gossip
from consensus.solvers.auto import _unlikeness
from consensus.testing.threads import Threads
from tests.helpers.turns import with_slow

AGENTS = 16
RNG = np.random.default_rng(0)
X = RNG.standard_normal((AGENTS * 12, 4))
Y = X @ np.arange(4.0) + 0.3 * RNG.standard_normal(len(X))
RING, STAR = topologies.ring(AGENTS), topologies.star(AGENTS)
CIRCLE = nx.cycle_graph(AGENTS, create_using=nx.DiGraph)


def problem(regularizer=None, model=None, loss=None, scale=1.0, scheme="sorted", agents=AGENTS, offset=0.0):
    targets = Y + offset if loss is None else (Y > 0).astype(float)
    shards = consensus.partition(X * np.r_[scale, 1, 1, 1], targets, agents, scheme)
    return consensus.Problem(
        model or consensus.Linear(4), loss or consensus.SquaredLoss(), shards, regularizer or consensus.L2(0.1)
    )


def functions(**known):
    c = RNG.standard_normal((AGENTS, 3))
    return consensus.Problem.from_functions(
        lambda w, rows: np.square(w - c[rows]).sum(axis=1),
        lambda w, rows: 2 * (w - c[rows]),
        agents=AGENTS,
        parameters=3,
        **known,
    )


def swaps(graph):
    """Half of each neighbour's value on a ring of an even number of agents, nothing of the own: its spectral gap is 0."""
    return sparse.csr_array(nx.to_scipy_sparse_array(graph) / 2)


LOGISTIC = consensus.LogisticLoss()
ROWS = {
    "near": (problem(), STAR, AdaptiveNEXT, "exchanges across the network: 2 <= 5"),
    "changing": (problem(), topologies.RandomEdges(RING, 0.5, seed=0), AdaptiveNEXT, "the network may change or lose messages"),
    "directed": (problem(), CIRCLE, AdaptiveNEXT, "the mixing matrix is not symmetric and doubly stochastic"),
    "not convex": (problem(model=consensus.MLP([4, 3, 1])), RING, AdaptiveNEXT, "the costs are not known to be convex, or"),
    "SCAD": (problem(consensus.regularizers.SCAD(0.1)), RING, AdaptiveNEXT, "the regularizer is not convex"),
    "functions": (functions(lipschitz=2.0), RING, AdaptiveNEXT, "the costs are not known to be convex, or"),
    "no modulus": (problem(consensus.L2(0.0), loss=LOGISTIC), RING, AdaptiveNEXT, r"L/mu = inf > 2.07e\+03 = 3 chi\^2"),
    "scales": (problem(scale=1e3), RING, AdaptiveNEXT, r"L/mu = [0-9.e+]+ > 2.07e\+03 = 3 chi\^2"),
    "weak": (
        problem(consensus.L2(1e-7), loss=LOGISTIC, agents=24),
        topologies.path(24),
        NIDS,
        r"convex, 23 exchanges across, L/mu = 1.04e\+07 > 100000",
    ),
    "swapped": (
        problem(),
        topologies.Static(RING, weights=swaps),
        AdaptiveNEXT,
        "the graph is not connected, or agents only swap values",
    ),
    "smooth": (
        problem(consensus.L2(0.01), loss=LOGISTIC),
        RING,
        OPAPC,
        r"convex, 8 exchanges across, L/mu = [0-9.]+ > 78\.8 = 3 chi",
    ),
    "alike": (problem(scheme="iid"), RING, AdaptiveNEXT, r"agents' gradients differ little: z = 0\.[0-9]+ <= 0\.7"),
    "alike, wide": (problem(agents=32, offset=20), topologies.path(32), NIDS, r"convex, 31 exchanges across, L/mu = "),
    "well conditioned": (problem(), RING, NIDS, r"convex, 8 exchanges across, L/mu = [0-9.]+ <= 78\.8 = 3 chi"),
    "nonsmooth": (
        problem(consensus.L1(0.05)),
        topologies.path(AGENTS),
        NIDS,
        r"convex, 15 exchanges across, L/mu = [0-9.e+]+, nonsmooth regularizer",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_each_row_of_the_table(name, caplog):
    p, network, kind, why = ROWS[name]
    caplog.set_level(logging.INFO, "consensus")
    result = consensus.solve(p, network, rounds=12, record_every=3)
    assert type(result.solver) is Auto
    assert type(result.solver.solver) is kind
    assert re.match(why, result.solver.why)
    assert repr(result.solver) == f"Auto({result.solver.solver!r}, why={result.solver.why!r})"
    lines = [record.getMessage() for record in caplog.records if "no solver given" in record.getMessage()]
    assert lines == [f"no solver given: {kind.__name__}, because {result.solver.why}"]
    named = consensus.solve(p, network, kind(), rounds=12, record_every=3)
    np.testing.assert_array_equal(result.w, named.w)
    assert list(result.history) == list(named.history)
    for column in set(result.history) - {"seconds"}:
        np.testing.assert_array_equal(result.history[column], named.history[column])


@pytest.mark.parametrize("name", with_slow(["near", "smooth", "nonsmooth"], "near"))
def test_the_same_bits_on_other_engines_and_when_resumed(name, tmp_path, forked):
    p, network, *_ = ROWS[name]
    whole = consensus.solve(p, network, rounds=12)
    for engine in (Processes(2), Threads(3)):
        np.testing.assert_array_equal(consensus.solve(p, network, rounds=12, engine=engine).w, whole.w)
    file = tmp_path / "run"
    consensus.solve(p, network, rounds=5, checkpoint=file)
    np.testing.assert_array_equal(consensus.solve(p, network, rounds=12, resume=file).w, whole.w)


def test_a_checkpoint_names_what_was_chosen(tmp_path):
    file = tmp_path / "run"
    consensus.solve(ROWS["smooth"][0], RING, rounds=3, checkpoint=file)
    with pytest.raises(ValueError, match=r"solver: Auto\(OPAPC\(.* there, Auto\(NIDS\(.* here"):
        consensus.solve(ROWS["well conditioned"][0], RING, rounds=6, resume=file)


def test_it_chooses_once_and_goes_into_no_wrapper():
    p, schedule = problem(), topologies.Static(STAR)
    ready = Auto().prepared(p, schedule)
    assert ready.prepared(p, schedule) == ready
    with pytest.raises(TypeError, match="solver is not known yet"):
        Auto().init(p, np.zeros((AGENTS, 5)))
    with pytest.raises(TypeError, match="Auto finds its exchanges by itself"):
        Gossip(Auto(), 2)


def test_how_unlike_agents_are_is_seen_along_a_few_directions():
    """Of 16 directions, which all agents draw, it is about what whole gradients say; none of them is a coordinate."""
    for p in (problem(), problem(scheme="iid"), problem(loss=LOGISTIC), problem(offset=20)):
        gradients = p.gradient(np.zeros((AGENTS, 5)))
        mean = gradients.mean(axis=0)
        whole = np.sqrt(np.square(gradients - mean).sum(axis=1).mean()) / np.linalg.norm(mean)
        assert _unlikeness(p) == pytest.approx(whole, rel=0.3)
    nothing = consensus.Problem(p.model, p.loss, consensus.partition(X, np.zeros(len(X)), AGENTS), consensus.L2(0.1))
    assert _unlikeness(nothing) == 0


def test_two_parts_and_many_agents():
    parts = nx.disjoint_union(topologies.ring(8), topologies.ring(8))
    with pytest.warns(UserWarning, match="never"):
        result = consensus.solve(problem(), parts, rounds=2)
    assert result.solver.why.startswith("the graph is not connected, or")
    many = 2100
    c = np.zeros((many, 1))
    p = consensus.Problem.from_functions(
        lambda w: np.square(w - c).sum(axis=1), lambda w: 2 * (w - c), agents=many, parameters=1
    )
    assert Auto().prepared(p, topologies.Static(topologies.star(many))).why == "exchanges across the network: 2 <= 5"
    assert "not known to be convex" in Auto().prepared(p, topologies.Static(topologies.ring(many))).why


def test_estimators_take_it():
    model = consensus.estimators.NetworkRegressor((), agents=AGENTS, network="ring", random_state=0).fit(X, Y)
    assert model.score(X, Y) > 0.9


@pytest.mark.parametrize("model", [consensus.Linear(3), consensus.MLP([3, 4, 1])], ids=str)
def test_ranks_choose_by_the_constants_of_all(model):
    """Where each process has some agents, the method is prepared by a stand-in for the whole problem."""
    rng = np.random.default_rng(0)
    shards = consensus.partition(rng.standard_normal((120, 3)), rng.standard_normal(120), agents=20, seed=0)
    problem, network = (
        consensus.Problem(model, consensus.SquaredLoss(), shards, consensus.L2(0.1)),
        topologies.Static(topologies.ring(20)),
    )
    ready = Auto().prepared(WholeNetwork(problem, consensus.engines.Stacked()), network)
    assert ready == Auto().prepared(problem, network)


def reached(problem, graph, solver, levels):
    """Exchanges until the objective is below each level."""
    options = {"rounds": 400, "exchanges": 400, "record_every": 1, "start": np.zeros(problem.parameters)}
    history = consensus.solve(problem, graph, solver, stop=f"objective <= {levels[-1]!r}", **options).history
    below = [np.flatnonzero(history["objective"] <= level) for level in levels]
    return np.array([history["exchanges"][rows[0]] if rows.size else 400.0 for rows in below])


@pytest.mark.parametrize(
    ("graph", "spread", "kind"),
    [
        pytest.param(topologies.path(12), 1.0, OPAPC, id="path of 12"),
        pytest.param(topologies.star(9), 1.0, AdaptiveNEXT, id="star of 9", marks=pytest.mark.slow),
        pytest.param(topologies.path(8), 2.0, AdaptiveNEXT, id="path of 8", marks=pytest.mark.slow),
    ],
)
def test_ill_conditioned_least_squares_take_no_more_exchanges_than_by_methods_without_settings(graph, spread, kind):
    """AdaptiveNEXT takes more than twice as many on the path of 12; on the others it is far ahead."""
    rng = np.random.default_rng(5)
    features = rng.standard_normal((240, 6)) * np.logspace(0, -spread, 6)
    targets = features @ rng.standard_normal(6) + 0.3 * rng.standard_normal(240)
    shards = consensus.partition(features, targets, len(graph), "sorted", seed=0)
    p = consensus.Problem(consensus.Linear(6), consensus.SquaredLoss(), shards, consensus.L2(1e-4))
    extended = np.c_[features, np.ones(240)]
    least = np.linalg.solve(extended.T @ extended / 240 + 1e-4 * np.eye(7), extended.T @ targets / 240)
    low, first = p.objective(least), p.objective(np.zeros(7))
    levels = [low + part * (first - low) for part in (1e-2, 1e-4)]
    assert type(Auto().prepared(p, topologies.Static(graph)).solver) is kind
    best = np.min([reached(p, graph, solver, levels) for solver in (EXTRA(), NIDS(), OPAPC())], axis=0)
    assert (reached(p, graph, None, levels) <= 1.2 * best).all()
