"""Models whose outputs have a shape, such as (tokens, classes): language models, with padding that does not count."""

import numpy as np
import pytest

import consensus
import topologies
from consensus import CrossEntropy, TorchLoss
from consensus.models import JAX, Torch
from consensus.solvers import DGD, AdaptiveNEXT, GradientTracking
from consensus.testing import check_model

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

TOKENS, WORDS, SAMPLES, PAD = 5, 7, 12, -100


class Language(nn.Module):
    """A causal transformer of one layer: the logits of the next word after every token."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 8), nn.Parameter(0.1 * torch.ones(TOKENS, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
        self.out = nn.Linear(8, WORDS)
        self.register_buffer("mask", torch.full((TOKENS, TOKENS), -1e9).triu(1))

    def forward(self, x):
        return self.out(self.layer(self.words(x) + self.places, src_mask=self.mask))


def data():
    """Words, and the next ones; texts have different lengths, and the rest is padding."""
    rng = np.random.default_rng(0)
    text = rng.integers(0, WORDS, (SAMPLES, TOKENS + 1))
    following = text[:, 1:].copy()
    for row, length in enumerate(rng.integers(2, TOKENS + 1, SAMPLES)):
        following[row, length:] = PAD
    return text[:, :-1], following


def problem(loss=None, module=None):
    torch.manual_seed(0)
    module = Language().double() if module is None else module
    shards = consensus.partition(*data(), agents=3, scheme="sizes", sizes=[2, 6, 4])
    return consensus.Problem(Torch(module), loss or CrossEntropy(ignore_index=PAD), shards, consensus.L2(1e-3))


def torch_cost(reduction="mean", **options):
    """The loss of PyTorch on the pooled texts, as a function of a module."""
    x, d = map(torch.from_numpy, data())
    return lambda module: F.cross_entropy(
        module(x).reshape(-1, WORDS), d.reshape(-1), ignore_index=PAD, reduction=reduction, **options
    )


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"weight": (1.0, 2.0, 1.0, 0.5, 3.0, 1.0, 1.0)}], ids=repr)
def test_agents_costs_add_up_to_pytorchs_mean_over_all_tokens(options):
    p = problem(CrossEntropy(**options, ignore_index=PAD))
    point = p.model.init(np.random.default_rng(0))
    module = Language().double()
    module.load_state_dict(p.model.unflatten(point))
    given = {name: torch.tensor(value, dtype=torch.float64) if name == "weight" else value for name, value in options.items()}
    cost = torch_cost(**given)(module)
    cost.backward()
    assert (p.model.outputs, p.model.output_shape, p.dtype) == (TOKENS * WORDS, (TOKENS, WORDS), np.float64)
    assert p.value(np.tile(point, (3, 1))).sum() == pytest.approx(cost.item(), rel=1e-12)
    gradient = np.concatenate([part.grad.numpy().ravel() for _, part in module.named_parameters()])
    np.testing.assert_allclose(p.total_gradient(point), gradient, atol=1e-13)


def test_gradient_descent_is_that_of_pytorch():
    torch.manual_seed(1)
    module = Language().double()
    p = problem(module=module)
    network = topologies.complete(3)  # whose Metropolis weights average exactly
    one = consensus.solve(p, network, GradientTracking(0.5), rounds=5, test=data())
    optimiser, cost = torch.optim.SGD(module.parameters(), lr=0.5, weight_decay=1e-3), torch_cost()
    for _ in range(5):
        optimiser.zero_grad()
        cost(module).backward()
        optimiser.step()
    trained = np.concatenate([part.detach().numpy().ravel() for part in module.parameters()])
    np.testing.assert_allclose(one.w, np.tile(trained, (3, 1)), atol=1e-12)
    assert one.history["objective"][-1] < 0.98 * one.history["objective"][0]
    x, d = data()
    logits = p.model.predict(one.mean[None], x[None])[0].reshape(SAMPLES, TOKENS, WORDS)
    wrong = (logits.argmax(axis=2) != d)[d != PAD]
    assert one.history["test_error"][-1] == pytest.approx(wrong.mean(), abs=1e-12)


def test_losses_of_pytorch_take_tokens():
    def of_tokens(f, d):
        return F.cross_entropy(f.reshape(-1, WORDS), d.reshape(-1), ignore_index=PAD, reduction="sum")

    theirs, ours = problem(TorchLoss(of_tokens, labels=True)), problem()
    w = np.tile(ours.model.init(np.random.default_rng(0)), (3, 1))
    counted = (data()[1] != PAD).sum()  # theirs is divided by the number of samples
    np.testing.assert_allclose(theirs.gradient(w) * SAMPLES / counted, ours.gradient(w), atol=1e-13)


@pytest.mark.slow
def test_processes_have_the_bits_of_one_process(forked):
    run = {"rounds": 3, "test": data()}
    one, two = (
        consensus.solve(problem(), topologies.ring(3), DGD(0.5, batch=2), **run, engine=engine)
        for engine in ("stacked", consensus.engines.Processes(workers=2))
    )
    np.testing.assert_array_equal(one.w, two.w)
    np.testing.assert_array_equal(one.history["test_error"], two.history["test_error"])


def test_models_with_shapes_keep_the_contract():
    check_model(Torch(nn.Sequential(nn.Linear(4, 6), nn.Unflatten(1, (2, 3)))), features=4)
    model = Torch(nn.Sequential(nn.Embedding(WORDS, 3), nn.Tanh(), nn.Linear(3, WORDS))).for_samples((TOKENS,), np.int64)
    w, x = model.init(np.random.default_rng(0)).astype(float)[None], data()[0][None, :3]
    jacobian, v = model.jacobian(w, x), np.random.default_rng(1).standard_normal(w.shape)
    np.testing.assert_allclose((jacobian @ v[:, :, None])[..., 0], model.jvp(w, x, v).reshape(1, -1), atol=1e-12)
    np.testing.assert_allclose(jacobian.sum(axis=1), model.vjp(w, x, np.ones((1, 3, TOKENS * WORDS))), atol=1e-12)


def test_functions_of_jax_may_return_tokens():
    jax = pytest.importorskip("jax")

    def apply(parameters, x):
        return jax.numpy.tanh(x @ parameters).reshape(len(x), 2, 3)

    x, w = np.random.default_rng(0).standard_normal((2, 5, 4)), np.random.default_rng(1).standard_normal((2, 24))
    model = JAX(apply, np.zeros((4, 6)))
    np.testing.assert_allclose(model.predict(w, x), np.tanh(x @ w.reshape(2, 4, 6)), atol=1e-12)


def test_what_does_not_fit_is_named():
    shards = consensus.partition(data()[0], data()[1][:, :1], agents=3)
    with pytest.raises(ValueError, match=r"targets must have 5 labels, or 35 numbers for a sample's outputs \(5, 7\) of Torch"):
        consensus.Problem(Torch(Language()), CrossEntropy(ignore_index=PAD), shards)
    wide = nn.Sequential(nn.Linear(1, 5000), nn.Unflatten(1, (50, 100)))
    shards = consensus.partition(np.ones((4, 1)), np.zeros((4, 50)), agents=2)
    p = consensus.Problem(Torch(wide), CrossEntropy(), shards)
    with pytest.raises(ValueError, match="the curvature of 50 labels with 100 classes is a matrix of order 5000"):
        consensus.solve(p, topologies.complete(2), AdaptiveNEXT(), rounds=1)
    consensus.solve(p, topologies.complete(2), DGD(0.1), rounds=1)


class Segmentation(nn.Module):
    """A convolution whose outputs have PyTorch's layout (samples, classes, height, width), or that of what is done to them."""

    def __init__(self, classes, then=lambda outputs: outputs):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.then = nn.Conv2d(2, classes, 3, padding=1, dtype=torch.float64), then

    def forward(self, x):
        return self.then(self.conv(x))


