"""Modules of PyTorch that are refused, at once or when they are called."""

import contextlib
import functools
import random

import numpy as np
import pytest

import consensus
from consensus.models import Torch
from consensus.testing import check_model
from tests.helpers.refusals import refusals

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional
OWN = np.random.default_rng(0)
GENERATORS = lambda: torch.get_rng_state().tolist(), random.getstate, np.random.get_state


def mlp():
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


@pytest.mark.parametrize(("module", "message"), [
    (lambda: nn.InstanceNorm1d(3, track_running_stats=True), "^module, a InstanceNorm1d, changes with every batch: leave"),
    (lambda: nn.BatchNorm1d(3, track_running_stats=False), "^module, a BatchNorm1d, has no running buffers, so that"),
    (lambda: nn.LazyLinear(3), "^module, a LazyLinear, has no parameters yet: call the module on some samples first$"),
    (nn.Tanh, "^module must have parameters that require a gradient"),
])  # fmt: skip
def test_what_is_no_function_of_a_sample_is_refused(module, message):
    with pytest.raises(ValueError, match=message):
        Torch(module())


def test_layers_that_are_functions_of_a_sample_are_taken():
    """Dropout and batch statistics that are switched off, and layers after the first that work in place."""
    constant = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(), nn.Linear(3, 2)).eval()
    assert Torch(constant).parameters == 15 + 6 + 8
    for module in (constant, nn.Sequential(nn.Linear(4, 3), nn.ReLU(inplace=True), nn.Linear(3, 2))):
        check_model(Torch(module), 4)
        assert Torch(module).for_samples((4,)).outputs == 2


class Changed(nn.Linear):
    """A layer whose outputs go through a function, where only a call shows what that does."""

    def __init__(self, change):
        super().__init__(4, 2)
        self.change = change
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        return self.change(self, x) if self.change in WHOLE else self.change(super().forward(x))


def counting(layer, x):
    """Counts calls in a buffer, as batch statistics do, which outputs do not show."""
    layer.calls += 1
    return functional.linear(x, layer.weight, layer.bias)


def clamping(layer, x):
    layer.weight.data.clamp_(-0.1, 0.1)
    return functional.linear(x, layer.weight, layer.bias)


def drawing_backwards(y):
    if y.requires_grad:
        y.register_hook(lambda slope: slope * torch.rand(()))
    return y


def drawing_on(layer, x):
    """Noise in training from a generator that is not PyTorch's, beside one that is."""
    return functional.linear(x, layer.weight) + (torch.rand(2) + float(np.random.rand()) if layer.training else 0)  # noqa: NPY002


def drawing_unseen(layer, x):
    return functional.linear(x, layer.weight) + (torch.rand(2) + float(OWN.random()) if layer.training else 0)


WHOLE = counting, clamping, drawing_on, drawing_unseen
MIXED = "a sample's outputs depend on the other samples or on their order, as batch statistics, "
SHAPE = r"must return \(samples, outputs\) in the dtype of w, float32; of x .* it made "
BEFORE = nn.ReLU(inplace=True), nn.Linear(4, 2)


