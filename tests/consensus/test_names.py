"""Names of agents through a run: the network's agents are those of the data with the same names."""

import dataclasses
import os

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import consensus
import topologies
from consensus.asynchronous import ASYSONATA, Simulated
from consensus.local import CVXPYSolver, Exact
from consensus.plotting import convergence
from consensus.robust import Attack, SignFlip, flip_labels
from consensus.solvers import DGD, EXTRA, NEXT, GradientTracking, Personalized
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.turns import with_slow

RNG = np.random.default_rng(5)
NAMES = [
    f"{word}{k}" for k, word in enumerate(RNG.permutation(["Graz", "Linz", "Wels", "Enns", "Lech", "Imst", "Hall", "Lienz"]))
]
ORDER = RNG.permutation(8).tolist()
GRAPH = nx.relabel_nodes(topologies.erdos_renyi(8, 0.5, seed=3), {k: NAMES[place] for k, place in enumerate(ORDER)})
HAND = nx.Graph()  # the same graph, with nodes in the order of the data
HAND.add_nodes_from(NAMES)
HAND.add_edges_from(GRAPH.edges)


def problem(names=NAMES):
    rng = np.random.default_rng(1)
    parts = [(rng.normal(size=(6, 3)), rng.normal(size=6)) for _ in range(8)]
    shards = consensus.Shards.from_list(parts, labels=names)
    return consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), shards, consensus.L2(0.1))


def same(found, wanted):
    np.testing.assert_array_equal(found.w, wanted.w)
    for name in set(found.history) - {"seconds"}:
        np.testing.assert_array_equal(found.history[name], wanted.history[name])


@pytest.mark.parametrize("engine", with_slow(["stacked", "processes"], "processes"))
@pytest.mark.parametrize(
    "solver",
    [EXTRA(), NEXT(PartialLinearization(tau=1.0), 0.3), DGD(0.05, batch=2), None],
    ids=lambda solver: type(solver).__name__,
)
def test_a_run_by_names_is_to_the_bit_that_of_the_graph_in_the_order_of_the_data(solver, engine, forked):
    if engine == "processes":
        engine = consensus.engines.Processes(workers=2, strict=True)
    settings = {
        "rounds": 12,
        "record_every": 3,
        "engine": engine,
        "agent_objectives": True,
        "start": np.arange(32.0).reshape(8, 4),
    }
    same(consensus.solve(problem(), GRAPH, solver, **settings), consensus.solve(problem(), HAND, solver, **settings))


def push(graph):
    return topologies.Static(graph.to_directed(), weights=topologies.push)


@pytest.mark.parametrize(
    "make", [push, lambda graph: topologies.Periodic([graph, nx.complement(graph)])], ids=["push", "periodic"]
)
def test_schedules_are_put_into_the_order_of_the_data(make):
    solver = consensus.solvers.SONATA(PartialLinearization(tau=1.0), 0.2)
    same(*(consensus.solve(problem(), make(graph), solver, rounds=9) for graph in (GRAPH, HAND)))


def test_contacts_are_those_of_the_names():
    rows = {name: k for k, name in enumerate(NAMES)}
    pairs = np.array([*GRAPH.edges])
    by_name = topologies.Temporal(np.arange(len(pairs)), pairs, window=2)
    numbers = [(rows[first], rows[second]) for first, second in pairs.tolist()]
    by_number = topologies.Temporal(np.arange(len(pairs)), numbers, window=2, labels=range(8))
    found = consensus.solve(problem(), by_name, GradientTracking(0.02), rounds=30)
    same(found, consensus.solve(problem(None), by_number, GradientTracking(0.02), rounds=30))


