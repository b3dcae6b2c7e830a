"""Models of the agents' own: closed forms, CVXPY, both limits, what the history says of them, and refusals."""

import cvxpy as cp
import numpy as np
import pytest
import torch
from torch import nn

import consensus
import topologies
from consensus import solvers
from consensus.compression import TopK
from consensus.engines import Processes
from consensus.privacy import Private
from consensus.robust import NNA
from consensus.solvers import DGD, EXTRA, NEXT, Compressed, Gossip, GradientTracking, Personalized, SharedBody
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.problems import GRAPH, data, problem
from tests.helpers.refusals import refusals

AGENTS = len(GRAPH)
NETWORK = topologies.Static(GRAPH)
RIDGE = problem("squared", consensus.L2(0.1), scheme="sizes")


def similarities(seed=0):
    """Unequal weights on the edges of GRAPH but one, which has none."""
    rng, weights = np.random.default_rng(seed), np.zeros((AGENTS, AGENTS))
    for i, j in list(GRAPH.edges)[1:]:
        weights[i, j] = weights[j, i] = rng.uniform(0.1, 3)
    return weights


def laplacian(weights):
    weights = np.asarray(weights) - np.diag(np.diag(weights))
    return np.diag(weights.sum(axis=1)) - weights


def design(p, agent):
    """X with a column of ones, y and sample weights of f_i = A g_i."""
    size = p.shards.sizes[agent]
    X = np.column_stack([p.shards.features[agent, :size], np.ones(size)])
    return X, p.shards.targets[agent, :size, 0], np.full(size, AGENTS / p.shards.samples)


def ridge(p, weights, strength, decay):
    """The minimiser (A, P) by one linear system."""
    P, L = p.parameters, laplacian(weights)
    matrix, right = strength * np.kron(L, np.eye(P)) + decay * np.eye(AGENTS * P), np.zeros(AGENTS * P)
    for agent in range(AGENTS):
        X, y, c = design(p, agent)
        here = slice(agent * P, (agent + 1) * P)
        matrix[here, here] += X.T @ (c[:, None] * X)
        right[here] = X.T @ (c * y)
    return np.linalg.solve(matrix, right).reshape(AGENTS, P)


def objective(p, weights, strength, w):
    """The objective by its definition, each pair once."""
    pairs = sum(weights[i, j] * np.sum((w[i] - w[j]) ** 2) for i in range(AGENTS) for j in range(i))
    return (sum(AGENTS * p.value(w) + [p.regularizer.value(row) for row in w]) + strength / 2 * pairs) / AGENTS


@pytest.mark.parametrize("strength", [0.0, 0.03, 1.0, 40.0])
@pytest.mark.parametrize("own", [False, True], ids=["mixing weights", "weights"])
def test_ridge_is_the_solution_of_a_linear_system(strength, own):
    weights = similarities() if own else NETWORK.weights(0).toarray()
    result = consensus.solve(RIDGE, NETWORK, Personalized(weights if own else None, strength), rounds=1500)
    np.testing.assert_allclose(result.w, ridge(RIDGE, weights, strength, 0.1), rtol=1e-10, atol=1e-10)
    assert result.history["stationarity"][-1] < 1e-10
    np.testing.assert_allclose(result.history["objective"][-1], objective(RIDGE, weights, strength, result.w), rtol=1e-13)
    assert (result.history["disagreement"] == 0).all()
    assert result.personal


def test_messages_travel_along_pairs_with_weights_only():
    result = consensus.solve(RIDGE, NETWORK, Personalized(similarities()), rounds=10)
    assert result.history["messages"][-1] == 10 * 2 * (GRAPH.number_of_edges() - 1)
    assert result.history["floats"][-1] == 10 * 2 * (GRAPH.number_of_edges() - 1) * 5


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "regularizer"), [("logistic", consensus.L2(0.05)), ("squared", consensus.L1(0.05))])
def test_cvxpy_finds_the_same_models(loss, regularizer):
    p, weights, strength = problem(loss, regularizer, scheme="sizes"), similarities(1), 0.2
    w, costs = cp.Variable((AGENTS, 5)), []
    for agent in range(AGENTS):
        X, y, c = design(p, agent)
        out = X @ w[agent]
        losses = cp.square(out - y) / 2 if loss == "squared" else cp.logistic(out) - cp.multiply(y, out)
        costs.append(c @ losses + regularizer.expression(w[agent]))
    costs += [strength / 2 * weights[i, j] * cp.sum_squares(w[i] - w[j]) for i, j in GRAPH.edges]
    tight = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13}
    least = cp.Problem(cp.Minimize(cp.sum(costs) / AGENTS)).solve(solver="CLARABEL", **tight)
    result = consensus.solve(p, NETWORK, Personalized(weights, strength), rounds=3000)
    np.testing.assert_allclose(result.history["objective"][-1], least, rtol=1e-10)
    np.testing.assert_allclose(result.w, w.value, atol=2e-6)


