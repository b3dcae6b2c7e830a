"""The options of the cross-entropy, and several labels per sample, against PyTorch and CVXPY."""

import itertools

import cvxpy as cp
import numpy as np
import pytest

import consensus
import topologies
from consensus import CrossEntropy
from consensus.local import CVXPYSolver
from consensus.solvers import NEXT, AdaptiveNEXT
from consensus.surrogates import FullLinearization, PartialLinearization
from consensus.testing import check_loss
from tests.helpers.refusals import refusals
from tests.helpers.turns import in_turn

torch = pytest.importorskip("torch")
F = torch.nn.functional

CLASSES, WEIGHTS = 4, (0.5, 3.0, 0.0, 7.0)
OPTIONS = [
    {"weight": weight, "label_smoothing": smoothing, "ignore_index": ignored}
    for weight, smoothing, ignored in itertools.product([None, WEIGHTS], [0.0, 0.1, 1.0], [None, -100, 1])
]
every_option = pytest.mark.parametrize("options", OPTIONS, ids=lambda options: repr(CrossEntropy(**options)))


def draw(options, samples=30, seed=0):
    """Logits (samples, CLASSES), and labels of which some are ignored."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, samples)
    if options["ignore_index"] is not None:
        labels[::5] = options["ignore_index"]
    return 2 * rng.standard_normal((samples, CLASSES)), labels


def torch_loss(logits, labels, options, reduction):
    """PyTorch's loss of arrays or tensors."""
    weight = None if options["weight"] is None else torch.tensor(options["weight"], dtype=torch.float64)
    ignored = -100 if options["ignore_index"] is None else options["ignore_index"]
    smoothing = options["label_smoothing"]
    arguments = {"weight": weight, "label_smoothing": smoothing, "ignore_index": ignored, "reduction": reduction}
    return F.cross_entropy(torch.as_tensor(logits), torch.as_tensor(labels), **arguments)


@every_option
def test_values_and_derivatives_are_those_of_pytorch(options):
    logits, labels = draw(options)
    loss, d = CrossEntropy(**options), labels[:, None].astype(float)
    np.testing.assert_allclose(loss.value(logits, d), torch_loss(logits, labels, options, "none"), rtol=1e-13, atol=1e-13)
    f = torch.tensor(logits, requires_grad=True)
    (gradient,) = torch.autograd.grad(torch_loss(f, labels, options, "sum"), f)
    np.testing.assert_allclose(loss.gradient(logits, d), gradient, atol=1e-13)
    for m in range(6):
        hessian = torch.autograd.functional.hessian(
            lambda one, m=m: torch_loss(one[None], labels[m : m + 1], options, "sum"), torch.tensor(logits[m])
        )
        np.testing.assert_allclose(loss.curvature(logits[m : m + 1], d[m : m + 1])[0], hessian, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS[::5], ids=lambda options: repr(CrossEntropy(**options)))
def test_it_keeps_the_contract_of_losses(options):
    labels = [0, 3, 1, 2, 3] if options["ignore_index"] is None else [0, options["ignore_index"], 1, 2, 3]
    assert "expression is the weighted sum of values" in check_loss(CrossEntropy(**options), labels, outputs=CLASSES).errors