@pytest.mark.filterwarnings("ignore:the network is never jointly connected")
def test_failures_of_the_network_are_those_of_its_own_agents():
    there, here = list(GRAPH).index(NAMES[2]), 2
    found, wanted = (
        consensus.solve(problem(), topologies.AgentFailure(topologies.Static(graph), [(agent, 0, None)]), DGD(0.05), rounds=5)
        for graph, agent in ((GRAPH, there), (HAND, here))
    )
    np.testing.assert_allclose(found.w, wanted.w, rtol=1e-12)
    assert not np.allclose(found.w[2], consensus.solve(problem(), GRAPH, DGD(0.05), rounds=5).w[2])


@pytest.mark.parametrize(("names", "nodes"), [
    (["10", "20", "40"], [40, 10, 20]),
    ([40.0, 10.0, 20.0], ["10", "20", "40"]),
    ([2, 0, 1], [1, 2, 0]),  # the nodes 0, 1, 2 of a graph are their own names
    (["0", "2", "1"], ["1", "0", "2"]),
])  # fmt: skip
def test_numbers_are_the_same_names_in_whatever_type(names, nodes):
    centres = np.array([[float(name)] for name in names])
    costs = (lambda w: ((w - centres) ** 2).sum(axis=1) / 6), (lambda w: (w - centres) / 3)
    p = consensus.Problem.from_functions(*costs, agents=3, parameters=1, lipschitz=1 / 3, labels=names)
    graph = nx.path_graph(nodes)
    result = consensus.solve(p, graph, Personalized(nx.to_pandas_adjacency(graph), l=1.0), rounds=800)
    # Closed form: f_i = (w_i - c_i)^2 / 2, so that (I + L) w = c, with L in the order of the data.
    place = [[float(node) for node in nodes].index(float(name)) for name in names]
    laplacian = nx.laplacian_matrix(graph, nodelist=nodes).toarray()[np.ix_(place, place)]
    np.testing.assert_allclose(result.w, np.linalg.solve(np.eye(3) + laplacian, centres), atol=1e-9)
    assert result.labels == tuple(names)


PATH = nx.Graph([("Wien", "Oslo"), ("Oslo", "Rome")])


def towns(weights, graph=PATH, names=("Oslo", "Rome", "Wien")):
    centres = np.array([[{"Oslo": 0.0, "Rome": 10.0, "Wien": 20.0}[name]] for name in names])
    costs = (lambda w: ((w - centres) ** 2).sum(axis=1) / 6), (lambda w: (w - centres) / 3)
    p = consensus.Problem.from_functions(*costs, agents=3, parameters=1, lipschitz=1 / 3, labels=names)
    result = consensus.solve(p, topologies.Static(graph), Personalized(weights(graph), l=1.0), rounds=500)
    return dict(zip(result.labels, result.w[:, 0].round(6).tolist(), strict=True))


@pytest.mark.parametrize("weights", [nx.to_numpy_array, nx.to_scipy_sparse_array, nx.to_pandas_adjacency, lambda graph: None])
@pytest.mark.parametrize("names", [("Oslo", "Rome", "Wien"), ("Rome", "Oslo", "Wien"), ("Wien", "Oslo", "Rome")])
def test_weights_of_pairs_are_in_the_order_of_the_network_or_named(weights, names):
    # By hand: f_i = (w_i - c_i)^2 / 2 on the path Wien - Oslo - Rome; without weights those of mixing, 1/3 an edge.
    expected = {"Oslo": 7.5, "Rome": 8.75, "Wien": 13.75} if weights(nx.path_graph(3)) is not None else None
    found = towns(weights, names=names)
    if expected is None:
        expected = dict(zip(("Oslo", "Rome", "Wien"), np.linalg.solve(np.eye(3) + MIXING, [0.0, 10.0, 20.0]), strict=True))
    assert found == pytest.approx(expected, abs=1e-5)


MIXING = np.array([[2.0, -1.0, -1.0], [-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]]) / 3


