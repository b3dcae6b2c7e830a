"""ResNet against PyTorch's automatic differentiation, the differential equation it solves, and as a model to train."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import consensus
import topologies
from consensus.models import ResNet, linearize
from consensus.solvers import NEXT, GradientTracking
from consensus.surrogates import PartialLinearization


def in_torch(model, w, x, u):
    """The outputs, and the gradient of sum(u f) in w, of one agent by PyTorch."""
    torch = pytest.importorskip("torch")
    act = {"tanh": torch.tanh, "relu": torch.relu, "softplus": torch.nn.functional.softplus}[model.activation]
    w = torch.tensor(w, requires_grad=True)
    parts = [w[part.start : part.start + int(np.prod(part.shape))].reshape(part.shape) for part in model.layout]
    (first, shift), *residual, (head, bias) = zip(parts[::2], parts[1::2], strict=True)
    state = act(torch.tensor(x) @ first + shift)
    for weights, shift in residual:
        state = state + model.step * act(state @ weights + shift)
    outputs = state @ head + bias
    (outputs * torch.tensor(u)).sum().backward()
    return outputs.detach().numpy(), w.grad.numpy()


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [ResNet(5, 7, 6, 2), ResNet(3, 8, 4, 1, 0.6, "relu"), ResNet(2, 5, 33, 3, None, "softplus"), ResNet(4, 6, 1024, 2)],
    ids=str,
)
def test_outputs_and_gradients_are_those_of_pytorch(model):
    rng = np.random.default_rng(0)
    w = np.array([model.init(rng) + 0.1 * rng.standard_normal(model.parameters) for _ in range(2)])
    x, u = rng.standard_normal((2, 9, model.features)), rng.standard_normal((2, 9, model.outputs))
    outputs, gradients = model.predict(w, x), model.vjp(w, x, u)
    for agent in range(2):
        wanted, slope = in_torch(model, w[agent], x[agent], u[agent])
        np.testing.assert_allclose(outputs[agent], wanted, rtol=0, atol=1e-13 * np.abs(wanted).max())
        np.testing.assert_allclose(gradients[agent], slope, rtol=0, atol=1e-13 * np.abs(slope).max())


def test_more_layers_solve_the_differential_equation_more_finely():
    """With the same W and b in all layers the states approach u' = tanh(u W + b); the error is that of Euler, O(1 / L)."""
    rng = np.random.default_rng(1)
    x, (first, head), (W, b) = (
        rng.standard_normal(3),
        rng.standard_normal((2, 4, 3)),
        np.split(rng.standard_normal((5, 4)), [4]),
    )
    start = np.tanh(x @ first.T)
    equation = solve_ivp(lambda _, u: np.tanh(u @ W + b[0]), (0, 1), start, rtol=1e-12, atol=1e-14)
    wanted, errors = equation.y[:, -1] @ head, []
    for layers in (64, 128, 256, 512):
        w = np.concatenate([first.T.ravel(), np.zeros(4), *[np.append(W, b)] * layers, head.ravel(), np.zeros(3)])
        errors.append(np.abs(ResNet(3, 4, layers, 3).predict(w, x[None])[0] - wanted).max())
    assert errors[0] < 0.05
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 2, rtol=0.02)


def test_a_start_is_glorots_in_every_layer():
    model = ResNet(40, 50, 60, 30)
    start = model.init(np.random.default_rng(3))
    for part in model.layout:
        values = start[part.start : part.start + int(np.prod(part.shape))]
        if len(part.shape) == 1:
            assert not values.any()
        else:
            assert values.var() == pytest.approx(2 / sum(part.shape), rel=4 * np.sqrt(2 / values.size))


@pytest.mark.parametrize(
    ("solver", "rounds"),
    [(GradientTracking(0.6), 1000), (NEXT(PartialLinearization(0.05), 0.8), 150)],
    ids=["gradients", "surrogates"],
)
def test_solvers_and_surrogates_reach_the_minimum_of_scipy(solver, rounds):
    """The convex surrogates use the Jacobian of the linearization; the minimum is that of SciPy's BFGS from the same start."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    model = ResNet(3, 3, 2, 1)
    shards = consensus.partition(X, np.sin(X[:, 0]) + 0.5 * X[:, 1], agents=4, seed=0)
    problem = consensus.Problem(model, consensus.SquaredLoss(), shards, consensus.L2(0.05))
    start = model.init(np.random.default_rng(1))

    def value_and_slope(w):
        return problem.objective(w), problem.total_gradient(w) + problem.regularizer.gradient(w[None])[0]

    least = minimize(value_and_slope, start, jac=True, method="BFGS", options={"gtol": 1e-9})
    result = consensus.solve(problem, topologies.complete(4), solver, rounds=rounds, record_every=rounds, start=start)
    assert result.history["objective"][-1] == pytest.approx(least.fun, rel=1e-6)


def test_products_share_one_pass_and_a_predictor_file_has_its_settings(tmp_path):
    model = ResNet(3, 4, 5, 1, 0.3, "softplus")
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((2, model.parameters)), rng.standard_normal((2, 6, 3))
    outputs, linearization = linearize(model, w, x)
    np.testing.assert_array_equal(outputs, model.predict(w, x))
    u, v = rng.standard_normal((2, 6, 1)), rng.standard_normal((2, model.parameters))
    np.testing.assert_allclose(  # adjoint
        (linearization.vjp(u) * v).sum(axis=1), (linearization.jvp(v) * u).sum(axis=(1, 2)), rtol=1e-12
    )
    data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    model = ResNet(data.X.shape[1], 4, 5, 1, 0.3, "softplus")
    predictor = consensus.Predictor(model, model.init(rng), data.pipeline)
    predictor.save(tmp_path / "resnet.predictor")
    read = consensus.load(tmp_path / "resnet.predictor")
    assert repr(read.model) == repr(model)
    np.testing.assert_array_equal(read.predict(data.X_test), predictor.predict(data.X_test))
