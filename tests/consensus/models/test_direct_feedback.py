"""Direct feedback alignment against a plain statement of it in NumPy, and PyTorch's own gradients of parts."""

import copy
import itertools
import pickle

import numpy as np
import pytest

import consensus
import topologies
from consensus.asynchronous import ASYSONATA
from consensus.centralized import SandblasterLBFGS, SplitMLP
from consensus.deep.alignment import angle
from consensus.engines import Processes
from consensus.models import MLP, DirectFeedback, Linear, Torch, linearize
from consensus.observe import alignment
from consensus.solvers import (
    DADMM,
    DATOS,
    DGD,
    GTSAGA,
    GTSARAH,
    NEXT,
    SONATA,
    AdaptiveNEXT,
    Gossip,
    GradientTracking,
    NetworkGIANT,
    NewtonTracking,
    TreeLBFGS,
    TreeNewton,
)
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization
from tests.helpers.feedback import AGENTS, SEED, SLOPES, WIDTHS, by_hand, drawn, feedback


@pytest.mark.parametrize("activation", SLOPES)
@pytest.mark.parametrize("widths", [WIDTHS, [2, 3, 1], [4, 1, 6, 1, 2]])
def test_directions_are_those_of_a_plain_loop(activation, widths):
    model = DirectFeedback(MLP(widths, activation), SEED)
    w, x, u = drawn(model.parameters, model.outputs, widths[:1])
    wanted = np.array([by_hand(widths, activation, *own) for own in zip(w, x, u)])
    np.testing.assert_allclose(model.vjp(w, x, u), wanted, rtol=0, atol=1e-13 * np.abs(wanted).max())
    np.testing.assert_array_equal(model.predict(w, x), model.exact.predict(w, x))
    several = linearize(model, w, x)[1].vjp(np.stack([u, -u], axis=1))
    np.testing.assert_array_equal(several, np.stack([model.vjp(w, x, u), -model.vjp(w, x, u)], axis=1))
    for some in (slice(0, 1), slice(1, 3)):  # in the bits of a call with all agents
        np.testing.assert_array_equal(model.vjp(w[some], x[some], u[some]), model.vjp(w, x, u)[some])


def test_the_last_layer_has_its_gradient():
    model = DirectFeedback(MLP(WIDTHS), SEED)
    w, x, u = drawn(model.parameters, model.outputs)
    *hidden, last = model.layers
    found, gradient = model.vjp(w, x, u), model.exact.vjp(w, x, u)
    np.testing.assert_array_equal(found[:, last], gradient[:, last])
    assert [layer.stop - layer.start for layer in model.layers] == [(m + 1) * k for m, k in itertools.pairwise(WIDTHS)]
    for layer in hidden:
        assert np.abs(found[:, layer] - gradient[:, layer]).max() > 0.1 * np.abs(gradient[:, layer]).max()


def test_the_length_of_a_layers_feedback_does_not_grow_with_its_width():
    """E |e B|^2 = |e|^2 / outputs: over 400 seeds to three standard errors, which are sqrt(2 / width) of it each."""
    for width in (10, 100):
        lengths = [np.square(np.ones(5) @ feedback(5, [width, 200], seed)[0]).sum() for seed in range(400)]
        assert abs(np.mean(lengths) - 1) < 3 * np.sqrt(2 / width / 400)


# Training ------------------------------------------------------------------------------------------------------------


def digits(widths=(64, 80, 60, 10)):
    X, y = consensus.datasets.load("digits")
    X, y = X[:600] / 16 - 0.3, y[:600]
    model = DirectFeedback(MLP(widths), SEED)
    return consensus.Problem(model, consensus.CrossEntropy(), consensus.partition(X, y, agents=5), consensus.L2(1e-4))


