"""Check of the laws of regularizers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from consensus import _checks
from consensus.regularizers import Regularizer
from consensus.testing.laws import Laws, Report, constant

_AGENTS = 7


def check_regularizer(
    regularizer: Regularizer, parameters: int = 8, *, steps: Sequence[float] = (0.05, 0.4, 1.2), seed: int = 0
) -> Report:
    """Check a regularizer r on random points: its prox against the definition, and all that it says of itself.

    Its prox is compared with the definition ``argmin_w r(w) + |w - v|^2 / (2 step)`` at points near and far, with
    CVXPY if r has an ``expression``, and must be firmly nonexpansive. ``strong_convexity``, ``gradient``, ``curvature_bound``,
    ``prox_jvp``, ``active`` and ``split`` are compared with values and proxes, rows with rows alone, float32 with float64,
    copies with originals.

    Parameters
    ----------
    regularizer : Regularizer
        The regularizer to be checked.
    parameters : int
        P, the length of the points.
    steps : sequence of float
        Step sizes of the prox.
    seed : int
        Seed of the points.

    Returns
    -------
    Report
        The laws that hold, with the largest error of each.

    Raises
    ------
    AssertionError
        If a law does not hold: the message has the regularizer, the law and the numbers.

    References
    ----------
    Parikh, Boyd, "Proximal algorithms", Foundations and Trends in Optimization 1(3), 2014, sections 1.1 and 2.3.

    Examples
    --------
    >>> import consensus
    >>> from consensus.testing import check_regularizer
    >>> report = check_regularizer(consensus.L1(0.3))
    >>> "prox_jvp is the slope of prox" in report.errors
    True
    """
    if not isinstance(regularizer, Regularizer):
        raise TypeError(f"regularizer must be a consensus.regularizers.Regularizer; got {_checks.shown(regularizer)}")
    steps = [_checks.number("steps", step, above=0) for step in _checks.array("steps", steps).ravel().tolist()]
    trial = _Trial(regularizer, _checks.count("parameters", parameters), steps, _checks.seed(seed))
    with trial.laws.unwritten("methods leave their arguments as they are"):
        trial.rows()
        trial.convexity()
        for step in steps:
            trial.prox(step)
            trial.jacobian(step)
        trial.gradient()
    trial.expression()
    trial.split()
    trial.copies()
    return trial.laws.report


class _Trial:
    """The points of one check."""

    def __init__(self, r: Regularizer, parameters: int, steps: list[float], seed: int | np.random.Generator) -> None:
        self.r, self.P, self.steps, self.laws = r, parameters, steps, Laws(r)
        self.rng = np.random.default_rng(seed)
        self.v, self.u = (constant(1.5 * self.rng.standard_normal((_AGENTS, parameters))) for _ in range(2))
        self.inside = constant(r.prox(np.concatenate([self.v, 0.1 * self.u, 3 * self.u]), steps[0]))  # where r is finite
        self.m = float(r.strong_convexity)

    def rows(self) -> None:
        """Rows are worked alone, in the dtype that they have; results are new arrays, and NaN stays."""
        r, v, laws = self.r, self.v, self.laws
        each = constant(np.resize(self.steps, (_AGENTS, 1)))
        for dtype, tolerance in ((np.float64, 1e-14), (np.float32, 2e-5)):
            w = constant(v.astype(dtype))
            values = laws.array("value of a stack has a number a row, in its dtype", r.value(w), (_AGENTS,), dtype)
            laws.close("value of a point is that of its row", [r.value(row) for row in w], values, tolerance)
            for step in (self.steps[0], np.float64(self.steps[0]), each):
                p = laws.array("prox has the shape and dtype of v", r.prox(w, step), w.shape, dtype)
                laws.true("prox returns a new array", not np.shares_memory(p, w), "it returned v, or a view of it")
                laws.close("float32 is the rounded float64", p, r.prox(v, step), 0 if dtype is np.float64 else 4e-6)
                laws.true("value is finite at prox", np.isfinite(r.value(p)).all(), f"values {r.value(p)}")
        laws.same("value of a stack is that of each part", np.concatenate([r.value(v[:2]), r.value(v[2:])]), r.value(v))
        alone = [r.prox(row, float(step)) for row, step in zip(v, each[:, 0], strict=True)]
        laws.same("prox of a stack with a step a row is that of each row", r.prox(v, each), alone)
        spoiled = v.copy()
        spoiled[2, self.P // 2] = np.nan
        found = np.isnan(r.prox(spoiled, self.steps[0])).any(axis=1)
        laws.same("NaN stays, in its row", found, np.arange(_AGENTS) == 2)

    def convexity(self) -> None:
        """``strong_convexity``, ``quadratic`` and ``squares`` against values."""
        r, laws, a = self.r, self.laws, self.inside
        b = self.rng.permutation(a)
        middle = r.value(a) / 2 + r.value(b) / 2 - r.value((a + b) / 2)
        laws.at_most("r - strong_convexity / 2 |w|^2 is convex", self.m / 8 * np.square(a - b).sum(axis=1), middle, 1e-12)
        weights = np.asarray(self.m) if r.quadratic else r.squares
        lacking = [name for name in ("convex", "smooth_value", "smooth_gradient") if not (r.is_convex or hasattr(r, name))]
        laws.true("is_convex = False comes with a DifferenceOfConvex", not lacking, f"{type(r).__name__} lacks {lacking}")
        laws.true("is_convex agrees with strong_convexity", self.m >= 0 or not r.is_convex, f"is_convex with modulus {self.m}")
        if weights is not None:
            laws.close("a quadratic is its weights times squares", r.value(a), (weights * a * a / 2).sum(axis=1), 1e-13)

    def prox(self, step: float) -> None:
        """Compare the prox with its definition."""
        r, laws, v = self.r, self.laws, self.v
        p, q, m = r.prox(v, step), r.prox(self.u, step), self.m
        moved = p - q
        if 1 + step * m > 0:
            left, right = np.vecdot(moved, v - self.u), (1 + step * m) * np.vecdot(moved, moved)
            laws.at_most("prox is firmly nonexpansive", right, left, 1e-11)
        others = [row[None] for row in self.inside]
        directions = [*np.eye(self.P), *-np.eye(self.P), v - p, -p, *self.rng.standard_normal((10, self.P))]
        others += [p + length * d for d in directions for length in (1.0, 0.1, 1e-2, 1e-4)]
        others += [p + length * (w - p) for w in self.inside[:, None] for length in (1e-1, 1e-2, 1e-4)]
        others += [np.where(np.arange(self.P) == k, t * v, p) for k in range(self.P) for t in np.linspace(0, 1, 21)]
        slope, at = (v - p) / step, r.value(p)
        # r is at least its tangent at p with the slope (v - p) / step and the modulus m: exactly then p is a (local) minimiser.
        law = "prox meets its optimality condition: (v - prox) / step is a subgradient there"
        best = "prox is the minimiser of its definition"
        for z in others:
            value = r.value(np.broadcast_to(z, v.shape))
            tangent = at + np.vecdot(slope, z - p) + m / 2 * np.square(z - p).sum(axis=1)
            rounding = 1e-14 * (1 + np.abs(at).max() + np.abs(slope).max() * np.abs(z - p).max() * self.P)
            if 1 + step * m > 0 or r.is_convex:
                laws.at_most(law, np.where(value == np.inf, 0, tangent), np.where(value == np.inf, 0, value), rounding)
            theirs = value + np.square(z - v).sum(axis=1) / (2 * step)
            ours = at + np.square(p - v).sum(axis=1) / (2 * step)
            inside, rounding = theirs < np.inf, 1e-13 * (1 + ours.max())
            laws.at_most(best, np.where(inside, ours, 0), np.where(inside, theirs, 0), rounding)

    def jacobian(self, step: float) -> None:
        """``prox_jvp`` against differences of the prox, and ``active`` against it; r need not have them."""
        r, laws, v, P = self.r, self.laws, self.v, self.P
        active = laws.array("active is a flag a coordinate", r.active(v, step), v.shape, bool)
        units = constant(np.broadcast_to(np.eye(P), (_AGENTS, P, P)))
        M = laws.offered("prox_jvp takes many directions", lambda: r.prox_jvp(v, step, units), "has no prox_jvp")
        if M is None:
            laws.true("without prox_jvp all coordinates are active", active.all(), f"active is {active}")
            return
        h = 1e-7
        slopes = np.stack([(r.prox(v + h * e, step) - r.prox(v - h * e, step)) / (2 * h) for e in np.eye(P)], axis=1)
        laws.close("prox_jvp is the slope of prox", M, slopes, 3e-6)
        points = constant(np.concatenate([v, np.zeros((1, P)), 3 * np.eye(P), 1e-9 * v, r.prox(v, step)]))
        M = r.prox_jvp(points, step, np.broadcast_to(np.eye(P), (len(points), P, P)))
        laws.close("prox_jvp is symmetric", M, M.swapaxes(1, 2), 1e-15)
        bound = 1 / (1 + step * self.m) if 1 + step * self.m > 0 else np.inf
        eigenvalues = np.linalg.eigvalsh(M)
        laws.at_most("prox_jvp is positive semidefinite", -eigenvalues, 0.0, 1e-14)
        laws.at_most("eigenvalues of prox_jvp are at most 1 / (1 + step strong_convexity)", eigenvalues, bound, 1e-13)
        found = r.active(points, step)
        law = "coordinates that are not active have no row in prox_jvp"
        laws.true(law, not (M != 0).any(axis=2)[~found].any(), "a row is not zero")
        for dtype in (np.float64, np.float32):
            d = constant(np.stack([self.u, v, self.u], axis=1).astype(dtype))
            w, each = constant(v.astype(dtype)), constant(np.resize(self.steps, (_AGENTS, 1)))
            many = laws.array("prox_jvp has the shape and dtype of d", r.prox_jvp(w, each, d), d.shape, dtype)
            for k in range(3):
                laws.same("prox_jvp of many directions is that of each", many[:, k], r.prox_jvp(w, each, d[:, k]))
            alone = [r.prox_jvp(row, float(s), e) for row, s, e in zip(w, each[:, 0], d, strict=True)]
            laws.same("prox_jvp of a stack is that of each row", many, alone)
        wide = r.prox_jvp(v, each, d.astype(float))
        laws.close("prox_jvp in float32 is the rounded float64", many, wide, 1e-5)

    def gradient(self) -> None:
        """``gradient`` against differences of values, its slope against ``curvature_bound``; refused where r is not smooth."""
        r, laws, v = self.r, self.laws, self.v
        if not r.smooth:
            laws.refused("gradient is refused where r is not smooth", lambda: r.gradient(v), "not smooth")
            return
        for dtype in (np.float64, np.float32):
            laws.array("gradient has the shape and dtype of w", r.gradient(constant(v.astype(dtype))), v.shape, dtype)
        h, gradient = 1e-4, r.gradient(v)
        slopes = np.stack([(r.value(v + h * e) - r.value(v - h * e)) / (2 * h) for e in np.eye(self.P)], axis=1)
        laws.close("gradient is the slope of value", gradient, slopes, 1e-7)
        if r.curvature_bound is not None:
            rise = np.linalg.norm(gradient - r.gradient(self.u), axis=1)
            bound = r.curvature_bound * np.linalg.norm(v - self.u, axis=1)
            laws.at_most("curvature_bound is a Lipschitz constant of the gradient", rise, bound, 1e-12)

    def expression(self) -> None:
        """Values and proxes against CVXPY's; r need not have an expression."""
        import cvxpy  # which takes a second

        r, laws, w = self.r, self.laws, cvxpy.Variable(self.P)
        law, absent = "expression and constraints are those of CVXPY", "no CVXPY expression"
        both = laws.offered(law, lambda: (r.expression(w), r.constraints(w)), absent)
        if both is None:
            return
        stated, constraints = both
        laws.true("expression is convex", stated.is_convex(), f"CVXPY finds curvature {stated.curvature}")
        for point in self.inside:
            w.value = point
            laws.close("value is that of the expression", r.value(point), float(np.asarray(stated.value)), 1e-13)
            laws.true("prox meets the constraints", all(c.value(1e-12) for c in constraints), f"not at {point}")
        for point in self.v:
            w.value = point
            met = all(c.value(1e-12) for c in constraints)
            found = r.value(point)
            laws.true("value is infinite where the constraints fail", np.isfinite(found) == met, f"found {found} at {point}")
        for step in self.steps:
            v = self.v[0]
            problem = cvxpy.Problem(cvxpy.Minimize(stated + cvxpy.sum_squares(w - v) / (2 * step)), constraints)
            problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
            laws.close("prox is the minimiser that CVXPY finds", r.prox(v, step), w.value, 2e-6)

    def split(self) -> None:
        """Parts sum to the whole; r need not separate."""
        r, laws, P, w = self.r, self.laws, self.P, self.inside
        (whole,) = r.split([slice(0, P)])
        laws.same("a split in one is the same", whole.prox(w, self.steps[0]), r.prox(w, self.steps[0]))
        for bad in ([], [slice(1, P)], [slice(0, P), slice(P, P)], [slice(0, None)]):
            laws.refused("slices that do not cover 0..P are refused", partial(r.split, bad), "slices must cover")
        slices = [slice(0, P // 2), slice(P // 2, P)]
        try:
            parts = r.split(slices)
        except ValueError:
            return
        values = sum(part.value(w[:, s]) for part, s in zip(parts, slices, strict=True))
        laws.close("values of a split sum to the whole", values, r.value(w), 1e-13)
        pieces = [part.prox(w[:, s], self.steps[-1]) for part, s in zip(parts, slices, strict=True)]
        laws.same("proxes of a split are those of the whole", np.concatenate(pieces, axis=1), r.prox(w, self.steps[-1]))

    def copies(self) -> None:
        copy = self.laws.copied(self.r)
        self.laws.same("a copy has the same prox", copy.prox(self.v, self.steps[0]), self.r.prox(self.v, self.steps[0]))