@every_option
@pytest.mark.parametrize("scheme", ["iid", "sorted"])
def test_agents_costs_add_up_to_pytorchs_mean_over_the_pooled_data(options, scheme):
    rng = np.random.default_rng(1)
    X, labels = rng.standard_normal((30, 3)), draw(options)[1]
    shards = consensus.partition(X, labels, agents=4, scheme=scheme)
    problem = consensus.Problem(consensus.Linear(3, CLASSES), CrossEntropy(**options), shards)
    point = rng.standard_normal(problem.parameters)
    w = torch.tensor(point, requires_grad=True)
    pooled = torch_loss(torch.tensor(X) @ w[:12].reshape(3, 4) + w[12:], labels, options, "mean")
    pooled.backward()
    assert problem.value(np.tile(point, (4, 1))).sum() == pytest.approx(pooled.item(), rel=1e-12)
    np.testing.assert_allclose(problem.total_gradient(point), w.grad, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "regularizer"),
    in_turn(
        [AdaptiveNEXT(), NEXT(PartialLinearization(0.2), 0.5), NEXT(FullLinearization(2.0), 0.5)],
        [consensus.L2(0.1), consensus.L1(0.05)],
    ),
    ids=repr,
)
def test_every_kind_of_solver_finds_the_weighted_optimum(solver, regularizer):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 3))
    y = np.digitize(X @ [1.0, -1.0, 0.5] + 0.5 * rng.standard_normal(60), [-1, 1])
    keep, weight = np.arange(60) % 6 > 0, [1.0, 5.0, 20.0]
    labels = np.where(keep, y, -1)
    shards = consensus.partition(X, labels, agents=3)
    problem = consensus.Problem(consensus.Linear(3, 3, bias=False), CrossEntropy(weight, ignore_index=-1), shards, regularizer)
    W, v, X, y = cp.Variable((3, 3)), np.array(weight)[y[keep]], X[keep], y[keep]
    costs = cp.multiply(v, cp.log_sum_exp(X @ W, axis=1) - cp.sum(cp.multiply(np.eye(3)[y], X @ W), axis=1))
    stated = cp.Minimize(cp.sum(costs) / v.sum() + regularizer.expression(cp.vec(W, order="C")))
    cp.Problem(stated).solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    result = consensus.solve(problem, topologies.complete(3), solver, rounds=3000, tolerance=1e-7, record_every=10)
    assert problem.objective(result.mean) <= stated.value + 1e-9
    np.testing.assert_allclose(result.mean.reshape(3, 3), W.value, atol=1e-5)


@pytest.mark.parametrize("regularizer", [consensus.L2(0.1), consensus.L1(0.05)], ids=repr)
def test_exact_local_solves_are_those_of_cvxpy(regularizer):
    options = {"weight": WEIGHTS, "label_smoothing": 0.1, "ignore_index": -100}
    X = np.random.default_rng(5).standard_normal((30, 3))
    shards = consensus.partition(X, draw(options)[1], agents=3, scheme="sorted")
    problem = consensus.Problem(consensus.MLP([3, 2, CLASSES]), CrossEntropy(**options), shards, regularizer)
    surrogate, network = PartialLinearization(0.1), topologies.complete(3)
    tight = CVXPYSolver(options={"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13})
    ours, theirs = (consensus.solve(problem, network, NEXT(surrogate, 0.5, local), rounds=3).w for local in (None, tight))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.slow
def test_processes_have_the_bits_of_one_process(forked):
    options = {"weight": WEIGHTS, "label_smoothing": 0.1, "ignore_index": -100}
    X = np.random.default_rng(3).standard_normal((30, 3))
    shards = consensus.partition(X, draw(options)[1], agents=4)
    problem = consensus.Problem(consensus.MLP([3, 4, CLASSES]), CrossEntropy(**options), shards, consensus.L2(0.01))
    run = {"rounds": 4, "test": (X, draw(options)[1])}
    solver = NEXT(PartialLinearization(0.5), 0.3, batch=3)
    one = consensus.solve(problem, topologies.ring(4), solver, **run)
    two = consensus.solve(problem, topologies.ring(4), solver, **run, engine=consensus.engines.Processes(workers=2))
    np.testing.assert_array_equal(one.w, two.w)
    np.testing.assert_array_equal(one.history["test_error"], two.history["test_error"])


def test_ignored_samples_do_not_count_in_the_test_error():
    X, y = np.array([[3.0, 0.0], [0.0, 3.0], [0.0, 3.0], [3.0, 0.0]]), np.array([0, 0, -100, -100])
    problem = consensus.Problem(consensus.Linear(2, 2), CrossEntropy(ignore_index=-100), consensus.partition(X, y, agents=2))
    start, network = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]), topologies.complete(2)
    result = consensus.solve(problem, network, consensus.solvers.DGD(0.1), rounds=1, start=start, test=(X, y))
    assert result.history["test_error"][0] == 0.5
    with pytest.raises(ValueError, match=r"^y of test must have labels that count with CrossEntropy\(ignore_index=-100\)"):
        consensus.solve(problem, network, consensus.solvers.DGD(0.1), rounds=1, test=(X[2:], y[2:]))