def test_angles_fall_below_ninety_degrees_in_training():
    p = digits()
    run = consensus.solve(p, topologies.ring(5), GradientTracking(3.0), rounds=100, record_every=50, metrics=alignment(p))
    found = run.history
    for layer in ("angle_0", "angle_1"):
        assert found[layer][0] > 80
        assert found[layer][-1] < 72
    np.testing.assert_array_equal(found["angle_2"], 0)
    assert found["objective"][-1] < 0.05 * found["objective"][0]
    # These are angles of sums over agents, against the plain formula.
    totals = [problem.gradient(np.tile(run.mean, (5, 1))).sum(axis=0) for problem in (p, with_model(p, p.model.exact))]
    for layer, place in enumerate(p.model.layers):
        a, b = (total[place] for total in totals)
        cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
        np.testing.assert_allclose(np.cos(np.radians(found[f"angle_{layer}"][-1])), cosine, atol=1e-14)


def with_model(problem, model):
    return consensus.Problem(model, problem.loss, problem.shards, problem.regularizer)


def test_an_angle_is_that_of_the_plane():
    for degrees in (0, 1e-9, 30, 90, 135, 180):
        turned = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
        np.testing.assert_allclose(angle(np.array([2.0, 0.0]), 5 * turned), degrees, rtol=1e-12)
    assert angle(np.zeros(2), np.ones(2)) == 90
    assert angle(np.zeros(2), np.zeros(2)) == 0


def test_stationarity_is_of_the_gradient_and_iterates_are_of_the_directions():
    p = digits((64, 10, 10))
    exact = with_model(p, p.model.exact)
    w = p.model.init(np.random.default_rng(0))
    assert p.stationarity(w) == exact.stationarity(w)
    np.testing.assert_array_equal(p.total_gradient(w), exact.total_gradient(w))
    stacked = np.tile(w, (5, 1))
    pulled = p.shards.features, p.loss.gradient(p.model.predict(stacked, p.shards.features), p.shards.targets)
    direction = p.model.vjp(stacked, pulled[0], pulled[1] * p.weights[:, :, None])
    np.testing.assert_allclose(p.gradient(stacked), direction, rtol=0, atol=1e-15)
    run = consensus.solve(p, topologies.complete(5), DGD(0.1), rounds=1, start=w)
    expected = w - 0.1 * (direction.sum(axis=0) + p.regularizer.gradient(w[None])[0])
    np.testing.assert_allclose(run.mean, expected, rtol=0, atol=1e-14)
    assert run.history["stationarity"][0] == p.stationarity(w)


# What it is refused ---------------------------------------------------------------------------------------------------

PARTIAL = PartialLinearization(1.0)
REFUSED = [NEXT(PARTIAL, 0.1), NEXT(Blocks(PARTIAL, 2), 0.1), SONATA(PARTIAL, 0.1), Gossip(NEXT(PARTIAL, 0.1), 2)]
REFUSED += [AdaptiveNEXT(), TreeLBFGS(), TreeNewton(columns=2), NewtonTracking(), NetworkGIANT(0.1), DADMM(), DATOS()]
TAKEN = [NEXT(FullLinearization(5.0), 0.1), SONATA(FullLinearization(5.0), 0.1), GTSAGA(0.1, batch=4), GTSARAH(0.1, batch=4)]


def small(model=None):
    X = np.random.default_rng(0).standard_normal((40, 5))
    model = DirectFeedback(MLP([5, 12, 1])) if model is None else model
    return consensus.Problem(model, consensus.SquaredLoss(), consensus.partition(X, X[:, 0], agents=4), consensus.L2(1e-3))


@pytest.mark.filterwarnings("ignore:.*theory needs")
@pytest.mark.parametrize("solver", REFUSED, ids=lambda solver: str(solver)[:50])
def test_solvers_that_need_more_than_directions_refuse_it_by_name(solver):
    words = rf"{type(solver).__name__}.* needs the gradients of the costs, and DirectFeedback\(.*GradientTracking\(0.1\)"
    with pytest.raises(TypeError, match=words):
        consensus.solve(small(), topologies.ring(4), solver, rounds=1)


