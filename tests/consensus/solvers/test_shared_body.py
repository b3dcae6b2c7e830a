"""A shared body and heads of one's own: a linear system, laws of separable costs, deep models, what is sent and refused."""

import numpy as np
import pytest
import torch
from torch import nn

import consensus
import topologies
from consensus import solvers
from consensus.compression import TopK
from consensus.privacy import Private
from consensus.robust import NNA
from consensus.solvers import DGD, EXTRA, NEXT, Gossip, GradientTracking, Personalized, SharedBody
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.problems import GRAPH, data, problem
from tests.helpers.refusals import refusals

AGENTS = len(GRAPH)
NETWORK = topologies.Static(GRAPH)
RIDGE = problem("squared", consensus.L2(0.1), scheme="sizes")
OWN = [1, 4]  # a slope and the intercept
SHARED = [0, 2, 3]


def ridge(decay=0.1):
    """Shared parameters (3,) and own ones (A, 2) of the minimiser, by one linear system."""
    size = 3 + 2 * AGENTS
    matrix, right = np.zeros((size, size)), np.zeros(size)
    for agent in range(AGENTS):
        count = RIDGE.shards.sizes[agent]
        X = np.column_stack([RIDGE.shards.features[agent, :count], np.ones(count)])
        wide = np.zeros((count, size))
        wide[:, :3], wide[:, 3 + 2 * agent : 5 + 2 * agent] = X[:, SHARED], X[:, OWN]
        matrix += AGENTS / 60 * wide.T @ wide
        right += AGENTS / 60 * wide.T @ RIDGE.shards.targets[agent, :count, 0]
    matrix += decay * np.diag([AGENTS] * 3 + [1] * (2 * AGENTS))
    found = np.linalg.solve(matrix, right)
    return found[:3], found[3:].reshape(AGENTS, 2)


DEFAULTS = """EXTRA NIDS DADMM DLM ATG DiNNO LTADMM NewtonTracking KGT LED ProxSkip OPAPC AccGT WangElia AutoGT PGEXTRA
ExactDiffusion ProxGT GradientTracking"""
OTHERS = {
    "NEXT, full": NEXT(FullLinearization(6.0), 0.5),
    "NEXT, partial": NEXT(PartialLinearization(0.5), 0.3),
    "NEXT, local curvature": NEXT(PartialLinearization(0.5, "local"), 0.3),
    "gossip": Gossip(EXTRA(), 2),
}


@pytest.mark.parametrize("name", [*DEFAULTS.split(), *OTHERS])
def test_ridge_is_the_solution_of_a_linear_system(name):
    solver = OTHERS[name] if name in OTHERS else getattr(solvers, name)()
    body, heads = ridge()
    result = consensus.solve(RIDGE, NETWORK, SharedBody(solver, OWN), rounds=1500, record_every=50, tolerance=2e-13)
    np.testing.assert_allclose(result.w[:, SHARED], np.tile(body, (AGENTS, 1)), rtol=0, atol=1e-10)
    np.testing.assert_allclose(result.w[:, OWN], heads, rtol=0, atol=1e-10)
    assert result.history["stationarity"][-1] < 1e-10
    assert result.history["disagreement"][-1] < 1e-10
    objective = RIDGE.value(result.w).sum() + 0.05 * np.square(result.w).sum(axis=1).mean()
    np.testing.assert_allclose(result.history["objective"][-1], objective, rtol=1e-13)
    assert result.personal


CENTRES = np.random.default_rng(0).standard_normal((AGENTS, 5))
SCALES = np.random.default_rng(1).uniform(0.5, 2, (AGENTS, 5))
SEPARABLE = """DGD(0.02) GradientTracking(0.02) EXTRA(0.02) ExactDiffusion(0.02) PGEXTRA(0.02) NIDS(0.02) ProxGT(0.02)
KGT(0.02,3) LED(0.02,3) ProxSkip(0.02,0.4) DecentLaM(0.005) QGDSGDm(0.005) DSGDm(0.01) DiLoCo(0.01,4,direction=None)
WangElia(0.02) ATG(0.5) LTADMM(0.02) GradientTracking(0.02,'cta') D2(0.005) NEXT(FullLinearization(4.0),0.5)"""


