"""What an error of a solver recommends works in that very case: it is built from the message, and run."""

import re

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus import solvers
from consensus.surrogates import FullLinearization

CYCLE = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])
NETWORKS = {
    "undirected": topologies.Static(topologies.ring(3)),
    "push": topologies.Static(CYCLE, weights=topologies.push),
    "pull": topologies.Static(CYCLE, weights=topologies.pull),
    "changing": topologies.RandomEdges(topologies.complete(3), 0.5, seed=0),
}
GIVEN = {"tau": 4.0, "step_size": 0.3, "FullLinearization": FullLinearization} | {
    name: getattr(solvers, name) for name in ("NEXT", "SONATA", "AdaptiveNEXT")
}
SMOOTH = [solvers.DGD(0.1), solvers.PushDIGing(0.1), solvers.GradientTracking(0.1), solvers.PushPull(0.1), solvers.EXTRA(0.1)]


def followed(remedy, network):
    """The solver that a message recommends, and the network with the weights that it asks for, if any."""
    solver, _, weights = remedy.partition(" with ")
    if weights:
        assert weights == "weights=topologies.push"
        network = topologies.Static(network.graph(0), weights=topologies.push)
    return eval(solver, GIVEN), network


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("solver", SMOOTH, ids=str)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_regularizer_that_is_not_smooth(solver, network):
    target = np.array([2.0, -1.0])
    problem = consensus.Problem.from_functions(
        lambda w: ((w - target) ** 2).sum(1), lambda w: 2 * (w - target), 3, 2, regularizer=consensus.Box(0, 1), lipschitz=2.0
    )
    with pytest.raises(ValueError, match=r"needs a smooth regularizer, and Box.* is not: (.*) takes it") as error:
        consensus.solve(problem, network, solver, rounds=3)
    recommended, network = followed(re.search(r"is not: (.*) takes it", str(error.value))[1], network)
    result = consensus.solve(problem, network, recommended, rounds=200)
    np.testing.assert_allclose(result.mean, [1, 0], atol=1e-3)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_surrogate_that_needs_a_model(network):
    problem = consensus.Problem.from_functions(lambda w: (w**2).sum(1), lambda w: 2 * w, 3, 2, lipschitz=2.0)
    kind = solvers.SONATA if network is NETWORKS["push"] else solvers.NEXT
    with pytest.raises(TypeError, match=r"needs a model to linearise, .* or use (.*)") as error:
        consensus.solve(problem, network, kind(consensus.surrogates.PartialLinearization(1.0), 0.5), rounds=3)
    recommended, network = followed(re.search(r"or use (.*)$", str(error.value))[1], network)
    np.testing.assert_allclose(consensus.solve(problem, network, recommended, rounds=200).mean, 0, atol=1e-6)