@pytest.mark.parametrize(("module", "message"), [
    (functional.dropout, "draws random numbers from PyTorch's generator, as dropout does: leave that out in evaluation"),
    (lambda y: y - y.mean(0), MIXED),
    (lambda y: y.cumsum(0), MIXED + r"cumsum\(0\)"),
    (lambda y: y.sort(0).values, MIXED + r".*sort\(0\)"),
    (lambda y: y + float(np.random.rand()), "draws random numbers from NumPy's global generator"),  # noqa: NPY002
    (lambda y: y + random.random(), "draws random numbers from Python's generator random"),
    (lambda y: y + OWN.random(), "returns other outputs when it is called again"),
    (lambda y: y.sum(), SHAPE + r"float32 \(\)$"),
    (lambda y: y.mean(0), SHAPE + r"float32 \(2,\)$"),
    (lambda y: (y, y), SHAPE + ".*a tuple"),
    (lambda y: y.bfloat16(), SHAPE + r"torch.bfloat16 \(5, 2\)$"),
    (lambda y: y.double(), SHAPE + r"float64 \(5, 2\); in float64 it works: give features X.astype\('float64'\)"),
    (lambda y: y.detach(), r"its outputs have no gradient: leave out detach\(\)"),
    (lambda y: torch.zeros_like(y), "its outputs have no gradient"),
    (lambda y: y.detach().numpy(), "it returns a NumPy array, through which there is no gradient: return the torch.Tensor"),
    (counting, "changes calls when it is called: buffers must stay as they are"),
    (clamping, "writes over the parameters that it gets"),
    (drawing_on, "draws random numbers from NumPy's global generator"),
    (drawing_unseen, "returns other outputs for the same random numbers of PyTorch: draw from its generator alone"),
    (drawing_backwards, "draws random numbers from PyTorch's generator"),
    (nn.Sequential(*BEFORE), ": 0, a ReLU, writes over the features: take inplace=False"),
    (nn.Sequential(nn.Flatten(), *BEFORE), ": 1, a ReLU, writes over the features"),
])  # fmt: skip
def test_what_only_a_call_shows_is_refused_with_the_shards(module, message):
    """Random generators and the agents' features stay as they were."""
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    shards = consensus.partition(x, np.zeros((6, 2)), agents=2)
    model = Torch(module if isinstance(module, nn.Module) else Changed(module))
    features, before = shards.features.copy(), [str(state()) for state in GENERATORS]
    with pytest.raises(ValueError, match=message):
        consensus.Problem(model, consensus.SquaredLoss(), shards)
    assert before == [str(state()) for state in GENERATORS]
    np.testing.assert_array_equal(shards.features, features)


test_bad_arguments = refusals(
    (lambda: Torch(3), TypeError, r"^module must be a torch.nn.Module, or a function that makes one; got 3"),
    (lambda: Torch(lambda: 3), TypeError, r"; it made 3"),
    (lambda: Torch(mlp(), "abacus"), ValueError, "^device must be one that PyTorch has here, such as 'cpu'; got 'abacus'"),
    (lambda: Torch(mlp(), seed=-1), ValueError, "^seed of Torch must be"),
    (lambda: Torch(nn.Sequential(mlp(), nn.Dropout()), "meta"), ValueError,
     r"^1, a Dropout, drops out at random, and PyTorch has no generator of meta whose numbers could be repeated: take"),
    (lambda: Torch(mlp(), None), TypeError, "device must be a name such as 'cpu' or 'cuda:1'; got None"),
    (lambda: Torch(mlp()).outputs, AttributeError, "^outputs of Torch.* are known for samples of a known shape: model.for_"),
    (lambda: Torch(mlp()).for_samples((5,)), ValueError, r"fails on samples of shape \(5,\): RuntimeError: mat1 and mat2"),
    (lambda: Torch(mlp()).predict(np.ones((3, 22)), np.ones((3, 5, 4))), ValueError, r"^w must have shape \(agents, 23\)"),
    (lambda: Torch(mlp()).for_samples((4,)).predict(np.ones((3, 23)), np.ones((3, 5, 3))), ValueError,
     r"^x must have shape \(3, samples, 4\)"),
    (lambda: Torch(mlp()).unflatten(np.ones((3, 23))), ValueError, r"^w must have shape \(23,\)"),
)  # fmt: skip


class Cut(nn.Module):
    """A part that outputs depend on, but no gradient reaches, one that gradients reach, and one that is not used."""

    def __init__(self, how="no_grad"):
        super().__init__()
        self.cut, self.last, self.unused, self.how = nn.Linear(4, 3), nn.Linear(3, 1), nn.Linear(4, 3), how

    def forward(self, x):
        with torch.no_grad() if self.how == "no_grad" else contextlib.nullcontext():
            x = self.cut(x)
        return self.last(torch.relu(x.detach() if self.how == "detach" else x))


@pytest.mark.parametrize("how", ["no_grad", "detach"])
def test_parameters_that_no_gradient_reaches_are_named_and_the_remedy_makes_gradients_true(recwarn, how):
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    shards = consensus.partition(x, np.ones(6, np.float32), agents=2)
    module = Cut(how)
    consensus.Problem(Torch(module), consensus.SquaredLoss(), shards)
    (said,) = (str(warning.message) for warning in recwarn.list)
    assert "depend on cut.weight, cut.bias, but no gradient reaches them" in said
    recwarn.clear()
    module.cut.requires_grad_(False)
    consensus.Problem(Torch(Cut("whole")), consensus.SquaredLoss(), shards)
    problem = consensus.Problem(Torch(module), consensus.SquaredLoss(), shards)
    assert not recwarn.list
    w = problem.model.init(np.random.default_rng(1)).astype(float)
    step = 1e-2 * np.random.default_rng(2).standard_normal(len(w))
    change = problem.objective((w + step).astype("f")) - problem.objective((w - step).astype("f"))
    assert np.isclose(change, 2 * problem.total_gradient(w.astype("f")) @ step, rtol=1e-2)


