"""What is particular to modules of PyTorch: gradients by their own calls, agents of a call, threads, refusals."""

import itertools
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import consensus
from consensus.frameworks.torch_derivatives import slopes
from consensus.frameworks.torch_draws import runs_python
from consensus.models import Torch
from consensus.testing import check_model
from tests.helpers import frameworks
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


class Ended(nn.Module):
    """A network of one output, whose last step is the user's own."""

    def __init__(self, end):
        super().__init__()
        self.body, self.end = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)), end

    def forward(self, x):
        return self.end(self.body(x))


@pytest.mark.parametrize("end", [lambda y: y[:, 0], lambda y: y.squeeze()])
@pytest.mark.parametrize("loss", [consensus.SquaredLoss(), consensus.losses.TorchLoss(nn.MSELoss(reduction="sum"))])
def test_one_output_may_have_no_axis_of_its_own(end, loss):
    rng = np.random.default_rng(0)
    shards = consensus.partition(rng.standard_normal((16, 4)), rng.standard_normal(16), agents=4)
    problems = [consensus.Problem(Torch(Ended(end)), loss, shards) for end in (end, lambda y: y)]
    w = rng.standard_normal((4, problems[0].parameters))
    for samples in (slice(None), slice(1)):
        x, u = shards.features[:, samples], rng.standard_normal((4, 4, 1))[:, samples]
        for how in (lambda model, x=x: model.predict(w, x), lambda model, x=x, u=u: model.vjp(w, x, u)):
            np.testing.assert_array_equal(*(how(problem.model) for problem in problems))
    np.testing.assert_array_equal(*(problem.gradient(w) for problem in problems))


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


# Gradients of PyTorch's modules by their own calls.


X = np.random.default_rng(0).standard_normal((24, 3, 8)).astype(np.float32)


class Last(nn.Module):
    """A recurrent layer, of which a part has no influence on the outputs."""

    def __init__(self):
        super().__init__()
        self.inner, self.unused, self.head = nn.GRU(8, 5, batch_first=True), nn.Linear(2, 2), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(self.inner(x)[0][:, -1])


class Repeated(nn.Module):
    """A block that is computed again on the way back, as large networks do to save memory."""

    def __init__(self):
        super().__init__()
        self.block, self.head = nn.Sequential(nn.Linear(24, 6), nn.Dropout(0.5)), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.utils.checkpoint.checkpoint(self.block, x.flatten(1), use_reentrant=False))


def problem(module):
    torch.manual_seed(0)
    return consensus.Problem(Torch(module()), consensus.CrossEntropy(), consensus.partition(X, np.arange(24) % 3, agents=4))


def test_the_bits_are_those_of_the_linearization():
    p = problem(Last)
    w = np.random.default_rng(1).standard_normal((4, p.parameters)).astype(np.float32)
    outputs, linearization = p.linearize(w, slice(None))
    slopes = p.loss.gradient(outputs, p.shards.targets) * p.weights[:, :, None]
    gradient = p.gradient(w)
    np.testing.assert_array_equal(gradient, linearization.vjp(slopes))
    unused = next(array for array in p.model.layout if array.name == "unused.weight")
    assert not gradient[:, unused.start : unused.start + 6].any()


def test_python_on_the_way_back_may_draw_and_has_the_generator_to_itself():
    def backward(module, hook=False):
        outputs = module(torch.ones(2, 24))
        if hook:
            outputs.register_hook(lambda slopes: slopes * torch.rand(()))
        return lambda: torch.autograd.grad(outputs.sum(), list(module.parameters()))

    assert not runs_python(backward(nn.Sequential(nn.Linear(24, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3))))
    assert runs_python(backward(Repeated()))
    assert runs_python(backward(nn.Linear(24, 3), hook=True))
    assert runs_python(lambda: None)  # unknown


@pytest.mark.parametrize("module", [Repeated, lambda: nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(24, 3))])
def test_threads_do_not_share_random_numbers(module, monkeypatch):
    p = problem(module)
    w, batch = np.ones((4, p.parameters), np.float32), consensus.Minibatches(4).at(p, 5)
    one_by_one = p.gradient(w, batch)  # by one thread, as nothing is known of how long it takes
    monkeypatch.setattr("consensus.frameworks.torch_gradients._THREAD", 0.0)
    monkeypatch.setattr("consensus._arrays.parallel._WORTH_BYTES", 0)
    with threadpool_limits(2):
        for _ in range(20):
            np.testing.assert_array_equal(p.gradient(w, batch), one_by_one)


def test_threads_are_worth_it_if_an_agents_quickest_gradient_of_no_more_samples_took_long():
    model = consensus.models.Torch(torch.nn.Linear(3, 1))
    model._seconds.clear()
    assert not model.worth_a_thread(10**6)  # nothing is known
    model._note(100, 5e-3)
    assert [model.worth_a_thread(samples) for samples in (99, 100, 1000)] == [False, True, True]
    model._note(100, 1e-4)  # the first call took long for reasons of its own
    model._note(100, 5e-3)
    assert not model.worth_a_thread(1000)
    model._note(10, 1.0)
    assert model.worth_a_thread(10)


def test_sparse_slopes_of_an_embedding_are_those_of_a_dense_one():
    """Where they are taken of several agents at once, and where a model is linearised."""
    rows = torch.arange(6).reshape(2, 3)
    table = torch.arange(20.0).reshape(10, 2)
    found = []
    for sparse in (True, False):
        leaf = table.clone().requires_grad_()
        outputs = torch.nn.functional.embedding(rows, leaf, sparse=sparse)
        found.append(slopes([outputs], [torch.ones_like(outputs)], [leaf])[0])
    assert not found[0].is_sparse
    assert torch.equal(*found)


# How many agents a call of a PyTorch module has, which changes results by rounding alone.


class Branch(nn.Module):
    """Has a Linear layer, and looks at the numbers of a sample, which functions of several agents cannot."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return self.head(x) if bool((x**2 >= 0).all()) else x[:, :2]


@pytest.mark.parametrize(("make", "shape", "most"), [
    (lambda: nn.Linear(3, 2), (3,), sys.maxsize),
    (lambda: nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 2)), (3,), 1),
    (Branch, (3,), 1),
    (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2)), (1, 4, 4), 5),
], ids=["linear", "other layers", "it fails for several", "convolutions"])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(float)], ids=str)
def test_agents_share_a_call_where_that_is_quicker_and_works(make, shape, most, dtype):
    model = Torch(make()).for_samples(shape, dtype)
    assert model._most(4, dtype) == most
    assert model._most(10**7, dtype) == 1
    w, x = np.ones((3, model.parameters), dtype), np.ones((3, 4, *shape), dtype)
    assert np.isfinite(model.predict(w, x)).all()


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_convolutions_agree_in_every_block(dtype, tolerance):
    model, rng = frameworks.torch_cnn(), np.random.default_rng(0)
    shapes = (model.parameters,), (4, *frameworks.IMAGE), (4, frameworks.CLASSES)
    arrays = [rng.standard_normal((7, *shape)).astype(dtype) for shape in shapes]
    whole = model.vjp(*arrays)
    for rows in (slice(0, 1), slice(1, 3), slice(3, 7), slice(None, None, -1)):
        found = model.vjp(*(array[rows].copy() for array in arrays))
        np.testing.assert_allclose(found, whole[rows], rtol=tolerance, atol=tolerance * np.abs(whole).max())
