"""Losses against SciPy, and what they do beside the contract, which tests/consensus/testing runs for each."""

import cvxpy as cp
import numpy as np
import pytest
from scipy import special
from sklearn import metrics

from consensus.losses import CrossEntropy, Huber, LogisticLoss, SquaredLoss

LOSSES = [SquaredLoss(), Huber(), Huber(delta=0.3), LogisticLoss(), CrossEntropy()]
METHODS = ["value", "gradient", "curvature", "curvature_root", "error"]
SHAPE = (2, 4, 3)  # agents, samples, outputs

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def draw(loss, shape=SHAPE, seed=0, scale=2.0):
    """Random outputs, and targets in the loss's domain."""
    rng = np.random.default_rng(seed)
    outputs = scale * rng.standard_normal(shape)
    if isinstance(loss, CrossEntropy):
        return outputs, rng.integers(0, shape[-1], (*shape[:-1], 1))
    if isinstance(loss, LogisticLoss):
        return outputs, rng.integers(0, 2, shape).astype(float)
    return outputs, scale * rng.standard_normal(shape)


def reference(loss, outputs, targets):
    """The value of each sample, from SciPy's special functions."""
    if isinstance(loss, CrossEntropy):
        return -np.take_along_axis(special.log_softmax(outputs, axis=-1), targets, axis=-1)[..., 0]
    if isinstance(loss, LogisticLoss):
        elements = -targets * special.log_expit(outputs) - (1 - targets) * special.log_expit(-outputs)
    else:
        elements = special.huber(getattr(loss, "delta", np.inf), outputs - targets)
    return elements.sum(axis=-1)


def matrices(loss, curvature):
    """Curvatures as a matrix for each sample."""
    return curvature[..., None] * np.eye(curvature.shape[-1]) if loss.separable else curvature


@every_loss
@pytest.mark.parametrize("shape", [SHAPE, (5, 3), (3, 2, 4, 2), (1, 1, 2)])
def test_value_is_that_of_scipy(loss, shape):
    outputs, targets = draw(loss, shape)
    value = loss.value(outputs, targets)
    assert value.shape == shape[:-1]
    np.testing.assert_allclose(value, reference(loss, outputs, targets), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss(), Huber(0.7), CrossEntropy()], ids=repr)
def test_curvature_bounds_are_the_least(loss):
    outputs = np.linspace(-3, 3, 61)[:, None] * ([[1.0, -1.0]] if isinstance(loss, CrossEntropy) else [[1.0]])
    curvature = loss.curvature(outputs, np.zeros((61, 1)))
    assert loss.curvature_bound == pytest.approx(np.linalg.eigvalsh(matrices(loss, curvature)).max(), rel=1e-12)