def summed(function):
    return functools.partial(function, reduction="sum")


@pytest.mark.parametrize(("last", "loss", "columns", "name"), [
    (nn.Softmax(-1), consensus.CrossEntropy(), 3, "softmax"),
    (nn.Softmax(-1), consensus.TorchLoss(nn.CrossEntropyLoss(reduction="sum"), labels=True), 3, "softmax"),
    (nn.Sigmoid(), consensus.LogisticLoss(), 1, "sigmoid"),
    (nn.Sigmoid(), consensus.TorchLoss(nn.BCEWithLogitsLoss(reduction="sum")), 1, "sigmoid"),
    (nn.Sigmoid(), consensus.TorchLoss(nn.BCELoss(reduction="sum")), 1, None),
    (nn.Sigmoid(), consensus.SquaredLoss(), 1, None),
    (nn.LogSoftmax(-1), consensus.CrossEntropy(), 3, None),
    (nn.ReLU(), consensus.CrossEntropy(), 3, None),
    (nn.Sigmoid(), consensus.CrossEntropy(), 3, None),
    (nn.Identity(), consensus.LogisticLoss(), 1, None),
    (nn.Softmax(-1), consensus.TorchLoss(summed(functional.cross_entropy), labels=True), 3, "softmax"),
])  # fmt: skip
def test_probabilities_given_to_a_loss_of_logits_are_said(recwarn, last, loss, columns, name):
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    shards = consensus.partition(x, np.arange(6) % 2, agents=2)
    consensus.Problem(Torch(nn.Sequential(nn.Linear(4, columns), last)), loss, shards)
    said = {str(warning.message) for warning in recwarn.list}
    assert [text.partition("takes logits: ")[2] for text in said] == ([f"leave the last {name} out"] if name else [])


@pytest.mark.parametrize("last", [nn.Identity(), nn.Softmax(-1), nn.LogSoftmax(-1)], ids=str)
@pytest.mark.parametrize("function", [nn.NLLLoss(reduction="sum"), summed(functional.nll_loss)])
def test_anything_else_given_to_a_loss_of_logarithms_is_said(recwarn, last, function):
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    shards = consensus.partition(x, np.arange(6) % 3, agents=2)
    consensus.Problem(Torch(nn.Sequential(nn.Linear(4, 3), last)), consensus.TorchLoss(function, labels=True), shards)
    said = {str(warning.message) for warning in recwarn.list}
    assert len(said) == (not isinstance(last, nn.LogSoftmax))
    assert all("end the model with LogSoftmax(1), or take CrossEntropy(), which takes logits" in text for text in said)


def test_a_loss_of_probabilities_says_which_outputs_it_got():
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    shards = consensus.partition(x, np.arange(6) % 2, agents=2)
    problem = consensus.Problem(Torch(nn.Linear(4, 1)), consensus.TorchLoss(nn.BCELoss(reduction="sum")), shards)
    for call in (problem.gradient, problem.objective):
        with pytest.raises(ValueError, match=r"fails on the model's outputs, 7 to 7: all elements of input should be"):
            call(np.tile([0, 0, 0, 0, 7.0], (2, 1) if call == problem.gradient else 1))


def test_labels_as_pytorch_takes_them_are_the_remedy():
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    shards, function = consensus.partition(x, np.arange(6) % 3, agents=2), nn.CrossEntropyLoss(reduction="sum")
    with pytest.raises(ValueError, match=r"fails on outputs .*; labels=True gives it whole numbers, which it takes"):
        consensus.Problem(Torch(nn.Linear(4, 3)), consensus.TorchLoss(function), shards)
    consensus.Problem(Torch(nn.Linear(4, 3)), consensus.TorchLoss(function, labels=True), shards)