def pictures(classes, height, width, collate):
    """Images and their labels, in memory or read by ``collate``, and the problem of a module on them."""
    rng = np.random.default_rng(1)
    x, d = rng.standard_normal((9, 2, height, width)), rng.integers(0, classes, (9, height, width))
    if not collate:
        shards = consensus.partition(x, d.reshape(9, -1), agents=3)
        return x, d, lambda module, loss=None: consensus.Problem(Torch(module), loss or CrossEntropy(), shards)
    from consensus.data import LazyShards
    from consensus.problems import LazyProblem

    items = [*zip(torch.from_numpy(x), torch.from_numpy(d), strict=True)]
    shards = LazyShards.from_list(
        [items[:4], items[4:]], lambda items: tuple(torch.stack([item[part] for item in items]) for part in (0, 1))
    )
    return x, d, lambda module, loss=None: LazyProblem(Torch(module), loss or CrossEntropy(), shards)


@pytest.mark.parametrize("collate", [False, True], ids=["Problem", "LazyProblem"])
@pytest.mark.parametrize(("sizes", "first", "last"), [
    ((3, 4, 5), "movedim(1, -1)", None),
    ((5, 4, 3), "movedim(1, -1)", None),
    ((4, 3, 4), "movedim(1, -1).flatten(1)", "flatten(1)"),  # as many classes as columns of pixels
    ((4, 4, 4), "movedim(1, -1).flatten(1)", "flatten(1)"),
])  # fmt: skip
def test_pytorchs_layout_is_refused_and_the_remedies_are_its_loss(sizes, first, last, collate):
    x, d, problem = pictures(*sizes, collate)
    remedy = rf"outputs.{first}".replace(".", r"\.").replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(ValueError, match=rf"labels each: .*{remedy}"):
        problem(Segmentation(sizes[0]))
    mended = Segmentation(sizes[0], lambda outputs: eval(f"outputs.{first}"))  # as the message has it
    p, cost = problem(mended), Segmentation(sizes[0])(torch.from_numpy(x))
    w = p.model.init(np.random.default_rng(0))
    assert p.objective(w) == pytest.approx(nn.functional.cross_entropy(cost, torch.from_numpy(d)).item(), rel=1e-12)
    if last:
        p = problem(Segmentation(sizes[0], lambda outputs: outputs.movedim(1, -1).flatten(1)))
        assert p.objective(w) == pytest.approx(nn.functional.cross_entropy(cost, torch.from_numpy(d)).item(), rel=1e-12)


