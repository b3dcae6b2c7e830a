"""Direct feedback alignment of modules against that of perceptrons and PyTorch's own gradients of parts."""

import copy
import itertools
import pickle

import numpy as np
import pytest

import consensus
import topologies
from consensus.centralized import SplitMLP
from consensus.engines import Processes
from consensus.models import MLP, DirectFeedback, Linear, Torch
from consensus.solvers import DGD
from tests.helpers.feedback import AGENTS, SEED, WIDTHS, drawn, feedback


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
