"""Linearizations and derivatives of outputs along directions: complex steps, PyTorch's forward mode, several tangents."""

from types import SimpleNamespace

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes
from consensus.models import MLP, Convolutional, DirectFeedback, Linear, ResNet, WithTangents, linearize
from consensus.solvers import NEXT, AdaptiveNEXT, GradientTracking
from consensus.solvers.adaptive import gauss_newton
from consensus.solvers.adaptive.curvature import directions
from consensus.surrogates import PartialLinearization
from consensus.testing import check_loss, check_model


class Bare:
    """A model without any optional member but those that are named."""

    def __init__(self, model, *optional):
        for name in ("parameters", "outputs", "init", "predict", "vjp", "jvp", *optional):
            setattr(self, name, getattr(model, name))


class Single(Bare):
    """A linearization that takes one tangent at a time."""

    def __init__(self, model):
        super().__init__(model)
        self.model, self.passes = model, 0

    def linearize(self, w, x):
        self.passes += 1
        outputs, whole = self.model.linearize(w, x)

        def vjp(u, out=None):
            assert u.ndim == 3
            return whole.vjp(u, out)

        def jvp(v):
            assert v.ndim == 2
            return whole.jvp(v)

        return outputs, SimpleNamespace(vjp=vjp, jvp=jvp, gram=whole.gram)


@pytest.mark.parametrize("kind", [lambda model: model, Bare, Single], ids=["whole", "bare", "single"])
@pytest.mark.parametrize(
    "model", [Linear(4, outputs=3), Linear(4, bias=False), MLP([3, 5, 4, 2]), MLP([4, 6, 1], "softplus"), ResNet(3, 4, 3, 2)]
)
def test_products_with_several_tangents_are_those_with_each(model, kind):
    rng = np.random.default_rng(5)
    w, x = rng.standard_normal((3, model.parameters)), rng.standard_normal((3, 4, model.features))
    v, u = rng.standard_normal((3, 6, model.parameters)), rng.standard_normal((3, 6, 4, model.outputs))
    linearization = linearize(kind(model), w, x)[1]
    outputs, back = linearization.jvp(v), linearization.vjp(u)
    for cotangents, wanted in ((u, back), (u[:, 0], back[:, 0])):
        out = np.empty_like(wanted)
        assert linearization.vjp(cotangents, out=out) is out
        np.testing.assert_array_equal(out, wanted)
    for k in range(6):
        np.testing.assert_array_equal(outputs[:, k], model.jvp(w, x, v[:, k]))
        np.testing.assert_array_equal(back[:, k], model.vjp(w, x, u[:, k]))
    shared = np.broadcast_to(np.asfortranarray(v[0]), v.shape)  # as AdaptiveNEXT's directions are
    np.testing.assert_allclose(linearization.jvp(shared), linearization.jvp(shared.copy()), rtol=0, atol=1e-13)


