"""Bad arguments are rejected by every public function; the message names the argument, its value and what is allowed."""

import math
from functools import partial

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies as t
from tests.helpers.networks import EVENS, ODDS
from tests.helpers.refusals import refusals

GRAPH = t.ring(4)
RING = t.Static(t.ring(6))


class Given:
    """A user's schedule with one matrix, or something else in its place."""

    agents = 5

    def __init__(self, matrix):
        self.matrix = matrix

    def key(self, round):
        return 0

    def weights(self, key):
        return self.matrix


READERS = {
    "conditions": t.conditions,
    "contraction": lambda schedule: t.contraction(schedule, 10),
    "estimate_gap": t.estimate_gap,
    "joint_connectivity": lambda schedule: t.joint_connectivity(schedule, 10),
    "check": lambda schedule: t.check(schedule, object()),
}
TAKERS = READERS | {
    "components": t.components,
    "LinkFailure": lambda schedule: t.LinkFailure(schedule, 0.5),
    "AgentFailure": lambda schedule: t.AgentFailure(schedule, []),
}


def test_a_graph_is_checked_with_the_weights_that_solve_gives_it():
    directed = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])
    for mixing, holds in (("column stochastic", True), ("row stochastic", True), ("doubly stochastic", None)):
        solver = type("Some", (), {"mixing": mixing})()
        assert t.check(t.ring(5), solver).refusal is None
        if holds:
            assert t.check(directed, solver).refusal is None
            continue
        with pytest.raises(ValueError, match="Metropolis weights need an undirected graph"):
            t.check(directed, solver)
    assert repr(t.check(t.ring(5), solver)).startswith("Some on 5 agents\nneeded")


@pytest.mark.parametrize("wrong", [None, 3, np.eye(5), t.ring(5), sparse.eye_array(5), "ring", t.Static], ids=str)
@pytest.mark.parametrize("name", TAKERS)
def test_what_is_no_schedule_is_rejected(name, wrong):
    if name == "check" and isinstance(wrong, nx.Graph):
        return
    message = r"schedule must be a schedule.* such as topologies.Static\(graph\)"
    with pytest.raises(TypeError, match="got the class Static itself: call it" if wrong is t.Static else message):
        TAKERS[name](wrong)


@pytest.mark.parametrize("name", READERS)
def test_schedules_that_break_the_protocol_are_rejected(name):
    with pytest.raises(TypeError, match=r"Given.weights\(key\) must return a sparse matrix in CSR format.*"):
        READERS[name](Given(np.eye(5)))
    with pytest.raises(ValueError, match=r"must return a matrix of shape \(agents, agents\) = \(5, 5\); got \(4, 4\)"):
        READERS[name](Given(sparse.csr_array(np.eye(4))))
    counted = Given(sparse.csr_array(np.eye(5)))
    for agents in ("5", 0, 2.5):
        counted.agents = agents
        with pytest.raises(TypeError, match="schedule must be a schedule with a whole number of agents"):
            READERS[name](counted)


