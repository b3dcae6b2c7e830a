"""Models of the agents' own: weights, networks and wrappers that are refused, and what is equal."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.compression import TopK
from consensus.robust import NNA
from consensus.solvers import Compressed, Gossip, Personalized
from tests.helpers.problems import GRAPH, data, problem

AGENTS = len(GRAPH)
NETWORK = topologies.Static(GRAPH)
RIDGE = problem("squared", consensus.L2(0.1), scheme="sizes")


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones((AGENTS, AGENTS)), r"weights must be zero except between neighbours; agents \d and \d have 1"),
        (np.zeros((3, 3)), r"weights must have shape \(6, 6\)"),
    ],
)
def test_weights_that_do_not_fit_the_network(weights, words):
    with pytest.raises(ValueError, match=words):
        consensus.solve(RIDGE, NETWORK, Personalized(weights), rounds=1)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([[0.0, 1.0], [2.0, 0.0]], r"weights must be symmetric; agents 0 and 1 have 1 and 2"),
        ([[0.0, -1.0], [-1.0, 0.0]], "weights must be finite numbers >= 0"),
        ([[0.0, np.nan], [np.nan, 0.0]], "weights must be finite numbers >= 0"),
        (np.ones((2, 3)), r"weights must be a matrix \(agents, agents\).*got shape \(2, 3\)"),
    ],
)
def test_weights_that_are_none(weights, words):
    with pytest.raises(ValueError, match=words):
        Personalized(weights)


@pytest.mark.filterwarnings("ignore:Personalized's theory")
def test_networks_and_wrappers_that_change_the_objective_are_refused():
    with pytest.raises(ValueError, match="give a static network"):
        consensus.solve(RIDGE, topologies.RandomEdges(GRAPH, 0.5), Personalized(), rounds=1)
    for wrapped in (
        lambda: Gossip(Personalized(), 2),
        lambda: NNA(Personalized(), 0.1),
        lambda: Compressed(Personalized(), TopK(0.5)),
    ):
        with pytest.raises(TypeError, match=r"cannot be Personalized, whose objective has the weights of network\.mix in it"):
            wrapped()


def test_estimators_need_one_model():
    with pytest.raises(TypeError, match="each agent has its own"):
        consensus.estimators.NetworkRegressor(solver=Personalized()).fit(*data())


def test_solvers_with_equal_settings_are_equal():
    here, there = Personalized(np.eye(2)[::-1], 0.5), Personalized(np.eye(2)[::-1], 0.5)
    assert here == there
    assert hash(here) == hash(there)
    assert here != Personalized(2 * np.eye(2)[::-1], 0.5)
    assert "2 agents" in repr(here)