@every_loss
@pytest.mark.parametrize("labels", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("method", METHODS)
def test_results_are_new_arrays_in_the_dtype_of_the_outputs(loss, method, labels):
    outputs, targets = draw(loss)
    outputs, targets = outputs.astype(np.float32), np.rint(targets).astype(labels)
    before = outputs.copy(), targets.copy()
    narrow, wide = (getattr(loss, method)(outputs.astype(dtype, copy=False), targets) for dtype in (np.float32, np.float64))
    assert (narrow.dtype, wide.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(narrow, wide, rtol=2e-6, atol=1e-6)
    narrow *= 3  # as callers do
    for array, kept in zip((outputs, targets), before, strict=True):
        assert not np.shares_memory(narrow, array)
        np.testing.assert_array_equal(array, kept)


@every_loss
def test_targets_may_lack_the_axis_of_a_single_output(loss):
    outputs, targets = draw(loss, (2, 4, 3 if isinstance(loss, CrossEntropy) else 1))
    for method in METHODS:
        whole, flat = (getattr(loss, method)(outputs, t) for t in (targets, targets[..., 0]))
        np.testing.assert_array_equal(flat, whole)
    variable = cp.Variable(outputs.shape[1:])
    variable.value = outputs[0]
    whole, flat = (loss.expression(variable, t, np.ones(4)).value for t in (targets[0], targets[0, :, 0]))
    assert flat == whole


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("loss", "outputs", "target", "value", "gradient", "curvature"), [
    (SquaredLoss(), [1e4], [0], 5e7, [1e4], [1]),
    (SquaredLoss(), [-1e4], [0], 5e7, [-1e4], [1]),
    (Huber(0.5), [1e4], [0], 4999.875, [0.5], [0]),
    (Huber(0.5), [-1e4], [0], 4999.875, [-0.5], [0]),
    (Huber(0.5), [0.5], [0], 0.125, [0.5], [1]),
    (LogisticLoss(), [1e4], [0], 1e4, [1], [0]),
    (LogisticLoss(), [1e4], [1], 0, [0], [0]),
    (LogisticLoss(), [-1e4], [0], 0, [0], [0]),
    (LogisticLoss(), [-1e4], [1], 1e4, [-1], [0]),
    (CrossEntropy(), [1e4, -1e4], [0], 0, [0, 0], [[0, 0], [0, 0]]),
    (CrossEntropy(), [1e4, -1e4], [1], 2e4, [1, -1], [[0, 0], [0, 0]]),
    (CrossEntropy(), [1e4, 1e4], [0], np.log(2), [-0.5, 0.5], [[0.25, -0.25], [-0.25, 0.25]]),
    (CrossEntropy(), [-1e4, -1e4], [1], np.log(2), [0.5, -0.5], [[0.25, -0.25], [-0.25, 0.25]]),
])  # fmt: skip
def test_limits_at_huge_outputs_are_exact(loss, outputs, target, value, gradient, curvature, dtype):
    outputs, target = np.array([[outputs]], dtype), np.array([[target]], dtype)
    np.testing.assert_allclose(loss.value(outputs, target), [[value]], rtol=np.finfo(dtype).eps, atol=0)
    np.testing.assert_array_equal(loss.gradient(outputs, target), [[gradient]])
    np.testing.assert_array_equal(loss.curvature(outputs, target), [[curvature]])


@pytest.mark.filterwarnings("error")
@every_loss
@pytest.mark.parametrize("label", [0, 1])
def test_nothing_overflows_on_the_way_to_the_limits(loss, label):
    sizes = np.logspace(-4, 4, 81)
    outputs = np.concatenate([-sizes[::-1], [0.0], sizes])[:, None]
    if isinstance(loss, CrossEntropy):
        outputs = outputs * [1.0, -0.5, 0.25]
    targets = np.full((len(outputs), 1), label)
    exact, eps = reference(loss, outputs, targets), np.finfo(float).eps
    rounding = 4 * eps * (np.abs(outputs).max(axis=-1) + exact)  # the value is a difference of numbers that large
    assert (np.abs(loss.value(outputs, targets) - exact) <= rounding).all()
    # Convexity, up to rounding: along a line of outputs the slope rises, and the curvature is never negative.
    slope = np.vecdot(loss.gradient(outputs, targets), outputs[-1] / 1e4)
    assert (np.diff(slope) >= -eps).all()
    assert np.linalg.eigvalsh(matrices(loss, loss.curvature(outputs, targets))).min() >= -eps


def test_errors_are_squared_distances_and_fractions_of_wrong_labels():
    for loss in (SquaredLoss(), Huber(0.3)):
        error = loss.error(np.array([[[3.0, 4.0], [1.0, 1.0]]]), np.array([[[0.0, 0.0], [1.0, -2.0]]]))
        np.testing.assert_array_equal(error, [[25.0, 9.0]])
    two_labels = LogisticLoss().error(np.array([[1.0, -1.0], [0.0, 2.0]]), np.array([[1, 1], [0, 1]]))
    np.testing.assert_array_equal(two_labels, [0.5, 0.0])  # a logit of zero predicts 0
    logits, classes = draw(CrossEntropy(), (1, 50, 4))
    wrong = CrossEntropy().error(logits, classes)
    assert set(wrong.ravel()) == {0.0, 1.0}
    assert wrong.mean() == pytest.approx(1 - metrics.top_k_accuracy_score(classes[0, :, 0], logits[0], k=1), abs=1e-15)


@pytest.mark.parametrize("loss", [SquaredLoss(), Huber(), LogisticLoss(), CrossEntropy()], ids=repr)
def test_targets_that_would_broadcast_are_refused(loss):
    outputs, _ = draw(loss)
    for shape in [(4,), (4, 3), (2, 5), (1, 4, 3), (2, 1, 3), (2, 3, 4), (2, 4, 3, 1)]:
        for method in ["value", "gradient", "error"] + ["curvature"] * isinstance(loss, Huber):  # others ignore targets
            with pytest.raises(ValueError, match=r"targets must .*\(2, 4, [13]\).*; got \("):
                getattr(loss, method)(outputs, np.zeros(shape))
    with pytest.raises(ValueError, match=r"targets must .*\(4, [13]\).*; got \(1, 3\)"):
        loss.expression(cp.Variable((4, 3)), np.zeros((1, 3)), np.ones(4))


@pytest.mark.parametrize(("loss", "targets", "outputs", "words"), [
    (SquaredLoss(), np.zeros((5, 2)), 3, r"SquaredLoss needs a target for each of the model's 3 outputs; got .* 2 columns"),
    (Huber(), np.zeros((5, 1)), 2, r"Huber needs a target for each of the model's 2 outputs; got .* 1 columns"),
    (LogisticLoss(), np.zeros((5, 1)), 2, r"LogisticLoss needs a target for each of the model's 2 outputs"),
    (LogisticLoss(), [[1.0], [-1.0]], 1, r"LogisticLoss takes targets in \{0, 1\}; got \[-1\. +1\.\].*\(y \+ 1\)"),
    (LogisticLoss(), [[0.0], [0.5]], 1, r"LogisticLoss takes targets in \{0, 1\}; got \[0\. +0\.5\] .*classification=True"),
    (LogisticLoss(), [[0.0], [0.5], [2]], 1, r"LogisticLoss takes targets in .*for several classes use CrossEntropy"),
    (CrossEntropy(), np.zeros((5, 3)), 3, r"CrossEntropy takes one integer class per sample.*got 3 columns.*argmax"),
    (CrossEntropy(), [[0], [3]], 3, r"integer classes 0 \.\. K - 1 .*got classes \[0 3\] and 3 output"),
    (CrossEntropy(), [[1], [2], [3]], 3,
     r"got classes \[1 2 3\] and 3 output\(s\); .*unique\(y, return_inverse=True\)\[1\] numbers"),
    (CrossEntropy(), [[-1], [1]], 3, r"integer classes 0 \.\. K - 1 .*got classes \[-1 +1\]"),
    (CrossEntropy(), [[0.0], [1.5]], 3, r"integer classes 0 \.\. K - 1 .*got classes \[0\. +1\.5\]"),
    (CrossEntropy(), np.zeros((5, 1)), 1, r"K >= 2 outputs; got classes \[0\.\] and 1 output"),
])  # fmt: skip
def test_targets_outside_the_domain_of_a_loss_are_named(loss, targets, outputs, words):
    with pytest.raises(ValueError, match=words):
        loss.check(np.asarray(targets), outputs)


@pytest.mark.parametrize("delta", [0, -1.0, np.nan, np.inf, "1", True, None])
def test_bad_deltas_are_named(delta):
    with pytest.raises(ValueError, match=rf"delta must be a finite number > 0; got {delta!r}"):
        Huber(delta)