@pytest.mark.parametrize("solver", TAKEN, ids=lambda solver: type(solver).__name__)
def test_solvers_of_gradients_take_it(solver):
    found = consensus.solve(small(), topologies.ring(4), solver, rounds=100).history
    assert found["objective"][-1] < 0.9 * found["objective"][0]


def test_asynchronous_and_centralised_methods_refuse_it_too():
    with pytest.raises(TypeError, match=r"ASYSONATA.* needs the gradients of the costs"):
        consensus.solve(
            small(), topologies.ring(4), ASYSONATA(PARTIAL, 0.1), rounds=1, engine=consensus.asynchronous.Simulated()
        )
    with pytest.raises(TypeError, match="SandblasterLBFGS needs the gradients of the costs"):
        consensus.centralized.solve(small(), SandblasterLBFGS(replicas=1), rounds=1)


def test_it_has_no_jacobian_and_no_step_from_theory():
    p = small()
    w, x, u = drawn(p.parameters, 1)
    for call in (lambda: p.model.jvp(w, x, w), lambda: linearize(p.model, w, x)[1].jvp(w), p.lipschitz):
        with pytest.raises(TypeError, match="has directions by feedback, and no Jacobian: give the solver a step_size="):
            call()
    assert p.model.jacobian is None
    assert p.model.gram is None
    with pytest.raises(TypeError, match="give the solver a step_size="):
        consensus.solve(p, topologies.ring(4), GradientTracking(), rounds=1)
    with pytest.raises(ValueError, match=r"u must have shape \(3, 6, 1\)"):
        p.model.vjp(w, x, u[:, :4])


def test_angles_need_directions():
    with pytest.raises(TypeError, match=r"problem must have a consensus\.models.DirectFeedback as its model"):
        alignment(small(MLP([5, 3, 1])))


# Direct feedback alignment of modules against that of perceptrons and PyTorch's own gradients of parts.


def module(*widths, activation="Tanh"):
    torch = pytest.importorskip("torch")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [(torch.nn.Linear(*pair), getattr(torch.nn, activation)()) for pair in itertools.pairwise(widths)]
    return torch.nn.Sequential(*list(itertools.chain(*layers))[:-1])


