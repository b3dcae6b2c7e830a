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


@every_pair
@pytest.mark.parametrize(
    "solver",
    [GradientTracking(0.004), DGD(0.004, batch=3), NEXT(FullLinearization(120.0), 0.5), TreeLBFGS()],
    ids=lambda solver: type(solver).__name__,
)
def test_solvers_of_first_order_take_it(name, solver):
    theirs, ours, d = PAIRS[name]
    runs = [consensus.solve(problem(loss, d), NETWORK, solver, rounds=5, test=(X, d)) for loss in (theirs, ours)]
    np.testing.assert_allclose(runs[0].w, runs[1].w, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(runs[0].history["objective"], runs[1].history["objective"], rtol=1e-11)


@pytest.mark.slow
def test_modules_and_processes_have_the_same_bits():
    loss, _, d = PAIRS["weights in float32"]
    model = consensus.models.Torch(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)))
    p = problem(loss, d, model)
    runs = [consensus.solve(p, NETWORK, DGD(0.004, batch=3), rounds=4, engine=e).w for e in ("stacked", "processes")]
    np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize(
    ("solver", "who"),
    [
        (AdaptiveNEXT(), "AdaptiveNEXT"),
        (NEXT(PartialLinearization(1.0), 0.5), "PartialLinearization"),
        (NewtonTracking(), "NewtonTracking"),
        (NetworkGIANT(0.1), "NetworkGIANT"),
        (TreeNewton(), "TreeNewton"),
        (DADMM(1.0), "PartialLinearization"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
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


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: TorchLoss(nn.MSELoss()), ValueError, r"reduction='none' or reduction='sum'; MSELoss\(\) has 'mean'"),
        (lambda: TorchLoss(nn.MSELoss), TypeError, r"function must be a loss of PyTorch.*; got "),
        (lambda: TorchLoss(3), TypeError, r"function must be a loss of PyTorch.*; got 3"),
        (lambda: TorchLoss(F.mse_loss).check(Y, 3), ValueError, r"TorchLoss\(mse_loss\) must return the sum over samples"),
        (lambda: TorchLoss(F.mse_loss).check(Y[:1], 3), ValueError, r"must return the sum over samples"),
        (lambda: TorchLoss(F.cross_entropy, labels=True).check(Y, 3), ValueError, r"takes whole numbers as targets; got "),
        (
            lambda: TorchLoss(nn.CrossEntropyLoss(reduction="sum"), labels=True).check(np.array([[0.0], [7.0]]), 3),
            ValueError,
            r"fails on outputs \(3, 3\) and targets \(3, 1\): IndexError: Target 7 is out of bounds",
        ),
        (lambda: TorchLoss(lambda f, d: f.detach().sum()).check(Y, 3), ValueError, "fails on .*does not require grad"),
        (lambda: TorchLoss(lambda f, d: 3.0).check(Y, 3), ValueError, "it must return a number, or an array .* got 3.0"),
        (lambda: TorchLoss(lambda f, d: (f - d)[:2]).check(Y, 3), ValueError, r"a row for each of 3 samples; got \(2, 3\)"),
        (lambda: TorchLoss(half_squares, labels=1), (TypeError, ValueError), "labels must be"),
    ],
)
def test_what_is_no_such_loss_is_named(make, error, words):
    with pytest.raises(error, match=words):
        make()