@pytest.mark.slow
def test_alone_at_one_end_and_one_model_at_the_other():
    alone = np.array([ridge_alone(agent) for agent in range(AGENTS)])
    apart = consensus.solve(RIDGE, NETWORK, Personalized(l=1e-8), rounds=1500).w
    np.testing.assert_allclose(apart, alone, atol=1e-6)
    common = ridge(RIDGE, np.ones((AGENTS, AGENTS)), 1e9, 0.1).mean(axis=0)
    gaps = []
    for strength in (1e3, 1e4):
        together = consensus.solve(RIDGE, NETWORK, Personalized(l=strength), rounds=20_000, record_every=20_000).w
        gaps.append(abs(together - common).max())
    assert gaps[1] < 2e-3
    np.testing.assert_allclose(gaps[0] / gaps[1], 10, rtol=0.05)  # of order 1 / l


def ridge_alone(agent):
    X, y, c = design(RIDGE, agent)
    return np.linalg.solve(X.T @ (c[:, None] * X) + 0.1 * np.eye(5), X.T @ (c * y))


def test_momentum_is_worth_the_square_root_of_the_condition():
    exact = ridge(RIDGE, NETWORK.weights(0).toarray(), 1000.0, 0.1)
    errors = [
        abs(consensus.solve(RIDGE, NETWORK, Personalized(l=1000.0, momentum=beta), rounds=1000).w - exact).max()
        for beta in (0.0, None)
    ]
    assert errors[1] < 1e-7
    assert errors[0] > 1e-2


def test_batches_come_near():
    solver = Personalized(l=1.0, step_size=0.02, batch=4)
    result = consensus.solve(RIDGE, NETWORK, solver, rounds=1500)
    exact = ridge(RIDGE, NETWORK.weights(0).toarray(), 1.0, 0.1)
    assert abs(result.w - exact).max() < 0.2 * abs(exact).max()
    with pytest.raises(TypeError, match="no bound on its step for batches"):
        consensus.solve(RIDGE, NETWORK, Personalized(batch=4), rounds=1)


def test_a_nonconvex_model_reaches_a_stationary_point_by_descent():
    p = problem("squared", consensus.L2(0.05), consensus.MLP([4, 3, 1]), "sizes")
    smooth = problem("squared", None, consensus.MLP([4, 3, 1]), "sizes")
    result = consensus.solve(p, NETWORK, Personalized(similarities(), 0.1), rounds=1000, record_every=20)
    values, measured = result.history["objective"], result.history["stationarity"]
    assert (np.diff(values) <= 1e-12).all()
    assert measured[-1] < measured[0] / 100
    np.testing.assert_allclose(values[-1], objective(p, similarities(), 0.1, result.w), rtol=1e-13)
    w, gradient, step = result.w, np.zeros_like(result.w), 1e-6
    for place in np.ndindex(*w.shape):
        e = np.zeros_like(w)
        e[place] = step
        up, down = (objective(smooth, similarities(), 0.1, w) for w in (w + e, w - e))
        gradient[place] = AGENTS * (up - down) / (2 * step)
    moved = w - (w - gradient) / 1.05  # by the prox of L2(0.05)
    np.testing.assert_allclose(measured[-1], np.sqrt(np.square(moved).sum() / AGENTS), rtol=1e-5)


def test_the_tolerance_needs_no_agreement():
    result = consensus.solve(RIDGE, NETWORK, Personalized(l=0.1), rounds=2000, record_every=1, tolerance=1e-6)
    assert "stationarity" in result.reason
    assert result.rounds < 500


# Test errors and predictors


def test_errors_are_those_of_the_agents_own_models():
    X, y = data(samples=40, seed=1)
    parts = [(X[k::AGENTS], y[k::AGENTS]) for k in range(AGENTS)]
    owners = consensus.Shards.from_list(parts)
    solver = Personalized(similarities(), 0.3)
    result = consensus.solve(RIDGE, NETWORK, solver, rounds=60, test=owners, agent_objectives=True)
    errors = [((RIDGE.model.predict(w[None], X[None])[0, :, 0] - y) ** 2).mean() for w, (X, y) in zip(result.w, parts)]
    history = result.history
    np.testing.assert_allclose(history["agent_test_error"][-1], errors, rtol=1e-12)
    np.testing.assert_allclose(history["test_error"][-1], np.average(errors, weights=owners.sizes), rtol=1e-12)
    np.testing.assert_allclose(history["test_error_worst"][-1], max(errors), rtol=1e-12)
    np.testing.assert_allclose(history["agent_objective"][-1].mean(), history["objective"][-1], rtol=1e-13)
    pooled = consensus.solve(RIDGE, NETWORK, solver, rounds=60, test=(X, y))
    all_errors = [((RIDGE.model.predict(w[None], X[None])[0, :, 0] - y) ** 2).mean() for w in result.w]
    np.testing.assert_allclose(pooled.history["test_error"][-1], np.mean(all_errors), rtol=1e-12)
    np.testing.assert_allclose(pooled.history["test_error_worst"][-1], max(all_errors), rtol=1e-12)


