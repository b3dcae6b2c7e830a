"""What is particular to modules of PyTorch."""

import itertools

import numpy as np
import pytest

import consensus
from consensus.models import Torch
from consensus.testing import check_model
from tests.helpers.turns import in_turn

torch = pytest.importorskip("torch")
nn = torch.nn


def mlp():
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


class Head(nn.Module):
    """A module of one's own: frozen and tied parameters, a buffer, and a parameter that is not used."""

    def __init__(self):
        super().__init__()
        self.first, self.frozen, self.last = nn.Linear(4, 4, bias=False), nn.Linear(4, 4), nn.Linear(4, 2)
        self.again, self.unused = self.first, nn.Parameter(torch.ones(()))
        self.frozen.requires_grad_(False)
        self.register_buffer("shift", torch.full((4,), 0.5))

    def forward(self, x):
        return self.last(torch.tanh(self.again(self.frozen(self.first(x)) + self.shift)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("make", [mlp, Head])
def test_it_passes_the_check(make, dtype):
    report = check_model(Torch(make()), 4, dtype=dtype)
    assert {"jacobian and jvp", "gram and jvp of vjp", "linearize and vjp with out"} <= set(report.errors)


def test_parameters_are_flattened_in_the_order_of_the_module_and_restored():
    module = Head()
    model = Torch(module)
    names = [name for name, part in module.named_parameters() if part.requires_grad]
    assert names == ["unused", "first.weight", "last.weight", "last.bias"]
    w = model.init(np.random.default_rng(0))
    np.testing.assert_array_equal(w, np.concatenate([module.get_parameter(name).detach().numpy().ravel() for name in names]))
    w = w + np.arange(len(w), dtype=np.float32) / 10
    x = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)
    outputs = model.predict(w, x)
    assert not np.allclose(outputs, module(torch.from_numpy(x)).detach())
    module.load_state_dict(model.state_dict(w))
    np.testing.assert_allclose(outputs, module(torch.from_numpy(x)).detach(), rtol=1e-6, atol=1e-6)
    assert module.again.weight is module.first.weight


def test_the_module_that_was_given_stays_as_it_is():
    module = mlp()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = Torch(module)
    repr_before, start = repr(model), model.init(np.random.default_rng(0))
    check_model(model, 4)
    with torch.no_grad():
        module[0].weight.add_(1)
    np.testing.assert_array_equal(model.init(np.random.default_rng(0)), start)
    assert repr(model) == repr_before
    assert torch.equal(module[0].weight, before["0.weight"] + 1)
    assert torch.equal(module[2].weight, before["2.weight"])


def test_of_a_function_every_seed_has_a_start_and_the_generator_is_left_alone():
    before, model = torch.get_rng_state(), Torch(mlp)
    starts = [model.init(np.random.default_rng(seed)) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0], starts[2])
    assert torch.equal(before, torch.get_rng_state())


def test_features_are_not_copied_and_may_be_read_only():
    model, array = Torch(mlp()).for_samples((4,)), np.ones((1, 2, 4))
    array.flags.writeable = False
    assert model._stack(array).data_ptr() == array.ctypes.data


class Direct(nn.Module):
    """Uses the weights of a layer without the layer."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x):
        return nn.functional.linear(torch.tanh(nn.functional.linear(x, self.inner.weight)), self.outer.weight, self.outer.bias)


PLACED = {
    "linear": lambda: nn.Linear(5, 3),
    "layers": lambda: nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 3)),
    "one at a time": lambda: nn.Sequential(nn.Linear(5, 801), nn.Tanh(), nn.Linear(801, 3)),
    "other layers": lambda: nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 3)),
    "direct": Direct,
}


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize(("module", "loss"), in_turn(PLACED, [consensus.CrossEntropy(), consensus.SquaredLoss()]))
def test_gradients_do_not_depend_on_who_shares_a_call(module, loss, dtype, tolerance):
    """But for rounding: products of matrices are rounded by their sizes, and by where they begin in memory."""
    sizes, rng = [2, 30, 7, 21, 1, 20, 9], np.random.default_rng(0)
    X = rng.standard_normal((90, 5)).astype(dtype)
    y = rng.integers(0, 3, 90) if isinstance(loss, consensus.CrossEntropy) else rng.standard_normal((90, 3))
    problem = consensus.Problem(Torch(PLACED[module]()), loss, consensus.partition(X, y, 7, "sizes", sizes=sizes))
    w = rng.standard_normal((7, problem.parameters)).astype(dtype) / 3
    rule = consensus.Minibatches(3)
    whole = problem.gradient(w), problem.value(w), problem.gradient(w, rule.at(problem, 0))
    for start, stop in itertools.combinations(range(8), 2):
        part, own = problem.restrict(np.arange(start, stop)), w[start:stop].copy()
        found = part.gradient(own), part.value(own), part.gradient(own, rule.at(part, 0))
        for array, wanted in zip(found, whole, strict=True):
            scale = tolerance * np.abs(wanted).max()
            np.testing.assert_allclose(array, wanted[start:stop], rtol=tolerance, atol=scale, err_msg=f"{start}:{stop}")


def test_calls_hold_one_thread_and_leave_the_users_settings(monkeypatch):
    found, before = [], torch.get_num_threads()

    class Watching(nn.Linear):
        def forward(self, x):
            found.append(torch.get_num_threads())
            return super().forward(x)

    torch.set_num_threads(2)
    try:
        with torch.no_grad():
            Torch(Watching(4, 2)).vjp(np.ones((3, 10)), np.ones((3, 5, 4)), np.ones((3, 5, 2)))
            assert torch.get_num_threads() == 2
            assert not torch.is_grad_enabled()
    finally:
        torch.set_num_threads(before)
    assert set(found) == {1}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_gives_what_the_cpu_gives():
    rng = np.random.default_rng(0)
    w, x, u = rng.standard_normal((3, 23)), rng.standard_normal((3, 5, 4)), rng.standard_normal((3, 5, 2))
    module = mlp()
    models = [Torch(module, device=device) for device in ("cpu", "cuda")]
    for product in (lambda model: model.vjp(w, x, u), lambda model: model.jvp(w, x, w), lambda model: model.gram(w, x)):
        here, there = map(product, models)
        np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-11)
    check_model(models[1], 4)