MOVING = partial(t.Mobile, radius=1)
SEEDED = [
    (t.erdos_renyi, 5, 0.5),
    (t.barabasi_albert, 5, 2),
    (t.RandomEdges, GRAPH, 0.5),
    (t.LinkFailure, RING, 0.5),
    (t.Matchings, 4),
    (t.EquiStatic, 4, 2),
    (t.Mobile, 5, 0.1, 0.1),
    (t.contraction, RING, 9),
    (t.estimate_gap, RING),
]
HUGE = 10**30
TOO_LARGE = {
    "ring": (HUGE,),
    "path": (10**400,),
    "star": (HUGE,),
    "complete": (10**7,),
    "grid": (HUGE, 2),
    "torus": (10**6, 10**6),
    "hypercube": (HUGE,),
    "erdos_renyi": (10**8, 0.5),
    "random_geometric": (HUGE, 0.1),
    "random_regular": (HUGE, 4),
    "small_world": (HUGE, 4, 0.1),
    "barabasi_albert": (HUGE, 2),
    "Matchings": (HUGE,),
    "OnePeerExponential": (HUGE,),
    "Mobile": (HUGE, 0.1, 0.1),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_graphs_that_exceed_the_memory_are_rejected_at_once(name):
    with pytest.raises(ValueError, match=rf"{name}\(.* would take .* bytes of memory; there are"):
        getattr(t, name)(*TOO_LARGE[name])


@pytest.mark.parametrize(("call", "message"), [
    *[
        (partial(make, agents), message)
        for make in (t.ring, t.path, t.star, t.complete, t.Matchings, t.OnePeerExponential, t.BaseGraph, t.HyperHypercube)
        for agents, message in (
            (0, "agents must be at least 1, got 0"),
            (2.5, "agents must be an integer of at least 1, got"),
        )
    ],
    *[
        (partial(t.RandomEdges, GRAPH, bad), rf"probability must be a number in \(0, 1\], got {bad!r}")
        for bad in (0, 0.0, -0.1, 1.5, math.nan, None)
    ],
    (partial(t.RandomEdges, GRAPH, "half"),
     r"edge \(0, 1\) has no attribute 'half'; every edge needs one, a finite number above 0"),
    *[
        (partial(t.LinkFailure, RING, bad), rf"probability must be a number in \[0, 1\), got {bad!r}")
        for bad in (1, 1.0, -0.1, math.nan, None)
    ],
    (partial(t.LinkFailure, RING, "half"), r"a number in \[0, 1\) or a matrix, got 'half'; of an edge attribute pass networkx"),
    *[
        (partial(t.fastest, t.path(3), diagonal=bad), rf"diagonal must be a number in \[0, 1\), got {bad!r}")
        for bad in (-0.1, 1, 1.5, math.nan, "half", None)
    ],
    *[
        (partial(t.laplacian, t.torus(3, 3), bad), rf"epsilon must be a number in \(0, 1 / max degree\).* got {bad!r}")
        for bad in (0, -0.1, 0.25, 0.3, math.nan, math.inf, "0.1")
    ],
    *[
        (partial(t.mixing_time, np.eye(2), bad), rf"accuracy must be a number in \(0, 1\), got {bad!r}")
        for bad in (0, 1, -1, 2, math.nan, "0.1", None)
    ],
    *[
        (partial(measure, RING, bad), "rounds must be")
        for measure in (t.conditions, t.joint_connectivity, t.contraction)
        for bad in (0, -3, 2.5, HUGE)
    ],
    *[
        (partial(make, *arguments, seed=seed), f"seed must be {message}")
        for make, *arguments in SEEDED
        for seed, message in ((-1, "at least 0, got -1"), (0.5, "an integer of at least 0, got 0.5"), (None, "an integer"))
    ],
    *[
        (partial(make, 0, *arguments), "agents must be at least 1, got 0")
        for make, *arguments in ((t.erdos_renyi, 0.5), (t.random_geometric, 0.5), (t.Mobile, 0.1, 0.1))
    ],
    *[
        (partial(make, *arguments, bad), r"probability must be a number in \[0, 1\], got " + repr(bad))
        for make, *arguments in ((t.erdos_renyi, 5), (t.small_world, 10, 4))
        for bad in (1.5, -0.1, math.nan, "half")
    ],
    *[
        (partial(make, 5, **{name: bad}), f"{name} must be a finite number above 0, got ")
        for make, name in ((t.random_geometric, "radius"), (partial(t.Mobile, speed=1), "radius"), (MOVING, "speed"))
        for bad in (0.0, -0.1, math.inf, 10**400, np.timedelta64(1, "s"), "fast")
    ],
    (lambda: t.contraction(RING, 1), "rounds must be at least 2"),
    (lambda: t.estimate_gap(RING, exchanges=3), "exchanges must be at least 6"),
    (lambda: t.estimate_gap(RING, HUGE), "exchanges must be at most"),
    (lambda: t.estimate_gap(RING, columns=HUGE), "columns would take .* bytes"),
    (lambda: t.laplacian(nx.empty_graph(3), epsilon=-1), r"epsilon must be a number in \(0, infinity\), got -1"),
    (lambda: t.fastest(GRAPH, nonnegative=False, diagonal=0.1), "diagonal=0.1 bounds self-weights, which nonnegative=False"),
    (lambda: t.fastest(t.ring(101)), r"allows at most 100 connected agents, got 101; use topologies\.metropolis"),
    (lambda: t.grid(0, 3), "rows must be at least 1, got 0"),
    (lambda: t.torus(3, -1), "columns must be at least 1, got -1"),
    (lambda: t.hypercube(-1), "dimension must be at least 0, got -1"),
    (lambda: t.erdos_renyi(5, 0.5, connected=np.eye(3)), "connected must be True or False"),
    (lambda: t.random_regular(5, 5), "degree must be below agents.*degree=5, agents=5"),
    (lambda: t.random_regular(5, 3), "agents \\* degree even; got degree=3, agents=5"),
    (lambda: t.random_regular(5, -2), "degree must be at least 0, got -2"),
    (lambda: t.small_world(10, 3, 0.1), "neighbours must be even and below agents=10, got 3"),
    (lambda: t.small_world(10, 10, 0.1), "neighbours must be even and below agents=10, got 10"),
    (lambda: t.small_world(10, 0, 0.1), "neighbours must be at least 2, got 0"),
    (lambda: t.barabasi_albert(1, 1), "agents must be at least 2, got 1"),
    (lambda: t.barabasi_albert(5, 5), "edges must be below agents=5, got 5"),
    (lambda: t.barabasi_albert(5, 0), "edges must be at least 1, got 0"),
    (lambda: t.Sequence(lambda n: GRAPH, 0), "agents must be at least 1, got 0"),
    (lambda: t.Periodic([]), "graphs is empty; pass at least one graph"),
    (lambda: t.Periodic([EVENS, ODDS, t.ring(5), t.ring(6)]), r"graphs\[2\] has 5 agents but graphs\[0\] has 4"),
    (lambda: t.Sequence(lambda n: GRAPH, 4, horizon=0), "horizon must be at least 1, got 0"),
    (lambda: t.Sequence(lambda n: GRAPH, 4, horizon=HUGE), "horizon must be at most"),
    (lambda: t.RandomEdges(nx.DiGraph([(0, 1)]), 0.5), "Metropolis weights need an undirected graph"),
    (lambda: t.LinkFailure(RING, 0.5, symmetric="no"), "symmetric must be True or False, got 'no'"),
    (lambda: t.LinkFailure(RING, 0.5, preserve="sums"), "preserve must be 'columns', 'rows' or None, got 'sums'"),
    (lambda: t.LinkFailure(RING, 0.5, preserve=np.eye(2)), "preserve must be 'columns', 'rows' or None"),
    (lambda: t.AgentFailure(RING, [(0, 1, 2), (6, 0, 1)]), r"outages\[1\] names agent 6, but the agents are 0, ..., 5"),
    (lambda: t.AgentFailure(RING, [(-1, 0, 1)]), r"the agent of outages\[0\] must be at least 0, got -1"),
    (lambda: t.AgentFailure(RING, [(0, -1, 1)]), r"the first round of outages\[0\] must be at least 0, got -1"),
    (lambda: t.AgentFailure(RING, [(0, 0, 1), (0, 5, 5)]), r"the last round of outages\[1\] must be at least 6, got 5"),
    (lambda: t.AgentFailure(RING, [(0, 1.5, 3)]), r"first round of outages\[0\] must be an integer of at least 0, got 1.5"),
    (lambda: t.AgentFailure(RING, [(0, 1)]), r"outages\[0\] must be \(agent, first, last\), got \(0, 1\)"),
    (lambda: t.AgentFailure(RING, [7]), r"outages\[0\] must be \(agent, first, last\), got 7"),
    (lambda: t.Matchings(4, graph=t.ring(5)), "graph has 5 agents, but agents=4"),
    (lambda: t.Matchings(2, graph=nx.DiGraph([(0, 1)])), "graph must be undirected"),
    (lambda: t.Matchings(2, graph=np.array([[0, 1], [0, 0]])), "graph must be undirected"),
    (lambda: t.Mobile(5, 0.1, 0.1).positions(-1), "round must be at least 0, got -1"),
    (lambda: t.Temporal([0, 1], [(0, 1)], 20), r"times must have shape .* got \(2,\) and \(1, 2\)"),
    (lambda: t.Temporal([0], [(0, 1, 2)], 20), r"got \(1,\) and \(1, 3\)"),
    (lambda: t.Temporal([0, math.nan], [(0, 1), (0, 1)], 20), "contact 1 has the time nan, which is not finite"),
    (lambda: t.Temporal([0, 1], [(0, 1), (2, 2)], 20), "contact 1 is between agent 2 and itself"),
    (lambda: t.Temporal([0], [(0, 1)], 0), "window must be above 0, got 0"),
    (lambda: t.Temporal([0], [(0, 1)], math.inf), "window must be a finite number, got inf"),
    (lambda: t.Temporal([0], [(0, 1)], "day"), "window must be a finite number, got 'day'"),
    (lambda: t.Temporal([0, 1e9], [(0, 1)] * 2, 1e-300), "window must be longer"),
    (lambda: t.Temporal([0], [(0, 1)], 20, start=math.nan), "start must be a finite number, got nan"),
    (lambda: t.Temporal([0, 5], [(0, 1)] * 2, 20, start=6), "there are no contacts at or after the start, 6.0"),
    (lambda: t.Temporal([0], [(0, 2)], 20, labels="ab"), r"contact 0 is of agents \[0 2\], but labels names .* 0, ..., 1"),
    (lambda: t.Temporal([0], [("a", "b")], 20, labels="ab"), "with labels, contacts must hold agents, 0, ..., 1, got <U1"),
    (lambda: t.Temporal([], np.empty((0, 2), dtype=int), 20), "there are no contacts"),
    (lambda: t.Temporal([[0], [1, 2]], [(0, 1)], 1), "times"),
    (lambda: t.Temporal([0, 1], [(0, 1), (1,)], 1), "contacts must be an array of shape"),
    (lambda: t.Temporal([0], [(0, 1)], 1, labels=["a", "a"]), "labels must differ from each other"),
    (lambda: t.Temporal([0, 10**400], [(0, 1)] * 2, 1), "times"),
])  # fmt: skip
def test_values_out_of_range_are_rejected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


test_refusals = refusals(
    *[(partial(t.Periodic, single), TypeError, r"must be a list of graphs, got one .*; use Static")
      for single in (GRAPH, np.zeros((4, 4)), sparse.csr_array((4, 4)))],
    (lambda: t.Periodic(3), TypeError, "graphs must be a list of graphs, got 3"),
    (lambda: t.Static(GRAPH, t.metropolis(GRAPH)), TypeError,
     "weights must be a function from a graph to a matrix, got a csr_array"),
    (lambda: t.lazy(t.metropolis(GRAPH)), TypeError, r"weights must be a function .* got a csr_array; topologies\.from_matrix"),
    (lambda: t.Sequence([GRAPH], 4), TypeError, "function must be a function .*got a list; use Periodic for a list of graphs"),
    (lambda: t.Sequence(GRAPH, 4), TypeError, "function must be a function from a round to a graph, got a Graph"),
    (lambda: t.Sequence(lambda n: GRAPH, 4, "metropolis"), TypeError, "weights must be a function .* to a matrix, got a str"),
    (lambda: t.AgentFailure(RING, 3), TypeError, r"outages must be a list of \(agent, first, last\), got 3"),
    (lambda: t.sinkhorn(GRAPH, weight=[]), TypeError, "weight must be the name of an edge attribute"),
    (lambda: t.Temporal([0], np.array([("a", 3)], dtype=object), 1), TypeError, "contacts must hold labels of one kind"),
    (lambda: t.Temporal([0], [(0, 1)], 1, labels=5), TypeError, "labels must be a sequence"),
    (lambda: t.Temporal([0], [(0, 1)], 1, cyclic="no"), TypeError, "cyclic must be True or False"),
)  # fmt: skip