def test_a_predictor_is_that_of_one_agent(tmp_path):
    parts = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    p = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), consensus.partition(parts.X, parts.y, 6))
    test = (parts.X_test, parts.y_test)
    result = consensus.solve(p, NETWORK, Personalized(l=0.1), rounds=50, test=test, keep="test_error", record_every=1)
    assert result.best.round < 50
    np.testing.assert_array_equal(result.predictor(parts.pipeline, agent=2).w, result.best.w[2])
    at_best = consensus.solve(p, NETWORK, Personalized(l=0.1), rounds=result.best.round)
    np.testing.assert_array_equal(result.best.w, at_best.w)
    np.testing.assert_array_equal(at_best.predictor(parts.pipeline, agent=5).w, at_best.w[5])
    with pytest.raises(ValueError, match="agent must be given, 0 to 5: each has a model of its own"):
        result.predictor(parts.pipeline)
    with pytest.raises(ValueError, match="agent"):
        result.predictor(parts.pipeline, agent=6)
    result.save(tmp_path / "run.npz")
    again = consensus.load(tmp_path / "run.npz")
    np.testing.assert_array_equal(again.predictor(parts.pipeline, p.model, agent=2).w, result.best.w[2])
    one = consensus.solve(p, NETWORK, DGD(0.1), rounds=5)
    with pytest.raises(ValueError, match="agent must be left out"):
        one.predictor(parts.pipeline, agent=0)


@pytest.mark.parametrize(
    "engine", ["stacked", pytest.param(Processes(2), marks=pytest.mark.slow)], ids=["stacked", "processes"]
)
def test_the_best_models_survive_a_break(engine, tmp_path, forked):
    settings = {"test": data(), "keep": "test_error_worst", "record_every": 3}
    solver = Personalized(similarities(), 0.1)
    whole = consensus.solve(RIDGE, NETWORK, solver, rounds=60, **settings)
    assert 0 < whole.best.round < 45  # kept before the break
    consensus.solve(RIDGE, NETWORK, solver, rounds=45, checkpoint=tmp_path / "c", engine=engine, **settings)
    resumed = consensus.solve(RIDGE, NETWORK, solver, rounds=60, resume=tmp_path / "c", engine=engine, **settings)
    np.testing.assert_array_equal(resumed.best.w, whole.best.w)
    np.testing.assert_array_equal(resumed.w, whole.w)
    assert resumed.best.value == whole.best.value


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


def test_solvers_with_equal_settings_are_equal():
    here, there = Personalized(np.eye(2)[::-1], 0.5), Personalized(np.eye(2)[::-1], 0.5)
    assert here == there
    assert hash(here) == hash(there)
    assert here != Personalized(2 * np.eye(2)[::-1], 0.5)
    assert "2 agents" in repr(here)


test_refusals = refusals(
    (lambda: consensus.solve(RIDGE, NETWORK, Personalized(np.ones((AGENTS, AGENTS))), rounds=1), ValueError,
     r"weights must be zero except between neighbours; agents \d and \d have 1"),
    (lambda: consensus.solve(RIDGE, NETWORK, Personalized(np.zeros((3, 3))), rounds=1), ValueError,
     r"weights must have shape \(6, 6\)"),
    (lambda: Personalized([[0.0, 1.0], [2.0, 0.0]]), ValueError, r"weights must be symmetric; agents 0 and 1 have 1 and 2"),
    (lambda: Personalized([[0.0, -1.0], [-1.0, 0.0]]), ValueError, "weights must be finite numbers >= 0"),
    (lambda: Personalized([[0.0, np.nan], [np.nan, 0.0]]), ValueError, "weights must be finite numbers >= 0"),
    (lambda: Personalized(np.ones((2, 3))), ValueError, r"weights must be a matrix \(agents, agents\).*got shape \(2, 3\)"),
    (lambda: consensus.estimators.NetworkRegressor(solver=Personalized()).fit(*data()), TypeError, "each agent has its own"),
)  # fmt: skip


# A shared body and heads of one's own: a linear system, laws of separable costs, deep models, what is sent and refused.

OWN = [1, 4]  # a slope and the intercept
SHARED = [0, 2, 3]


def ridge_of_bodies(decay=0.1):
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
def test_ridge_with_a_shared_body_is_the_solution_of_a_linear_system(name):
    solver = OTHERS[name] if name in OTHERS else getattr(solvers, name)()
    body, heads = ridge_of_bodies()
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


test_refusals_of_shared_bodies = refusals(
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