def test_weights_without_names_that_could_be_in_another_order_are_warned_of():
    graph = nx.complete_graph(["Wien", "Oslo", "Rome"])
    graph["Wien"]["Oslo"]["weight"] = 5.0
    with (
        pytest.warns(UserWarning, match="edge attribute 'weight' is ignored"),
        pytest.warns(UserWarning, match="have no names"),
    ):
        by_place = towns(nx.to_numpy_array, graph)
    with pytest.warns(UserWarning, match="edge attribute 'weight' is ignored") as caught:
        by_name = towns(nx.to_pandas_adjacency, graph)
    assert not any("have no names" in str(warning.message) for warning in caught)
    assert by_place == by_name
    graph = nx.relabel_nodes(graph, {"Wien": 40, "Oslo": 10, "Rome": 20})
    p = dataclasses.replace(problem().shards.restrict([0, 1, 2]), labels=None, rows=None)
    p = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), p)
    with pytest.warns(UserWarning, match="rows of weights have no names"):
        consensus.solve(p, graph, Personalized(nx.to_numpy_array(graph)), rounds=1)


def test_weights_off_the_edges_name_the_agents_and_the_remedy():
    graph = nx.path_graph([40, 10, 20])
    p = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1, lipschitz=2.0)
    with pytest.raises(ValueError, match=r"agents 20 and 40 have 1. .* networkx.to_pandas_adjacency\(graph\) has their names"):
        consensus.solve(p, graph, Personalized(nx.to_numpy_array(graph)), rounds=1)
    assert consensus.solve(p, graph, Personalized(nx.to_pandas_adjacency(graph)), rounds=1).labels == (10, 20, 40)
    other = nx.to_pandas_adjacency(nx.path_graph([40, 10, 30]))
    with pytest.raises(ValueError, match="the agents and weights have different names: 20 in the agents alone, 30 in weights"):
        consensus.solve(p, graph, Personalized(other), rounds=1)


def test_different_names_are_an_error_that_lists_them_and_a_remedy_that_works():
    graph = nx.relabel_nodes(GRAPH, {NAMES[0]: NAMES[0].lower(), NAMES[3]: "Rome"})
    with pytest.raises(ValueError, match="the data and the network have different names") as caught:
        consensus.solve(problem(), graph, rounds=1)
    alone = f"{NAMES[0]!r}, {NAMES[3]!r} in the data alone"
    assert alone in str(caught.value)
    assert all(repr(name) in str(caught.value).partition(alone)[2] for name in (NAMES[0].lower(), "Rome"))
    again = nx.relabel_nodes(graph, {NAMES[0].lower(): NAMES[0], "Rome": NAMES[3]})
    assert consensus.solve(problem(), again, rounds=1).labels == tuple(NAMES)
    nameless = dataclasses.replace(problem().shards, labels=None)
    p = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), nameless)
    assert consensus.solve(p, graph, rounds=1).labels == tuple(graph)


@pytest.mark.parametrize(("names", "network", "said"), [
    (NAMES, topologies.ring(8), "the network has no names: 0, 1, ... of the data are"),
    (None, GRAPH, "the data has no names: 0, 1, ... of the network are"),
    (range(8), GRAPH, "the data has no names: 0, 1, ... of the network are"),
    (range(1, 9), topologies.ring(8), "the network has no names: 0, 1, ... of the data are"),
    (NAMES, GRAPH, "are matched with the data by name"),
    (NAMES, HAND, None),
    (None, topologies.ring(8), None),
    (range(8), topologies.ring(8), None),
])  # fmt: skip
def test_the_log_says_once_how_agents_are_joined(names, network, said, caplog):
    network = topologies.Static(network)
    with caplog.at_level("INFO", "consensus"):
        result = consensus.solve(problem(names), network, DGD(0.1), rounds=3)
    assert [said in message for message in caplog.messages] == ([True] if said else [])
    if names is not NAMES:  # by position
        same(result, consensus.solve(problem(None), nx.convert_node_labels_to_integers(network.graph(0)), DGD(0.1), rounds=3))