def separable(places):
    """Costs whose coordinates have nothing to do with each other, of some coordinates."""
    c, s = CENTRES[:, places], SCALES[:, places]
    return consensus.Problem.from_functions(
        lambda w, rows: (s[rows] * (np.sqrt(1 + (w - c[rows]) ** 2) + 0.1 * w**2)).sum(axis=1) / AGENTS,
        lambda w, rows: s[rows] * ((w - c[rows]) / np.sqrt(1 + (w - c[rows]) ** 2) + 0.2 * w) / AGENTS,
        agents=AGENTS,
        parameters=len(places),
        lipschitz=3.0,
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", SEPARABLE.split())
def test_body_and_heads_move_as_they_would_without_each_other(text):
    """The shared coordinates as on the network, the others as those of agents without edges: bit by bit."""
    solver = eval(text, {name: getattr(solvers, name) for name in solvers.__all__} | {"FullLinearization": FullLinearization})
    run = {"rounds": 20, "start": np.zeros(5)}
    apart = topologies.schedule_from_matrix(np.eye(AGENTS))
    both = consensus.solve(separable(range(5)), NETWORK, SharedBody(solver, OWN), **run).w
    body = consensus.solve(separable(SHARED), NETWORK, solver, rounds=20, start=np.zeros(3)).w
    heads = consensus.solve(separable(OWN), apart, solver, rounds=20, start=np.zeros(2)).w
    np.testing.assert_array_equal(both[:, SHARED], body)
    np.testing.assert_array_equal(both[:, OWN], heads)


# Deep models


def test_heads_of_an_mlp_are_trained_on_each_agents_own_labels():
    """The classes mean something else at every agent: one model for all is wrong, heads of one's own are not."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((AGENTS, 80, 4))
    hidden = np.tanh(X @ rng.standard_normal((4, 3)))
    y = (np.einsum("ash,ah->as", hidden, rng.standard_normal((AGENTS, 3))) > 0).astype(float)
    train, test = (consensus.Shards.from_list(list(zip(X[:, part], y[:, part]))) for part in (slice(40), slice(40, None)))
    p = consensus.Problem(consensus.MLP([4, 8, 1]), consensus.LogisticLoss(), train, consensus.L2(1e-2))
    errors = {}
    for name, solver in (("one", GradientTracking(0.3)), ("own", SharedBody(GradientTracking(0.3), own="1"))):
        result = consensus.solve(p, NETWORK, solver, rounds=400, test=test, record_every=100)
        errors[name] = result.history["test_error"][-1]
    assert errors["own"] < 0.6 * errors["one"]
    assert result.history["objective"][-1] < 0.5 * result.history["objective"][0]
    shared = 4 * 8 + 8
    assert result.history["floats"][-1] == shared * result.history["messages"][-1]  # of the body alone
    assert np.ptp(result.w[:, :shared], axis=0).max() < 0.05 < np.ptp(result.w[:, shared:], axis=0).max()
    predicted = p.model.predict(result.w, test.features)[..., 0] > 0
    wrong = (predicted != test.targets[..., 0]).mean(axis=1)
    assert abs(wrong - result.history["agent_test_error"][-1]).max() < 0.03  # at the mean body


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh())
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        return self.head(self.body(x))


@pytest.mark.slow
@pytest.mark.parametrize("buffers", ["average", "keep"])
def test_a_module_of_pytorch_has_heads_by_name(buffers):
    X, y = data()
    shards = consensus.partition(X, y, AGENTS, "sorted")
    torch.manual_seed(0)
    module = Net().double()
    p = consensus.Problem(consensus.models.Torch(module, buffers=buffers), consensus.SquaredLoss(), shards)
    solver = SharedBody(DGD(0.02, batch=5), own="head")
    result = consensus.solve(p, NETWORK, solver, rounds=60, test=(X, y), record_every=30)
    names = [part.name for part in p.model.layout]
    assert names[-2:] == ["head.weight", "head.bias"]
    assert np.ptp(result.w[:, -1]) > 10 * np.ptp(result.w[:, :-7], axis=0).max()
    assert result.history["objective"][-1] < 0.7 * result.history["objective"][0]
    points = np.tile(result.mean, (AGENTS, 1))
    points[:, -7:] = result.w[:, -7:]
    found = p.buffers(points)
    costs = [p.restrict([k]).evaluated(found[k]).value(points[k : k + 1])[0] for k in range(AGENTS)]
    np.testing.assert_allclose(result.history["objective"][-1], sum(costs), rtol=1e-12)
    errors = [((p.model.evaluated(row).predict(w[None], X[None])[0] - y[:, None]) ** 2).mean() for row, w in zip(found, points)]
    np.testing.assert_allclose(result.history["test_error"][-1], np.mean(errors), rtol=1e-12)


# Around it, and what is refused


def test_wrappers_around_it_see_the_shared_parameters_alone():
    p = RIDGE
    plain = consensus.solve(p, NETWORK, SharedBody(DGD(0.05), OWN), rounds=30)
    robust = consensus.solve(p, NETWORK, NNA(SharedBody(DGD(0.05), OWN), byzantine_weight=0.0), rounds=30)
    np.testing.assert_allclose(robust.w, plain.w, rtol=1e-13)
    twice = consensus.solve(p, NETWORK, Gossip(SharedBody(DGD(0.05), OWN), 2), rounds=30)
    inside = consensus.solve(p, NETWORK, SharedBody(Gossip(DGD(0.05), 2), OWN), rounds=30)
    np.testing.assert_array_equal(twice.w, inside.w)
    assert twice.history["floats"][-1] == 2 * plain.history["floats"][-1]
    quiet = Private(SharedBody(DGD(0.05), OWN), clip=1e6, noise=1e-12)
    private = consensus.solve(p, NETWORK, quiet, rounds=30)
    np.testing.assert_allclose(private.w, plain.w, atol=1e-9)
    assert private.personal


test_refusals = refusals(
    (lambda: SharedBody(solvers.SGP(0.1), [0]), TypeError, "doubly stochastic"),
    (lambda: SharedBody(solvers.RelaySGD(0.1), [0]), TypeError, "takes messages one by one"),
    (lambda: SharedBody(NNA(DGD(0.1), 0.1), [0]), TypeError, r"NNA\(SharedBody\(\.\.\.\), \.\.\.\)"),
    (lambda: SharedBody(solvers.ChocoSGD(TopK(0.3)), [0]), TypeError, "ChocoSGD compresses them"),
    (lambda: SharedBody(Personalized(), [0]), TypeError, "Personalized, whose objective"),
    (lambda: SharedBody(solvers.TreeLBFGS(), [0]), TypeError, "sums along a tree"),
    (lambda: consensus.solve(RIDGE, NETWORK, SharedBody(DGD(0.1), "head"), rounds=1), ValueError,
     r"own must name parameters of the model.*0\.weight, 0\.bias; got 'head'"),
    (lambda: consensus.solve(RIDGE, NETWORK, SharedBody(DGD(0.1), "0"), rounds=1), ValueError, "it keeps 5"),
    (lambda: consensus.solve(RIDGE, NETWORK, SharedBody(DGD(0.1), ()), rounds=1), ValueError, "it keeps 0"),
    (lambda: consensus.solve(RIDGE, NETWORK, SharedBody(DGD(0.1), [5]), rounds=1), ValueError,
     "own must be places from 0 to 4; got 5 to 5"),
    (lambda: consensus.solve(RIDGE, NETWORK, SharedBody(DGD(0.1), [0.5]), rounds=1), TypeError,
     "own must be names of parameters"),
    (lambda: consensus.solve(separable(range(5)), NETWORK, SharedBody(DGD(0.1), "head"), rounds=1), TypeError,
     "own must be places of parameters"),
)  # fmt: skip