def test_tokens_are_labels_of_their_own():
    rng, T, K = np.random.default_rng(4), 3, 4
    for options in OPTIONS:
        logits, labels = rng.standard_normal((2, 5, T * K)), rng.integers(0, K, (2, 5, T))
        if options["ignore_index"] is not None:
            labels[:, ::2, 1:] = options["ignore_index"]
        loss = CrossEntropy(**options)
        of_tokens = torch_loss(logits.reshape(-1, K), labels.ravel(), options, "none").numpy().reshape(2, 5, T)
        np.testing.assert_allclose(loss.value(logits, labels), of_tokens.sum(axis=2), atol=1e-12)
        counted = (labels != options["ignore_index"]) if options["ignore_index"] is not None else np.ones(labels.shape)
        wrong = (logits.reshape(2, 5, T, K).argmax(axis=3) != labels) * counted
        np.testing.assert_allclose(loss.error(logits, labels), wrong.sum(axis=2) / np.maximum(1, counted.sum(axis=2)))


@every_option
def test_its_text_makes_it_again(options):
    loss = CrossEntropy(**options)
    assert eval(repr(loss), {"CrossEntropy": CrossEntropy}) == loss
    assert hash(loss) == hash(CrossEntropy(**options))


def test_the_mean_needs_the_labels_of_all_agents():
    shards = consensus.partition(np.eye(4), [0, 1, 1, 0], agents=2)
    for loss in (CrossEntropy(), CrossEntropy(label_smoothing=0.1)):
        consensus.Problem(consensus.Linear(4, 2), loss, shards.restrict([0]))
    loss = CrossEntropy(weight=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"these are shards of 1 of 2 agents: take reduction='sum'"):
        consensus.Problem(consensus.Linear(4, 2), loss, shards.restrict([0]))
    consensus.Problem(consensus.Linear(4, 2), loss, shards.restrict([0]), reduction="sum")
    with pytest.raises(ValueError, match=r"samples must have labels that count with CrossEntropy\(ignore_index=0\)"):
        consensus.Problem(consensus.Linear(4, 2), CrossEntropy(ignore_index=0), consensus.partition(np.eye(4), [0] * 4, 2))


test_refusals = refusals(
    (lambda: CrossEntropy(weight=[1.0, -1.0]), ValueError,
     r"weight of CrossEntropy must be finite numbers >= 0, one for each class and not all 0; got"),
    (lambda: CrossEntropy(weight=[0.0, 0.0]), ValueError, r"not all 0; got \[0.0, 0.0\]"),
    (lambda: CrossEntropy(weight=2.0), ValueError, r"weight of CrossEntropy must be"),
    (lambda: CrossEntropy(weight=[1.0, np.nan]), ValueError, r"weight of CrossEntropy must be"),
    (lambda: CrossEntropy(label_smoothing=1.5), ValueError, r"label_smoothing must be a finite number >= 0 and <= 1; got 1.5"),
    (lambda: CrossEntropy(ignore_index=1.5), ValueError, r"ignore_index must be a whole number, or None; got 1.5"),
    (lambda: CrossEntropy(ignore_index=True), ValueError, r"ignore_index must be a whole number, or None; got True"),
    (lambda: CrossEntropy(ignore_index=-1).check(np.asarray([[0], [-1], [5]]), 3), ValueError,
     r"or ignore_index=-1; .* is none is 5, of sample 2"),
    (lambda: CrossEntropy().check(np.asarray([[0], [1], [0.25]]), 3), ValueError,
     r"the first that is none is 0.25, of sample 2"),
    (lambda: CrossEntropy(weight=[1.0, 2.0]).check(np.asarray([[0], [1]]), 3), ValueError,
     r"must have a number for each of 3 classes; got 2"),
    (lambda: CrossEntropy().check(np.asarray(np.zeros((4, 2))), 5), ValueError,
     r"T labels per sample need T times K outputs, and the model has 5"),
    (lambda: CrossEntropy().check(np.asarray([[0, 1], [2, 3]]), 6), ValueError,
     r"integer classes 0 .. K - 1 .* is none is 3, of sample 1"),
)  # fmt: skip