def test_one_pass_serves_all_products():
    model, rng = Single(MLP([4, 3, 1])), np.random.default_rng(0)
    shards = consensus.partition(rng.standard_normal((30, 4)), rng.standard_normal(30), agents=3)
    w, basis = rng.standard_normal((3, 19)), directions(19, 7, 0)
    found, whole = (
        gauss_newton.products(consensus.Problem(either, consensus.SquaredLoss(), shards), w, basis)
        for either in (model, model.model)
    )
    assert model.passes == 1
    np.testing.assert_allclose(found, whole, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("optional", [(), ("jacobian",), ("gram",), ("jacobian", "gram")], ids=str)
@pytest.mark.parametrize("model", [Linear(2), MLP([2, 4, 1])], ids=["more samples", "more parameters"])
def test_a_bare_model_has_what_it_offers_and_runs_as_a_whole_one(model, optional):
    bare, rng = Bare(model, *optional), np.random.default_rng(0)
    w, x = rng.standard_normal((3, model.parameters)), rng.standard_normal((3, 4, 2))
    J, linearization = model.jacobian(w, x), linearize(bare, w, x)[1]
    assert (linearization.gram is not None) == ("gram" in optional)
    assert linearization.diagonal is None
    tolerance = 0 if "jacobian" in optional else 1e-13  # else it is made by vjp
    for columns in (None, np.array([0, 2])):
        wanted = J if columns is None else J[..., columns]
        np.testing.assert_allclose(linearization.jacobian(columns), wanted, rtol=tolerance, atol=tolerance)
    if "gram" in optional:
        np.testing.assert_array_equal(linearization.gram(), model.gram(w, x))

    shards = consensus.partition(rng.standard_normal((22, 2)), rng.standard_normal(22), agents=4, seed=0)
    start, solver = rng.standard_normal(model.parameters), NEXT(PartialLinearization(0.5), 0.3, tolerance=1e-13)
    problems = [consensus.Problem(either, consensus.SquaredLoss(), shards, consensus.L2(0.1)) for either in (bare, model)]
    one, other = (consensus.solve(problem, topologies.ring(4), solver, rounds=10, start=start).w for problem in problems)
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


# Derivatives of outputs along directions: complex steps, PyTorch's forward mode, and gradients of both together.


AGENTS, SAMPLES = 3, 4
MODELS = [
    *(MLP([4, 5, 3, 2], activation) for activation in ("tanh", "sigmoid", "softplus", "quadratic")),
    MLP([4, 2]),
    ResNet(4, 3, 4, 2),
    Convolutional((1, 4, 4), [2, 3], 2),
    Convolutional((2, 4, 2), [3], 1, pool=1, activation="softplus"),
]
every = pytest.mark.parametrize("model", MODELS, ids=str)


def three(x):
    """Directions that depend on the sample."""
    return np.stack([x**2, np.sin(x), np.ones_like(x)], axis=2)


def drawn(model, seed=0):
    rng = np.random.default_rng(seed)
    shape = model.features if isinstance(model.features, tuple) else (model.features,)
    return 0.5 * rng.standard_normal((AGENTS, model.parameters)), rng.standard_normal((AGENTS, SAMPLES, *shape))


@every
def test_outputs_are_the_models_and_their_derivatives(model):
    """Central differences with Richardson's extrapolation: errors of h^4, of the size of rounding over h."""
    both, (w, x) = WithTangents(model, three), drawn(model)
    found = both.predict(w, x).reshape(AGENTS, SAMPLES, 4, model.outputs)
    np.testing.assert_allclose(found[:, :, 0], model.predict(w, x), rtol=0, atol=1e-15 * np.abs(found).max())

    def slope(v, h):
        return (model.predict(w, x + h * v) - model.predict(w, x - h * v)) / (2 * h)

    for number in range(3):
        v = three(x)[:, :, number]
        wanted = (4 * slope(v, 5e-4) - slope(v, 1e-3)) / 3
        np.testing.assert_allclose(found[:, :, 1 + number], wanted, rtol=0, atol=2e-10 * np.abs(wanted).max())


@every
def test_products_with_the_jacobian_of_both_keep_the_laws_of_models(model):
    report = check_model(WithTangents(model, three))
    assert report.errors["jvp and differences of predict"] < 1e-8
    assert report.errors["vjp and jvp, u . J v = J' u . v"] < 1e-13
    assert report.errors["linearize's jacobian and jvp"] < 1e-12
    if not isinstance(model, Convolutional):
        check_model(WithTangents(model, three), dtype=np.float32)


def test_pytorch_has_the_same_derivatives_and_gradients_of_them():
    torch = pytest.importorskip("torch")
    model = MLP([4, 5, 3, 2])
    both, (w, x) = WithTangents(model, three), drawn(model)
    u = np.random.default_rng(5).standard_normal((AGENTS, SAMPLES, both.outputs))
    for agent in range(AGENTS):
        point = torch.from_numpy(w[agent]).requires_grad_()

        def network(h, point=point):
            for layer, (start, m, k) in enumerate(model.matrices):
                end = start + m * k
                h = h @ point[start:end].reshape(m, k) + point[end : end + k]
                h = torch.tanh(h) if layer < 2 else h
            return h

        features = torch.from_numpy(x[agent])
        directions = torch.from_numpy(three(x[None, agent])[0]).unbind(1)
        parts = [network(features), *(torch.func.jvp(network, (features,), (v,))[1] for v in directions)]
        outputs = torch.cat(parts, dim=1)
        np.testing.assert_allclose(both.predict(w, x)[agent], outputs.detach().numpy(), rtol=0, atol=1e-13)
        (wanted,) = torch.autograd.grad((outputs * torch.from_numpy(u[agent])).sum(), [point])
        np.testing.assert_allclose(both.vjp(w, x, u)[agent], wanted.numpy(), rtol=0, atol=1e-13 * wanted.abs().max().item())


def test_of_a_relu_the_derivatives_are_those_of_its_pieces():
    model = MLP([4, 6, 2], "relu")
    both, (w, x) = WithTangents(model, three), drawn(model)
    step = 1e-7 * three(x)[:, :, 1]
    wanted = (model.predict(w, x + step) - model.predict(w, x)) / 1e-7
    np.testing.assert_allclose(both.predict(w, x)[:, :, 4:6], wanted, rtol=0, atol=1e-6)


def test_constant_directions_are_those_of_a_function_of_them():
    model = Convolutional((1, 4, 4), [2], 2)
    w, x = drawn(model)
    v = np.random.default_rng(1).standard_normal((2, 1, 4, 4))
    constant, function = WithTangents(model, v), WithTangents(model, lambda x: np.broadcast_to(v, (*x.shape[:2], *v.shape)))
    assert (constant.count, constant.outputs) == (2, 6)
    np.testing.assert_array_equal(constant.predict(w, x), function.predict(w, x))
    np.testing.assert_array_equal(constant.predict(w[0], x[0]), constant.predict(w, x)[0])


def blurred(x):
    """The difference of images from their shifted copies."""
    return (np.roll(x, 1, axis=-1) - x)[:, :, None]


def digits(weight, model=None):
    X, y = consensus.datasets.load("digits")
    X, y = X.reshape(-1, 1, 8, 8)[:80] / 16, y[:80] % 3
    model = Convolutional((1, 8, 8), [3, 4], 3) if model is None else model
    loss = consensus.TangentPropagation(consensus.CrossEntropy(), weight)
    shards = consensus.partition(X, y, agents=4)
    return consensus.Problem(WithTangents(model, blurred), loss, shards, consensus.L2(1e-3)), (X, y)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [GradientTracking(1.0), AdaptiveNEXT(), NEXT(PartialLinearization(0.3), 0.5)], ids=str)