def test_names_are_in_results_histories_and_their_files(tmp_path):
    result = consensus.solve(problem(), GRAPH, DGD(0.1), rounds=4, agent_objectives=True, honest=[NAMES[6], 1])
    assert result.labels == tuple(NAMES)
    assert result.history.labels == (NAMES[1], NAMES[6])
    columns = [f"agent_objective_{name}" for name in result.history.labels]
    assert [column for column in result.history.to_frame() if column.startswith("agent_")] == columns
    result.history.to_csv(tmp_path / "run.csv")
    np.testing.assert_array_equal(
        consensus.History.from_csv(tmp_path / "run.csv")[columns[1]], result.history["agent_objective"][:, 1]
    )
    result.save(tmp_path / "run.npz")
    again = consensus.load(tmp_path / "run.npz")
    assert (again.labels, again.history.labels) == (result.labels, result.history.labels)
    assert result.history.copy().labels == result.history.labels
    with pytest.raises(ValueError, match="honest names 'Rome', but the agents are"):
        consensus.solve(problem(), GRAPH, DGD(0.1), rounds=1, honest=["Rome"])


def test_columns_of_names_with_commas_quotes_and_line_ends_are_read_back(tmp_path):
    names = ["a,b", 'c"d', "e\nf", "#g", "", "h i", "1", (0, 1)]
    history = consensus.solve(problem(names), topologies.ring(8), DGD(0.1), rounds=1, agent_objectives=True).history
    history.to_csv(tmp_path / "run.csv")
    assert list(consensus.History.from_csv(tmp_path / "run.csv")) == list(history.to_frame())


def test_a_predictor_of_an_agent_is_asked_for_by_name():
    result = consensus.solve(problem(), GRAPH, Personalized(l=0.5), rounds=20)
    pipeline = consensus.datasets.split(np.random.default_rng(0).normal(size=(20, 3)), np.arange(20.0)).pipeline
    X = np.ones((1, 3))
    found = result.predictor(pipeline, agent=NAMES[5]).predict(X)
    np.testing.assert_array_equal(found, result.predictor(pipeline, agent=5).predict(X))
    with pytest.raises(ValueError, match="agent names 'Rome'"):
        result.predictor(pipeline, agent="Rome")


def test_byzantine_agents_are_numbered_as_the_data():
    solver = Attack(consensus.robust.NNA(DGD(0.1), 0.3), [4], SignFlip())
    same(
        *(
            consensus.solve(problem(), topologies.Static(nx.compose(g, nx.complement(g))), solver, rounds=5)
            for g in (GRAPH, HAND)
        )
    )


def test_byzantine_agents_and_outages_are_named():
    named, numbered = (Attack(DGD(0.01), byzantine, SignFlip()) for byzantine in ([NAMES[6], NAMES[2]], [2, 6]))
    found, wanted = (consensus.solve(problem(), GRAPH, solver, rounds=3) for solver in (named, numbered))
    same(found, wanted)
    assert found.honest.tolist() == [0, 1, 3, 4, 5, 7]
    assert str(topologies.check(GRAPH, named)) == str(topologies.check(GRAPH, numbered))
    shards = problem().shards
    np.testing.assert_array_equal(flip_labels(shards, [NAMES[1]]).targets, flip_labels(shards, [1]).targets)
    away = topologies.AgentFailure(topologies.Static(GRAPH), [(NAMES[3], 1, 4)])
    assert away.away(2) == (list(GRAPH).index(NAMES[3]),)
    for use in (
        lambda: consensus.solve(problem(), GRAPH, Attack(DGD(0.01), ["Ulm"], SignFlip()), rounds=1),
        lambda: flip_labels(shards, ["Ulm"]),
        lambda: topologies.AgentFailure(topologies.Static(GRAPH), [("Ulm", 0, 1)]),
    ):
        with pytest.raises(ValueError, match=r"^(byzantine|outages\[0\]) names 'Ulm', but the agents are '"):
            use()
    with pytest.raises(ValueError, match=r"^byzantine names 'Ulm', but agents have no names here"):
        consensus.solve(problem(None), topologies.ring(8), Attack(DGD(0.01), ["Ulm"], SignFlip()), rounds=1)