@pytest.mark.parametrize("collate", [False, True], ids=["Problem", "LazyProblem"])
@pytest.mark.parametrize("sizes", [(3, 4, 5), (5, 3, 5), (4, 4, 4)])
def test_losses_of_pytorch_take_its_layout_and_errors_count_its_classes(sizes, collate):
    x, d, problem = pictures(*sizes, collate)

    def loss(f, d):
        return F.cross_entropy(f.view(-1, *sizes), d.view(-1, *sizes[1:]), reduction="none").mean((1, 2))

    p = problem(Segmentation(sizes[0]), TorchLoss(loss, labels=True))
    w, logits = p.model.init(np.random.default_rng(0)), Segmentation(sizes[0])(torch.from_numpy(x))
    assert p.objective(w) == pytest.approx(F.cross_entropy(logits, torch.from_numpy(d)).item(), rel=1e-12)
    test = [*zip(torch.from_numpy(x), torch.from_numpy(d), strict=True)] if collate else (x, d.reshape(9, -1))
    network = topologies.complete(p.agents)
    run = consensus.solve(p, network, DGD(0.5, batch=2), rounds=20, test=test)
    module = Segmentation(sizes[0])
    module.load_state_dict(p.model.state_dict(run.mean))
    wrong = (module(torch.from_numpy(x)).argmax(1).numpy() != d).mean()
    assert run.history["test_error"][-1] == pytest.approx(wrong, abs=1e-12)


def test_labels_of_one_place_in_pytorchs_layout():
    module = nn.Sequential(nn.Linear(4, 3), nn.Unflatten(1, (3, 1)))
    shards = consensus.partition(np.ones((6, 4)), np.arange(6) % 3, agents=2)
    with pytest.raises(ValueError, match=r"outputs.movedim\(1, -1\), as by .* super\(\).forward\(x\).movedim\(1, -1\)$"):
        consensus.Problem(Torch(module), CrossEntropy(), shards)


class Last(nn.Sequential):
    def forward(self, x):
        return super().forward(x).movedim(1, -1)


def test_the_remedies_for_maps_of_labels_work():
    rng = np.random.default_rng(0)
    X, labels = rng.random((12, 1, 4, 4), np.float32), rng.integers(0, 3, (12, 4, 4))
    with pytest.raises(ValueError, match=r"got \(12, 4, 4\); flatten the labels of each sample: y.reshape\(12, -1\)$"):
        consensus.partition(X, labels, agents=2)
    shards = consensus.partition(X, labels.reshape(12, -1), agents=2)
    module = Last(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 1))
    p = consensus.Problem(Torch(module), CrossEntropy(), shards)
    found = consensus.solve(
        p, topologies.complete(2), consensus.solvers.DGD(0.1), rounds=1, start=p.model.init(np.random.default_rng(0))
    )
    logits = module(torch.from_numpy(X)).movedim(-1, 1)
    mean = nn.functional.cross_entropy(logits, torch.from_numpy(labels))
    assert found.history["objective"][0] == pytest.approx(float(mean), rel=1e-6)