def test_every_kind_of_solver_trains_both(solver):
    p, test = digits(0.1)
    found = consensus.solve(p, topologies.complete(4), solver, rounds=30, exchanges=30, test=test).history
    assert found["objective"][-1] < 0.9 * found["objective"][0]
    assert 0 <= found["test_error"][-1] <= 1


@pytest.mark.slow
def test_weight_zero_trains_the_model_itself_and_weight_makes_derivatives_small():
    p, _ = digits(0.0)
    own = consensus.Problem(p.model.model, consensus.CrossEntropy(), p.shards, p.regularizer)
    run = {"network": topologies.ring(4), "solver": GradientTracking(0.3), "rounds": 20, "seed": 0}
    np.testing.assert_allclose(consensus.solve(p, **run).mean, consensus.solve(own, **run).mean, rtol=0, atol=1e-13)
    X, sizes = p.shards.features, []
    for weight in (0.0, 3.0):
        mean = consensus.solve(digits(weight)[0], **run | {"rounds": 150}).mean
        sizes.append(np.square(p.model.predict(np.tile(mean, (4, 1)), X)[..., 3:]).mean())
    assert sizes[1] < 0.2 * sizes[0]


def test_runs_have_equal_bits_in_worker_processes(forked):
    p, test = digits(0.1)
    run = {"network": topologies.ring(4), "solver": GradientTracking(0.3, batch=5), "rounds": 6, "test": test}
    here, there = consensus.solve(p, **run), consensus.solve(p, engine=Processes(2), **run)
    np.testing.assert_array_equal(here.w, there.w)
    np.testing.assert_array_equal(here.history["objective"], there.history["objective"])


@pytest.mark.parametrize(
    ("loss", "targets", "outputs"),
    [
        (consensus.TangentPropagation(consensus.CrossEntropy(weight=[1.0, 2.0, 0.5]), 0.3, 2), [0, 2, 1, 1], 9),
        (consensus.TangentPropagation(consensus.SquaredLoss(), 2.0), [[1.0, 2.0], [0.0, -1.0]], 4),
        (consensus.TangentPropagation(consensus.LogisticLoss(), 0.1, 3), [0, 1, 1], 4),
        (consensus.TangentPropagation(consensus.Huber(), 0.0), [1.0, 2.0], 2),
    ],
    ids=str,
)
def test_the_loss_keeps_the_laws_of_losses(loss, targets, outputs):
    report = check_loss(loss, targets, outputs)
    assert report.errors["gradient is the slope of value"] < 1e-8


def test_what_does_not_fit_is_rejected():
    for model in (Linear(4), DirectFeedback(MLP([4, 3, 1])), "MLP"):
        with pytest.raises(TypeError, match=r"model must be a consensus\.MLP, models\.Convolutional or models\.ResNet"):
            WithTangents(model, np.ones((1, 4)))
    for wrong in (np.ones(4), np.ones((2, 5)), np.ones((0, 4)), lambda x: x):
        with pytest.raises(ValueError, match=r"directions must have shape \(T, 4\) for each sample of MLP"):
            WithTangents(MLP([4, 3, 1]), wrong)
    uneven = WithTangents(MLP([4, 3, 1]), lambda x: x[:, :1, None])
    with pytest.raises(ValueError, match=r"directions must return shape \(3, 4, 1, 4\) for x \(3, 4, 4\); got"):
        uneven.predict(*drawn(uneven.model))
    both, (w, x) = WithTangents(MLP([4, 3, 1]), np.ones((1, 4))), drawn(MLP([4, 3, 1]))
    with pytest.raises(ValueError, match=r"u must have shape \(3, 4, 2\) for WithTangents"):
        both.vjp(w, x, np.ones((3, 4, 1)))
    with pytest.raises(ValueError, match="v must have the shape of w"):
        both.jvp(w, x, w[:, :3])
    loss, shards = consensus.SquaredLoss(), consensus.partition(x[0], np.ones(4), agents=2)
    with pytest.raises(ValueError, match="directions of TangentPropagation must be those of the model"):
        consensus.Problem(both, consensus.TangentPropagation(loss, 0.1, directions=2), shards)
    with pytest.raises(TypeError, match=r"loss must be a consensus\.losses\.Loss"):
        consensus.TangentPropagation("squared", 0.1)
    with pytest.raises(ValueError, match="weight of TangentPropagation must be"):
        consensus.TangentPropagation(loss, -1.0)