def test_errors_name_agents():
    impossible = CVXPYSolver(constraints=lambda w: [w >= 1, w <= 0])
    with pytest.raises(consensus.LocalSolveError, match=rf"^round 1, agent 0 \('{NAMES[0]}'\): its local problem is "):
        consensus.solve(problem(), GRAPH, NEXT(FullLinearization(1.0), 0.1, local=impossible), rounds=1)
    rough = NEXT(PartialLinearization(1e-9), 0.1, local=Exact(iterations=1))
    features = [[-1000.0], [-1.0], [1.0], [1000.0]]
    shards = consensus.Shards.from_list({"Gmunden": (features[:2], [0, 1]), "Steyr": (features[2:], [0, 1])})
    classes = consensus.Problem(consensus.Linear(1), consensus.LogisticLoss(), shards)
    with pytest.warns(consensus.errors.UnfinishedWarning, match=r"of agent \d \('(Gmunden|Steyr)'\) was not solved"):
        consensus.solve(classes, topologies.complete(2), rough, rounds=3)
    with pytest.raises(ValueError, match=r"those of agent 1 \('Steyr'\) have \(3,\)"):
        consensus.Shards.from_list({"Gmunden": (np.ones((2, 2)), [0, 1]), "Steyr": (np.ones((2, 3)), [0, 1])})


def test_errors_name_the_agents_of_a_lost_worker(forked):
    main = os.getpid()

    def gradient(w):
        return 2 * w if os.getpid() == main else os._exit(1)

    costs = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, gradient, agents=8, parameters=1)
    engine = consensus.engines.Processes(workers=2)
    with pytest.raises(consensus.WorkerError, match=rf"^worker \d \(agents \d to \d: '({'|'.join(NAMES)})', .*\) died in"):
        consensus.solve(costs, HAND, DGD(0.1), rounds=2, engine=engine)


def test_curves_of_agents_are_named():
    history = consensus.solve(problem(), GRAPH, DGD(0.05), rounds=3, agent_objectives=True, record_every=1).history
    legend = convergence(history, y="agent_objective").get_legend()
    assert [text.get_text() for text in legend.get_texts()] == NAMES


def test_times_of_agents_are_in_the_order_of_the_data_and_those_of_pairs_in_that_of_the_network():
    rng = np.random.default_rng(2)
    delays = pd.DataFrame(rng.uniform(0, 3, (8, 8)), NAMES, NAMES)
    compute = rng.uniform(1, 2, 8).tolist()

    def run(graph):
        there = delays.loc[list(graph), list(graph)].to_numpy()
        engine = Simulated(compute=compute, delay=there, loss=there / 10, away={3: [(1.0, 4.0)]})
        weights = [rule(graph) for rule in (topologies.pull, topologies.push)]
        return consensus.solve(
            problem(), graph, ASYSONATA(PartialLinearization(tau=1.0), 0.01, weights=weights), rounds=15, engine=engine
        )

    same(run(GRAPH), run(HAND))


def test_a_run_goes_on_with_the_same_match_alone(tmp_path):
    path = tmp_path / "run.npz"
    consensus.solve(problem(), GRAPH, EXTRA(), rounds=5, checkpoint=path)
    whole = consensus.solve(problem(), GRAPH, EXTRA(), rounds=10)
    same(consensus.solve(problem(), GRAPH, EXTRA(), rounds=10, resume=path), whole)
    for p, graph in ((problem(), HAND), (problem(NAMES[::-1]), GRAPH), (problem(None), GRAPH)):
        with pytest.raises(ValueError, match=r"is a checkpoint of another run: .*network"):
            consensus.solve(p, graph, EXTRA(), rounds=10, resume=path)
