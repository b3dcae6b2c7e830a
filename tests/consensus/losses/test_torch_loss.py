"""Losses of PyTorch against the package's own, and who takes them."""

import functools

import numpy as np
import pytest

import consensus
import topologies
from consensus import CrossEntropy, Huber, LogisticLoss, SquaredLoss, TorchLoss
from consensus.solvers import (
    DADMM,
    DGD,
    EXTRA,
    NEXT,
    AdaptiveNEXT,
    GradientTracking,
    NetworkGIANT,
    NewtonTracking,
    TreeLBFGS,
    TreeNewton,
)
from consensus.surrogates import FullLinearization, PartialLinearization
from consensus.testing import check_loss
from tests.helpers.refusals import refusals
from tests.helpers.turns import in_turn, with_slow

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
RNG = np.random.default_rng(0)
X, Y, KINDS = RNG.standard_normal((24, 4)), RNG.standard_normal((24, 3)), RNG.integers(0, 3, 24)
NETWORK = topologies.ring(4)


def half_squares(f, d):
    return (f - d).square().sum() / 2


PAIRS = {
    "squared, sum": (TorchLoss(half_squares), SquaredLoss(), Y),
    "Huber, none": (TorchLoss(nn.HuberLoss(reduction="none", delta=0.7)), Huber(0.7), Y),
    "logistic, module": (TorchLoss(nn.BCEWithLogitsLoss(reduction="sum")), LogisticLoss(), (Y > 0).astype(float)),
    "classes": (TorchLoss(functools.partial(F.cross_entropy, reduction="sum"), labels=True), CrossEntropy(), KINDS[:, None]),
    "weights in float32": (
        TorchLoss(nn.CrossEntropyLoss(torch.tensor([1.0, 4.0, 0.5]), reduction="none", label_smoothing=0.1), labels=True),
        CrossEntropy([1.0, 4.0, 0.5], 0.1),
        KINDS[:, None],
    ),
}
every_pair = pytest.mark.parametrize("name", PAIRS)


