"""What is of the wrong kind, or too much, is refused by name at every public door."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import topologies

RING = topologies.Static(topologies.ring(5))


class Given:
    """A schedule of a user's own with one matrix, or what is none."""

    agents = 5

    def __init__(self, matrix):
        self.matrix = matrix

    def key(self, round):
        return 0

    def weights(self, key):
        return self.matrix


LOOKS = {
    "components": topologies.components,
    "conditions": topologies.conditions,
    "contraction": lambda schedule: topologies.contraction(schedule, 10),
    "estimate_gap": topologies.estimate_gap,
    "joint_connectivity": lambda schedule: topologies.joint_connectivity(schedule, 10),
    "check": lambda schedule: topologies.check(schedule, object()),
    "LinkFailure": lambda schedule: topologies.LinkFailure(schedule, 0.5),
    "AgentFailure": lambda schedule: topologies.AgentFailure(schedule, []),
}


@pytest.mark.parametrize(
    "wrong", [None, 3, np.eye(5), topologies.ring(5), sp.eye_array(5), "ring"], ids=lambda x: type(x).__name__
)
@pytest.mark.parametrize("name", LOOKS)
def test_a_schedule_is_wanted(name, wrong):
    with pytest.raises(TypeError, match=r"schedule must be a schedule.* such as topologies.Static\(graph\)"):
        LOOKS[name](wrong)


@pytest.mark.parametrize("name", LOOKS)
def test_a_class_is_no_schedule(name):
    with pytest.raises(TypeError, match="got the class Static itself: call it"):
        LOOKS[name](topologies.Static)


@pytest.mark.parametrize("name", ["conditions", "contraction", "estimate_gap", "joint_connectivity", "check"])
def test_a_schedule_gives_sparse_matrices_over_its_agents(name):
    with pytest.raises(TypeError, match=r"Given.weights\(key\) must return a sparse matrix in CSR format.*"):
        LOOKS[name](Given(np.eye(5)))
    with pytest.raises(ValueError, match=r"must return a matrix of shape \(agents, agents\) = \(5, 5\); got \(4, 4\)"):
        LOOKS[name](Given(sp.csr_array(np.eye(4))))
    counted = Given(sp.csr_array(np.eye(5)))
    for agents in ("5", 0, 2.5):
        counted.agents = agents
        with pytest.raises(TypeError, match="schedule must be a schedule with a whole number of agents"):
            LOOKS[name](counted)


HUGE = 10**30
TOO_MUCH = {
    "ring": lambda: topologies.ring(HUGE),
    "path": lambda: topologies.path(10**400),
    "star": lambda: topologies.star(HUGE),
    "complete": lambda: topologies.complete(10**7),
    "grid": lambda: topologies.grid(HUGE, 2),
    "torus": lambda: topologies.torus(10**6, 10**6),
    "hypercube": lambda: topologies.hypercube(HUGE),
    "erdos_renyi": lambda: topologies.erdos_renyi(10**8, 0.5),
    "random_geometric": lambda: topologies.random_geometric(HUGE, 0.1),
    "random_regular": lambda: topologies.random_regular(HUGE, 4),
    "small_world": lambda: topologies.small_world(HUGE, 4, 0.1),
    "barabasi_albert": lambda: topologies.barabasi_albert(HUGE, 2),
    "Matchings": lambda: topologies.Matchings(HUGE),
    "OnePeerExponential": lambda: topologies.OnePeerExponential(HUGE),
    "Mobile": lambda: topologies.Mobile(HUGE, 0.1, 0.1),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_no_memory_holds_is_refused_at_once(name):
    with pytest.raises(ValueError, match=rf"{name}\(.* would take .* bytes of memory; there are"):
        TOO_MUCH[name]()


@pytest.mark.parametrize(
    ("make", "kind", "why"),
    [
        (lambda: topologies.conditions(RING, HUGE), ValueError, "rounds must be at most 10000000"),
        (lambda: topologies.joint_connectivity(RING, HUGE), ValueError, "rounds must be at most"),
        (lambda: topologies.contraction(RING, HUGE), ValueError, "rounds must be at most"),
        (lambda: topologies.estimate_gap(RING, HUGE), ValueError, "exchanges must be at most"),
        (lambda: topologies.estimate_gap(RING, columns=HUGE), ValueError, "columns would take .* bytes"),
        (lambda: topologies.estimate_gap(RING, seed=None), ValueError, "seed must be an integer"),
        (lambda: topologies.Sequence(lambda n: nx.Graph(), 5, horizon=HUGE), ValueError, "horizon must be at most"),
        (lambda: topologies.erdos_renyi(5, np.nan), ValueError, r"probability must be a number in \[0, 1\], got nan"),
        (lambda: topologies.erdos_renyi(5, 0.5, connected=np.eye(3)), ValueError, "connected must be True or False"),
        (lambda: topologies.random_geometric(5, 10**400), ValueError, "radius must be a finite number above 0"),
        (lambda: topologies.Mobile(5, np.timedelta64(1, "s"), 0.1), ValueError, "radius must be a finite number above 0"),
        (lambda: topologies.AgentFailure(RING, 3), TypeError, r"outages must be a list of \(agent, first, last\), got 3"),
        (
            lambda: topologies.LinkFailure(RING, 0.5, preserve=np.eye(2)),
            ValueError,
            "preserve must be 'columns', 'rows' or None",
        ),
        (lambda: topologies.Periodic(3), TypeError, "graphs must be a list of graphs, got 3"),
        (lambda: topologies.sinkhorn(topologies.ring(3), weight=[]), TypeError, "weight must be the name of an edge attribute"),
        (lambda: topologies.Temporal([[0], [1, 2]], [(0, 1)], 1), ValueError, "times"),
        (lambda: topologies.Temporal([0, 1], [(0, 1), (1,)], 1), ValueError, "contacts must be an array of shape"),
        (lambda: topologies.Temporal([0], [("a", None)], 1), TypeError, "contacts must hold labels of one kind"),
        (lambda: topologies.Temporal([0], [(0, 1)], 1, labels=5), TypeError, "labels must be a sequence"),
        (lambda: topologies.Temporal([0], [(0, 1)], 1, labels=["a", "a"]), ValueError, "labels must differ from each other"),
        (lambda: topologies.Temporal([0], [(0, 1)], 1, cyclic="no"), TypeError, "cyclic must be True or False"),
        (lambda: topologies.Temporal([0, 10**400], [(0, 1)] * 2, 1), ValueError, "times"),
    ],
)
def test_other_doors(make, kind, why):
    with pytest.raises(kind, match=why):
        make()
