"""Check of the laws of losses."""

from __future__ import annotations

import importlib.util

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.losses import Loss
from consensus.testing.laws import Laws, Report, constant

_AGENTS = 3


def check_loss(loss: Loss, targets: ArrayLike, outputs: int | None = None, *, seed: int = 0) -> Report:
    """Check a loss l at random outputs: its derivatives against differences, and all that it says of itself.

    ``gradient`` is compared with differences of ``value``, ``curvature`` with differences of ``gradient``, its root, its bound
    and ``quadratic`` with the curvature. Agents and samples must not depend on each other, and values must be finite on the
    zeros of padding and never NaN. ``expression`` is compared with CVXPY's value, ``jax_gradient`` with ``gradient``, if the
    loss has them; float32 with float64, copies with originals. A loss whose ``convex`` is False needs no curvature.

    Parameters
    ----------
    loss : Loss
        The loss to be checked.
    targets : array_like (samples,) or (samples, columns)
        Targets that suit the loss, two samples at least: labels, counts, numbers.
    outputs : int, optional
        Number of outputs of a model; by default that of the columns of ``targets``.
    seed : int
        Seed of the outputs.

    Returns
    -------
    Report
        The laws that hold, with the largest error of each.

    Raises
    ------
    AssertionError
        If a law does not hold: the message has the loss, the law and the numbers.

    Examples
    --------
    >>> import consensus
    >>> from consensus.testing import check_loss
    >>> report = check_loss(consensus.CrossEntropy(), targets=[0, 2, 1, 1], outputs=3)
    >>> report.errors["gradient is the slope of value"] < 1e-7
    True
    """
    if not isinstance(loss, Loss):
        raise TypeError(f"loss must be a consensus.losses.Loss; got {_checks.shown(loss)}")
    if loss.over == "batch":
        raise TypeError(
            f"loss must be one of samples, whose laws are tried here; {loss} is one of whole batches: a problem tries it"
        )
    wanted = _checks.array("targets", targets)
    wanted = wanted[:, None] if wanted.ndim == 1 else wanted
    if wanted.ndim != 2 or len(wanted) < 2:
        raise ValueError(f"targets must have shape (samples,) or (samples, columns), two samples at least; got {wanted.shape}")
    if not np.isfinite(wanted).all():
        raise ValueError(f"targets must be finite; got {_checks.shown(targets)}")
    outputs = wanted.shape[1] if outputs is None else _checks.count("outputs", outputs)
    loss.check(wanted, outputs)
    trial = _Trial(loss, wanted.astype(float), outputs, _checks.seed(seed))
    trial.forms("value", "gradient", *(("curvature",) if loss.convex else ()))
    trial.derivatives()
    if loss.convex:
        trial.curvature()
        trial.forms("curvature_root")
    trial.forms("error")
    trial.weights("label_weights", "label_counts")
    trial.far()
    trial.expression()
    trial.jax()
    copy = trial.laws.copied(loss)
    trial.laws.same("a copy has the same gradient", copy.gradient(trial.f, trial.d), trial.gradient)
    return trial.laws.report