@every_pair
def test_values_and_gradients_are_those_of_our_losses(name):
    theirs, ours, d = PAIRS[name]
    f, d = np.stack([X[:, :3], 3 * X[:, 1:]]), np.stack([d, d[::-1]])
    np.testing.assert_allclose(theirs.value(f, d), ours.value(f, d), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(theirs.gradient(f, d), ours.gradient(f, d), rtol=1e-13, atol=1e-14)
    if theirs.labels or name == "squared, sum":
        np.testing.assert_array_equal(theirs.error(f, d), ours.error(f, d))


@every_pair
def test_it_keeps_the_contract_of_losses(name):
    loss, _, d = PAIRS[name]
    assert "gradient is the slope of value" in check_loss(loss, d[:6], outputs=3).errors


def problem(loss, targets, model=None):
    shards = consensus.partition(X, targets, agents=4, scheme="sizes", sizes=[3, 8, 6, 7])
    return consensus.Problem(model or consensus.MLP([4, 5, 3]), loss, shards, consensus.L2(0.24), reduction="sum")


@pytest.mark.parametrize(
    ("name", "solver"),
    in_turn(PAIRS, [GradientTracking(0.004), DGD(0.004, batch=3), NEXT(FullLinearization(120.0), 0.5), TreeLBFGS()]),
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_solvers_of_first_order_take_it(name, solver):
    theirs, ours, d = PAIRS[name]
    runs = [consensus.solve(problem(loss, d), NETWORK, solver, rounds=5, test=(X, d)) for loss in (theirs, ours)]
    np.testing.assert_allclose(runs[0].w, runs[1].w, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(runs[0].history["objective"], runs[1].history["objective"], rtol=1e-11)


@pytest.mark.slow
def test_modules_and_processes_agree_but_for_rounding():
    loss, _, d = PAIRS["weights in float32"]
    model = consensus.models.Torch(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)))
    p = problem(loss, d, model)
    runs = [consensus.solve(p, NETWORK, DGD(0.004, batch=3), rounds=4, engine=e).w for e in ("stacked", "processes")]
    np.testing.assert_allclose(*runs, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("solver", "who"), [
    (AdaptiveNEXT(), "AdaptiveNEXT"),
    (NEXT(PartialLinearization(1.0), 0.5), "PartialLinearization"),
    (NewtonTracking(), "NewtonTracking"),
    (NetworkGIANT(0.1), "NetworkGIANT"),
    (TreeNewton(), "TreeNewton"),
    (DADMM(1.0), "PartialLinearization"),
], ids=lambda value: value if isinstance(value, str) else None)  # fmt: skip
def test_solvers_that_need_a_convex_loss_say_so_before_any_work(solver, who):
    loss, _, d = PAIRS["classes"]
    p = problem(loss, d)
    with pytest.raises(TypeError, match=rf"^{who} needs a convex loss, and TorchLoss.*labels=True\) need not be convex"):
        consensus.solve(p, NETWORK, solver, rounds=1)
    assert p.work.gradients == 0


@pytest.mark.filterwarnings("ignore:EXTRA's theory needs convex costs")
def test_steps_that_need_a_curvature_must_be_given():
    loss, _, d = PAIRS["classes"]
    with pytest.raises(TypeError, match=r"has no known curvature, nor a bound on it: .* give its step_size"):
        consensus.solve(problem(loss, d, consensus.Linear(4, 3)), NETWORK, EXTRA(), rounds=1)
    with pytest.raises(TypeError, match="a modulus of strong convexity needs a convex loss"):
        problem(loss, d, consensus.Linear(4, 3)).strong_convexity()
    with pytest.warns(UserWarning, match=r"EXTRA's theory needs convex costs, and TorchLoss.* need not be convex"):
        consensus.solve(problem(loss, d, consensus.Linear(4, 3)), NETWORK, EXTRA(0.001), rounds=1)


# Losses of a whole batch, which no sum over samples is


def cox(f, d):
    """Cox's partial likelihood: targets are times and whether there was an event."""
    order = torch.argsort(d[:, 0], descending=True)
    return -((f[order, 0] - torch.logcumsumexp(f[order, 0], 0)) * d[order, 1]).sum()


def contrastive(f, d):
    one, other = f.chunk(2, dim=1)
    return F.cross_entropy(one @ other.T, torch.arange(len(f)))


def supervised(f, d):
    near = F.normalize(f, dim=1) @ F.normalize(f, dim=1).T
    others = 1 - torch.eye(len(f))
    same = (d == d[:, 0]) * others
    shares = near - torch.log((near.exp() * others).sum(1, keepdim=True))
    return -((same * shares).sum(1) / same.sum(1).clamp(min=1)).mean()


def worst(f, d):
    return torch.logsumexp((f - d).square().sum(1), dim=0)


def ranking(f, d):
    return F.softplus((f.T - f) * torch.sign(d - d.T)).sum()


def spread(f, d):
    return (f - d).square().sum() + 0.5 * f.var(0).sum()


TIMES = np.stack([RNG.permutation(24), np.arange(24) % 8 == 7], axis=1).astype(float)
BATCH = {  # function, targets, outputs, what it is
    "Cox": (cox, TIMES, 1, "sum"),
    "Cox, mean": (lambda f, d: cox(f, d) / len(f), TIMES, 1, "mean"),
    "contrastive": (contrastive, Y, 4, "mean"),
    "supervised contrastive": (supervised, KINDS[:, None].astype(float), 3, "mean"),
    "logsumexp": (worst, Y, 3, "mean"),
    "variance": (spread, Y, 3, "sum"),
    "mean": (F.mse_loss, Y, 3, "mean"),
    "mean of pairs": (lambda f, d: ranking(f, d) / len(f) ** 2, Y[:, :1], 1, "mean"),
}


def over_batches(name):
    function, targets, outputs, _ = BATCH[name]
    parts = [(X[:8], targets[:8]), (X[8:], targets[8:])]
    torch.manual_seed(0)
    model = consensus.models.Torch(nn.Linear(4, outputs).double())
    return consensus.Problem(model, TorchLoss(function, over="batch"), consensus.Shards.from_list(parts))


@pytest.mark.parametrize("name", with_slow(BATCH, *list(BATCH)[1::2]))
def test_a_loss_of_a_batch_is_each_agents_own_as_in_pytorch(name):
    function, targets, outputs, reduction = BATCH[name]
    p = over_batches(name)
    model = p.model
    assert p.loss.reduction == reduction
    shares = [1 / 24, 1 / 24] if reduction == "sum" else [8 / 24, 16 / 24]

    def by_hand(w, agent, places=slice(None)):
        """The agent's loss and gradient, as PyTorch has them, of some of its samples."""
        net = nn.Linear(4, outputs).double()
        net.load_state_dict(model.state_dict(w))
        own = [slice(0, 8), slice(8, 24)][agent]
        x, d = (torch.from_numpy(array[own][places]) for array in (X, targets))
        value = function(net(x), d) * shares[agent]
        value.backward()
        return value.item(), torch.cat([part.grad.ravel() for part in net.parameters()]).numpy()

    w = np.stack([model.init(RNG), model.init(RNG) + 1])
    np.testing.assert_allclose(p.value(w), [by_hand(w[agent], agent)[0] for agent in (0, 1)], rtol=1e-12)
    np.testing.assert_allclose(p.gradient(w), [by_hand(w[agent], agent)[1] for agent in (0, 1)], atol=1e-13)
    np.testing.assert_array_equal(p.gradient(w)[:1], p.restrict([0]).gradient(w[:1]))  # nobody else's samples
    rule, start = consensus.Minibatches(6), model.init(RNG)
    run = consensus.solve(p, topologies.complete(2), DGD(0.05, batch=rule), rounds=4, start=start, test=(X, targets))
    points = np.tile(start, (2, 1))
    for n in range(4):
        batch, gradients = rule.at(p, n), np.empty_like(points)
        for agent in (0, 1):
            places = batch.indices[agent][batch.weights[agent] > 0]
            scale = [8, 16][agent] / len(places) if reduction == "sum" else 1
            gradients[agent] = 2 * scale * by_hand(points[agent], agent, places)[1]
        points = np.full((2, 2), 0.5) @ points - 0.05 * gradients
    np.testing.assert_allclose(run.w, points, rtol=1e-10, atol=1e-12)
    if targets.shape[1] != outputs:  # the test error is the loss of the test set, as a mean
        f = torch.from_numpy(model.predict(run.mean, X))
        whole = function(f, torch.from_numpy(targets)).item() / (24 if reduction == "sum" else 1)
        assert run.history["test_error"][-1] == pytest.approx(whole, rel=1e-12)


def test_read_shards_and_native_models_have_losses_of_batches_too():
    from consensus.data import LazyShards
    from consensus.problems import LazyProblem

    datasets = [(X[:8], TIMES[:8]), (X[8:], TIMES[8:])]
    loss, model = TorchLoss(cox, over="batch"), consensus.MLP([4, 3, 1])
    whole = consensus.Problem(model, loss, consensus.Shards.from_list(datasets))
    read = LazyProblem(model, loss, LazyShards.from_list(datasets, chunk=16))
    runs = [consensus.solve(p, topologies.complete(2), DGD(0.1, batch=6), rounds=3) for p in (whole, read)]
    np.testing.assert_allclose(runs[0].w, runs[1].w, rtol=1e-12)
    np.testing.assert_allclose(runs[0].history["objective"], runs[1].history["objective"], rtol=1e-12)
    with pytest.raises(
        ValueError, match=r"loss of all samples of an agent together, .* 10 at a time: give LazyShards a chunk of 16"
    ):
        LazyProblem(model, loss, LazyShards.from_list(datasets, chunk=10))


@pytest.mark.slow
def test_losses_of_batches_agree_in_processes_but_for_rounding():
    p = over_batches("contrastive")
    runs = [
        consensus.solve(p, topologies.complete(2), DGD(0.05, batch=6), rounds=3, engine=e).w for e in ("stacked", "processes")
    ]
    np.testing.assert_allclose(*runs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", BATCH)
def test_losses_over_samples_are_tried_on_many_targets(name):
    function, targets, outputs, _ = BATCH[name]
    with pytest.raises(
        ValueError, match=r"must return the sum over samples, or a loss for each; .* over='batch'\) for a loss of"
    ):
        problem(TorchLoss(function), targets, consensus.MLP([4, 5, outputs]))


def test_one_odd_target_among_thousands_shows():
    rare = np.zeros((4000, 2))
    rare[:, 0], rare[3210, 1] = RNG.permutation(4000), 1
    with pytest.raises(ValueError, match=r"the gradient of sample .* depends on the others"):
        TorchLoss(cox).check(rare, 1)


class Noisy(nn.Module):
    def forward(self, f, d):
        return (f - d).square().sum() * (1 + 0.1 * torch.rand(()))


CENTRES = nn.Parameter(torch.ones(3, dtype=torch.float64))


class Centres(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Parameter(torch.ones(3, 2))

    def forward(self, f, d):
        return (f - self.c.to(f.dtype)[d]).square().sum(1)


@pytest.mark.parametrize(("make", "targets", "words"), [
    (lambda: TorchLoss(Noisy()), Y, "draws random numbers: .* what is random belongs into the module"),
    (lambda: TorchLoss(lambda f, d: (f - CENTRES).square().sum(1)), Y,
     r"has a gradient in a tensor \(3,\) of its own, which no"),
    (lambda: TorchLoss(Centres(), labels=True), KINDS,
     r"no parameters to train, .*; Centres has c: call requires_grad_\(False\)"),
    (lambda: TorchLoss(half_squares, reduction="sum"), Y, "reduction is that of a loss over='batch'"),
    (lambda: TorchLoss(half_squares, over="agents"), Y, "over must be"),
    (lambda: TorchLoss(nn.MSELoss(reduction="none"), over="batch"), Y, "reduction='mean' or reduction='sum'; MSELoss"),
    (lambda: TorchLoss(lambda f, d: (f - d).square(), over="batch"), Y, r"it must return a number for a batch; got \(24, 3\)"),
    (lambda: TorchLoss(ranking, over="batch"), Y[:, :1],
     "on a batch that is given twice are 4, 4, 4 times .* a sum 2: give red"),
    (lambda: TorchLoss(lambda f, d: (f[::2] - f[1::2]).square().mean(), over="batch"), Y,
     "fails on a batch of 7 samples: Runtime"),
])  # fmt: skip
def test_what_nobody_could_train_or_repeat_is_refused_with_the_shards(make, targets, words):
    with pytest.raises(ValueError, match=words):
        problem(make(), targets, consensus.MLP([4, 5, 1 if np.shape(targets)[1:] == (1,) else 3]))


def test_remedies_of_losses_work():
    constant = Centres().requires_grad_(False)
    assert problem(TorchLoss(constant, labels=True), KINDS, consensus.MLP([4, 5, 2])).loss.least == 1
    given = problem(TorchLoss(ranking, over="batch", reduction="mean"), Y[:, :1], consensus.MLP([4, 5, 1]))
    assert given.loss.reduction == "mean"

    class WithCentres(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.c = nn.Linear(4, 2), nn.Parameter(torch.ones(3, 2))

        def forward(self, x):
            f = self.net(x)
            return torch.cat([f, self.c.reshape(1, -1).expand(len(f), -1)], 1)

    def to_centres(f, d):
        return (f[:, :2] - f[:, 2:].reshape(-1, 3, 2)[torch.arange(len(f)), d]).square().sum(1)

    p = problem(TorchLoss(to_centres, labels=True), KINDS, consensus.models.Torch(WithCentres().double()))
    run = consensus.solve(p, NETWORK, GradientTracking(0.003), rounds=60)
    assert run.history["objective"][-1] < 0.8 * run.history["objective"][0]
    assert not np.allclose(p.model.unflatten(run.mean)["c"], 1, atol=0.1)


def test_solvers_that_need_single_samples_are_refused_by_name():
    from consensus.privacy import Private
    from consensus.solvers import GTSAGA, GTVR

    p = over_batches("contrastive")
    for solver in (GTSAGA(0.1), GTVR(0.1, batch=4)):
        with pytest.raises(ValueError, match=rf"^{type(solver).__name__} needs the losses of single samples, and TorchLoss"):
            consensus.solve(p, topologies.complete(2), solver, rounds=1)
    with pytest.raises(TypeError, match="Private needs gradients of single samples, and TorchLoss"):
        consensus.solve(p, topologies.complete(2), Private(DGD(0.1), clip=1.0, noise=1.0), rounds=1)
    consensus.solve(p, topologies.complete(2), TreeLBFGS(), rounds=2)  # of all samples it is one function
    pairs = over_batches("variance")
    with pytest.raises(
        ValueError, match=r"is a loss of two samples or more, and DGD with batch=.* draws single ones: take another"
    ):
        consensus.solve(pairs, topologies.complete(2), DGD(0.01, batch=7), rounds=1)
    weighted = consensus.partition(X, Y, agents=2, sample_weight=np.arange(1.0, 25))
    with pytest.raises(ValueError, match=r"samples have no weights of their own; these have 1 to 24: leave sample_weight out"):
        consensus.Problem(consensus.MLP([4, 5, 4]), TorchLoss(contrastive, over="batch"), weighted)


def test_probabilities_are_tried_where_a_loss_takes_no_others():
    model = consensus.models.Torch(nn.Sequential(nn.Linear(4, 3), nn.Sigmoid()).double())
    p = problem(TorchLoss(nn.BCELoss(reduction="none")), (Y > 0).astype(float), model)
    w = model.init(RNG)
    logits = consensus.models.Torch(nn.Linear(4, 3).double())
    same = problem(LogisticLoss(), (Y > 0).astype(float), logits)
    assert p.value(np.tile(w, (4, 1))).sum() == pytest.approx(same.value(np.tile(w, (4, 1))).sum(), rel=1e-9)


def test_losses_of_ones_own_are_tried_as_well():
    class Centred(consensus.losses.Loss):
        convex = False

        def value(self, outputs, targets):
            return np.square(outputs - outputs.mean(axis=-2, keepdims=True) - targets).sum(axis=-1)

        def gradient(self, outputs, targets):
            return 2 * (outputs - outputs.mean(axis=-2, keepdims=True) - targets)

        def curvature(self, outputs, targets):
            raise NotImplementedError

    with pytest.raises(ValueError, match="must be a loss of each sample by itself; the loss of a sample with the target"):
        problem(Centred(), Y)


def test_a_loss_of_a_batch_is_never_added_up_from_parts_of_it():
    """Of shards and test sets that take more memory than one pass of sums over samples does."""
    x = RNG.standard_normal((1300, 4))
    model, targets = consensus.MLP([4, 2000, 1]), RNG.standard_normal((1300, 2))
    p = consensus.Problem(
        model,
        TorchLoss(lambda f, d: torch.logsumexp(f[:, 0] * d[:, 0], 0), over="batch"),
        consensus.Shards.from_list([(x, targets)]),
    )
    w = model.init(np.random.default_rng(0))
    exponents = model.predict(w, x)[:, 0] * targets[:, 0]
    expected = np.logaddexp.reduce(exponents)
    assert p.objective(w) == pytest.approx(expected, rel=1e-12)
    slopes = (np.exp(exponents - expected) * targets[:, 0])[None, :, None]
    np.testing.assert_allclose(p.gradient(w[None]), model.vjp(w[None], x[None], slopes), rtol=1e-9, atol=1e-14)
    run = consensus.solve(p, topologies.complete(1), DGD(1e-12), rounds=1, start=w, test=(x, targets))
    assert run.history["test_error"][-1] == pytest.approx(expected, rel=1e-9)


test_refusals = refusals(
    (lambda: TorchLoss(nn.MSELoss()), ValueError, r"reduction='none' or reduction='sum'; MSELoss\(\) has 'mean'"),
    (lambda: TorchLoss(nn.CrossEntropyLoss(ignore_index=0)), ValueError, r"has 'mean'; consensus.CrossEntropy\(weight=\["),
    (lambda: TorchLoss(nn.MSELoss), TypeError, r"function must be a loss of PyTorch.*; got "),
    (lambda: TorchLoss(3), TypeError, r"function must be a loss of PyTorch.*; got 3"),
    (lambda: TorchLoss(F.mse_loss).check(Y, 3), ValueError, r"TorchLoss\(mse_loss\) must return the sum over samples"),
    (lambda: TorchLoss(F.mse_loss).check(Y[:1], 3), ValueError, r"must return the sum over samples"),
    (lambda: TorchLoss(F.cross_entropy, labels=True).check(Y, 3), ValueError, r"takes whole numbers as targets; got "),
    (lambda: TorchLoss(nn.CrossEntropyLoss(reduction="sum"), labels=True).check(np.array([[0.0], [7.0]]), 3), ValueError,
     r"fails on outputs \(3, 3\) and targets \(3, 1\): IndexError: Target 7 is out of bounds"),
    (lambda: TorchLoss(lambda f, d: f.detach().sum()).check(Y, 3), ValueError, "fails on .*does not require grad"),
    (lambda: TorchLoss(lambda f, d: 3.0).check(Y, 3), ValueError, "it must return a number, or an array .* got 3.0"),
    (lambda: TorchLoss(lambda f, d: (f - d)[:2]).check(Y, 3), ValueError, r"a row for each of 24 samples; got \(2, 3\)"),
    (lambda: TorchLoss(half_squares, labels=1), (TypeError, ValueError), "labels must be"),
)  # fmt: skip