def test_modules_have_the_directions_of_ours():
    ours, theirs = DirectFeedback(MLP(WIDTHS), SEED), DirectFeedback(Torch(module(*WIDTHS)), SEED)
    w, x, u = drawn(ours.parameters, ours.outputs)
    places = [
        [*(start + np.arange(m * k).reshape(m, k).T.ravel()), *(start + m * k + np.arange(k))]
        for start, m, k in ours.exact.matrices
    ]
    order = np.concatenate(places)
    assert theirs.layers == ours.layers
    np.testing.assert_allclose(theirs.predict(w[:, order], x), ours.predict(w, x), rtol=0, atol=1e-13)
    wanted = ours.vjp(w, x, u)[:, order]
    np.testing.assert_allclose(theirs.vjp(w[:, order], x, u), wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


def convolutional(normalised=False, dropped=False):
    nn = pytest.importorskip("torch").nn
    more = ([nn.BatchNorm2d(4)] if normalised else []) + ([nn.Dropout(0.3)] if dropped else [])
    first = nn.Conv2d(1, 4, 3, padding=1), *more, nn.Tanh(), nn.AvgPool2d(2)
    second = nn.Conv2d(4, 6, 3), nn.ReLU(inplace=True), nn.Flatten()
    return nn.Sequential(*first, *second, nn.Linear(24, 5), nn.Tanh(), nn.Linear(5, 3))


def test_convolutions_have_the_directions_of_pytorchs_own_gradients_of_parts():
    """Each part of the module by itself: of the product of its outputs with what reaches it, gradients by autograd."""
    torch = pytest.importorskip("torch")
    net = convolutional().double()
    model = DirectFeedback(Torch(net), SEED)
    w, x, u = drawn(model.parameters, 3, (1, 8, 8))
    w *= 0.3
    matrices = feedback(3, [4 * 16, 24, 5], SEED)
    for agent in range(AGENTS):
        net.load_state_dict(model.unflatten(w[agent]))
        h, direction, e = torch.from_numpy(x[agent]), [], torch.from_numpy(u[agent])
        for part, B in zip((net[:3], net[3:6], net[6:8], net[8:]), [*matrices, np.eye(3)]):
            reached = part(h)
            pulled = (reached.flatten(1) * (e @ torch.from_numpy(B))).sum()
            direction += torch.autograd.grad(pulled, list(part.parameters()))
            h = reached.detach()
        wanted = torch.cat([part.ravel() for part in direction]).numpy()
        np.testing.assert_allclose(model.vjp(w, x, u)[agent], wanted, rtol=0, atol=1e-13 * np.abs(wanted).max())
    assert list(model.unflatten(w[0])) == list(net.state_dict())
    assert model.layers[1:] == (slice(40, 262), slice(262, 387), slice(387, 405))


def images(model, agents=4):
    X, y = consensus.datasets.load("digits")
    X, y = (X.reshape(-1, 1, 8, 8) / 16)[:120].astype(np.float32), y[:120] % 3
    return consensus.Problem(model, consensus.CrossEntropy(), consensus.partition(X, y, agents=agents), consensus.L2(1e-3))


@pytest.mark.slow
@pytest.mark.parametrize("normalised", [False, True])
def test_modules_that_draw_and_normalise_are_trained_in_the_same_bits_in_worker_processes(normalised, forked):
    p = images(DirectFeedback(Torch(convolutional(normalised, dropped=True)), SEED))
    run = {"network": topologies.ring(4), "solver": DGD(0.5, batch=10), "rounds": 200, "seed": 0}
    here, there = consensus.solve(p, **run), consensus.solve(p, engine=Processes(2), **run)
    np.testing.assert_array_equal(here.w, there.w)
    assert here.history["objective"][-1] < 0.5 * here.history["objective"][0]
    exact = consensus.solve(images(p.model.exact), **run)
    assert not np.array_equal(here.w, exact.w)
    np.testing.assert_array_equal(exact.history["objective"][0], here.history["objective"][0])
    np.testing.assert_array_equal(exact.history["stationarity"][0], here.history["stationarity"][0])


def test_what_has_no_layers_is_refused():
    nn = pytest.importorskip("torch").nn
    for model, error, words in (
        (Linear(3), TypeError, r"model must be a consensus.MLP or a consensus.models.Torch\(module\); got"),
        (SplitMLP([3, 2, 1], workers=1), TypeError, "model must be a consensus.MLP or"),
        (MLP([3, 2]), ValueError, "model must have two layers or more"),
        (Torch(nn.Sequential(nn.Flatten(), nn.Linear(3, 2))), ValueError, "model must have two layers or more"),
        (Torch(nn.GRUCell(3, 2)), TypeError, "model must have a torch.nn.Sequential of layers"),
    ):
        with pytest.raises(error, match=words):
            DirectFeedback(model)
    with pytest.raises(ValueError, match="seed of DirectFeedback must be"):
        DirectFeedback(MLP([3, 2, 1]), seed=-1)
    tokens = DirectFeedback(Torch(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))))
    with pytest.raises(ValueError, match=r"one row of outputs a sample; got \(7, 2\)"):
        tokens.for_samples((7, 3))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_has_the_same_directions(copied):
    for model in (DirectFeedback(MLP(WIDTHS), SEED), DirectFeedback(Torch(module(*WIDTHS)), SEED).for_samples((5,))):
        w, x, u = drawn(model.parameters, model.outputs)
        np.testing.assert_array_equal(copied(model).vjp(w, x, u), model.vjp(w, x, u))
        assert str(copied(model)) == str(model)
