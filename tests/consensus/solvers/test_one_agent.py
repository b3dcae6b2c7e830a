"""A network of one agent is a centralised run: every solver runs on it, and the deterministic ones reach the optimum."""

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus import solvers
from consensus.compression import Quantize, TopK

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
Y = X @ [1.0, -2.0, 0.5]
OPTIMUM = np.linalg.solve(X.T @ X / 30 + 0.1 * np.eye(3), X.T @ Y / 30)


def problem(agents):
    shards = consensus.partition(X, Y, agents=agents)
    return consensus.Problem(consensus.Linear(3, bias=False), consensus.SquaredLoss(), shards, consensus.L2(0.1))


SAFE = "NewtonTracking OPAPC EXTRA NIDS DADMM DLM AdaptiveNEXT ExactDiffusion LED AccGT"
ONES = [
    *(getattr(solvers, name)() for name in SAFE.split()),
    solvers.ChocoSGD(TopK(1), 0.1),
    solvers.CGT(Quantize(4)),
    solvers.LEAD(Quantize(4)),
    solvers.BEER(TopK(2)),
    solvers.MoTEF(TopK(1)),
    solvers.Compressed(solvers.GradientTracking(0.1), Quantize(4)),
]


@pytest.mark.parametrize("solver", ONES, ids=lambda solver: type(solver).__name__)
def test_one_agent_reaches_the_optimum(solver):
    result = consensus.solve(problem(1), topologies.complete(1), solver, rounds=600, record_every=50, tolerance=1e-8)
    np.testing.assert_allclose(result.mean, OPTIMUM, atol=1e-6)


@pytest.mark.parametrize(
    "solver", [solvers.CGT(Quantize(4)), solvers.OPAPC(), solvers.EXTRA()], ids=lambda one: type(one).__name__
)
@pytest.mark.filterwarnings("ignore:the network is never jointly connected")
def test_agents_without_edges_are_told_that_they_never_agree(solver):
    with pytest.raises(ValueError, match="whose agents do not come to agree"):
        consensus.solve(problem(3), nx.empty_graph(3), solver, rounds=3)