class _Trial:
    """Outputs f and targets d of one check, (agents, samples, ...), and the derivatives there."""

    def __init__(self, loss: Loss, targets: np.ndarray, outputs: int, rng: np.random.Generator) -> None:
        self.loss, self.laws, self.outputs = loss, Laws(loss), outputs
        self.shape = (_AGENTS, len(targets), outputs)
        self.f = constant(1.5 * rng.standard_normal(self.shape))
        self.d = constant(np.stack([targets, targets[::-1], np.roll(targets, 1, axis=0)]))

    def forms(self, *names: str) -> None:
        """Check shapes and dtypes, read-only arguments, agents and samples by themselves, and the zeros of padding."""
        loss, laws, f, d = self.loss, self.laws, self.f, self.d
        square = self.shape if loss.separable else (*self.shape, self.outputs)
        shapes = {"value": self.shape[:2], "error": self.shape[:2], "gradient": self.shape}
        for name in names:
            method, shape = getattr(loss, name), shapes.get(name, square)
            full = laws.array(f"{name} has its shape and the dtype of the outputs", self._kept(name, f, d), shape, np.float64)
            single = self._kept(name, constant(f.astype(np.float32)), constant(d.astype(np.float32)))
            laws.array(f"{name} has its shape and the dtype of the outputs", single, shape, np.float32)
            laws.close(f"{name} in float32 is the rounded float64", single, full, 1e-4)
            laws.same(f"{name} of an agent does not depend on the others", method(f[1:2], d[1:2]), full[1:2])
            laws.close(f"{name} of an agent without an axis of agents is the same", method(f[1], d[1]), full[1], 1e-13)
            laws.close(f"{name} of a sample does not depend on the others", method(f[:, ::2], d[:, ::2]), full[:, ::2], 1e-13)
            padded = method(np.zeros_like(f), np.zeros_like(d))
            laws.true(f"{name} is finite at zeros, which pad shards", np.isfinite(padded).all(), f"found {padded.ravel()[:3]}")

    def weights(self, *names: str) -> None:
        """Check that weights of labels are a number, or numbers of at least 0 that do not depend on other samples."""
        for name in names:
            method, law = getattr(self.loss, name), f"{name} is a number or numbers (agents, samples) of at least 0"
            found = method(self.d)
            shape, least = np.shape(found), float(np.min(found))
            wanted = isinstance(found, float) or (isinstance(found, np.ndarray) and shape == self.shape[:2])
            self.laws.true(law, wanted and least >= 0, f"found {type(found).__name__} of shape {shape}, the least {least:g}")
            if shape:
                self.laws.same(f"{name} of a sample does not depend on the others", method(self.d[1:, ::2]), found[1:, ::2])

    def _kept(self, name: str, f: np.ndarray, d: np.ndarray) -> np.ndarray:
        """Call a method on read-only arguments; its result must be a new array."""
        with self.laws.unwritten(f"{name} leaves its arguments as they are"):
            found: np.ndarray = getattr(self.loss, name)(f, d)
        shared = isinstance(found, np.ndarray) and (np.shares_memory(found, f) or np.shares_memory(found, d))
        self.laws.true(f"{name} returns a new array", not shared, "it returned an argument, or a view of it")
        return found

    def derivatives(self) -> None:
        """Compare ``gradient`` with differences of ``value``, ``curvature`` with differences of ``gradient``."""
        loss, f, d, h = self.loss, self.f, self.d, 1e-5
        self.gradient = loss.gradient(f, d)
        units = h * np.eye(self.outputs)
        slopes = np.stack([(loss.value(f + e, d) - loss.value(f - e, d)) / (2 * h) for e in units], axis=-1)
        close = self.laws.close
        close("gradient is the slope of value", self.gradient, slopes, 1e-7 + _rounding(loss.value(f, d), slopes) / h)
        if not loss.convex:
            return
        curvature = loss.curvature(f, d)
        bends = np.stack([(loss.gradient(f + e, d) - loss.gradient(f - e, d)) / (2 * h) for e in units], axis=-1)
        diagonal, tolerance = np.diagonal(bends, axis1=-2, axis2=-1), 1e-6 + _rounding(self.gradient, bends) / h
        if loss.separable:
            law = "separable means that an output's gradient depends on that output alone"
            close(law, bends, diagonal[..., None] * np.eye(self.outputs), tolerance)
        close("curvature is the slope of gradient", curvature, diagonal if loss.separable else bends, tolerance)

    def curvature(self) -> None:
        """Compare convexity, the root, ``curvature_bound`` and ``quadratic`` with the curvature, at outputs near and far."""
        loss, laws, d = self.loss, self.laws, self.d
        for scale in (0.0, 0.1, 1.0, 4.0):
            f = scale * self.f
            curvature = loss.curvature(f, d)
            full = curvature[..., None] * np.eye(self.outputs) if loss.separable else curvature
            eigenvalues = np.linalg.eigvalsh(full)
            laws.at_most("the loss is convex: its curvature is positive semidefinite", -eigenvalues, 0.0, 1e-13)
            root = loss.curvature_root(f, d)
            product = root * root if loss.separable else root @ root.swapaxes(-1, -2)
            laws.close("curvature_root times its transpose is the curvature", product, curvature, 1e-12)
            if loss.curvature_bound is not None:
                laws.at_most("eigenvalues of curvature are at most curvature_bound", eigenvalues, loss.curvature_bound, 1e-12)
            if loss.quadratic:
                law = "quadratic means the same curvature at all outputs"
                laws.close(law, curvature, loss.curvature(np.zeros_like(f), d), 1e-13)

    def far(self) -> None:
        """Check that nothing is NaN far from all targets."""
        for size in (1e2, 1e4, 1e8):
            for name in ("value", "gradient", "curvature") if self.loss.convex else ("value", "gradient"):
                with np.errstate(all="ignore"):
                    found = getattr(self.loss, name)(size * self.f, self.d)
                law = f"{name} is never NaN, however far the outputs are"
                self.laws.true(law, not np.isnan(found).any(), f"NaN at outputs of about {size:g}")

    def expression(self) -> None:
        """Compare values with CVXPY's; the loss need not have an expression."""
        import cvxpy  # which takes a second

        samples, weights = self.shape[1], np.arange(1.0, self.shape[1] + 1)
        variable = cvxpy.Variable((samples, self.outputs))
        law, absent = "expression is one of CVXPY", "no CVXPY expression"
        stated = self.laws.offered(law, lambda: self.loss.expression(variable, self.d[0], weights), absent)
        if stated is None:
            return
        self.laws.true("expression is convex", stated.is_convex(), f"CVXPY finds curvature {stated.curvature}")
        variable.value = self.f[0]
        found = float(np.asarray(stated.value))
        law = "expression is the weighted sum of values"
        self.laws.close(law, found, float(weights @ self.loss.value(self.f[0], self.d[0])), 1e-9)

    def jax(self) -> None:
        """Compare ``jax_gradient`` with ``gradient``, if the loss has one and JAX is there."""
        if type(self.loss).jax_gradient is Loss.jax_gradient or importlib.util.find_spec("jax") is None:
            return
        import jax.numpy as jnp

        f, d = (jnp.asarray(part[0].astype(np.float32)) for part in (self.f, self.d))
        found = np.asarray(self.loss.jax_gradient(f, d))
        self.laws.close("jax_gradient is gradient", found, self.gradient[0], 1e-5)


def _rounding(values: np.ndarray, slopes: np.ndarray) -> float:
    """Return the rounding of differences of ``values``, relative to the largest of ``slopes``, or to one."""
    return 10 * float(np.finfo(float).eps * np.abs(values).max() / max(1.0, np.abs(slopes).max()))
