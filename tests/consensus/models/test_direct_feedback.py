"""Direct feedback alignment of perceptrons against a plain statement of it in NumPy, and what it is refused."""

import itertools

import numpy as np
import pytest

import consensus
import topologies
from consensus.asynchronous import ASYSONATA
from consensus.centralized import SandblasterLBFGS
from consensus.deep.alignment import angle
from consensus.models import MLP, DirectFeedback, linearize
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
from tests.helpers.feedback import SEED, SLOPES, WIDTHS, by_hand, drawn, feedback


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
    assert not hasattr(p.model, "jacobian")
    assert not hasattr(p.model, "gram")
    with pytest.raises(TypeError, match="give the solver a step_size="):
        consensus.solve(p, topologies.ring(4), GradientTracking(), rounds=1)
    with pytest.raises(ValueError, match=r"u must have shape \(3, 6, 1\)"):
        p.model.vjp(w, x, u[:, :4])


def test_angles_need_directions():
    with pytest.raises(TypeError, match=r"problem must have a consensus\.models.DirectFeedback as its model"):
        alignment(small(MLP([5, 3, 1])))
