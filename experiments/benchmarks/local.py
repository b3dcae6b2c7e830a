"""Time of an exact local solve, against gradients, the primal solve, CVXPY and scikit-learn."""

import warnings
from functools import partial

import cvxpy as cp
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet as CoordinateDescent

import consensus
from consensus._arrays.parallel import one_blas_thread
from consensus.local import Exact
from consensus.local.newton import newton
from consensus.local.subproblem import Subproblem
from consensus.surrogates import PartialLinearization
from experiments.shared.timing import Rows, dgemm_rate, median_seconds, options, peak_bytes, timed

TAU = 0.1


def local_problem(widths, samples, agents=1, loss=None, regularizer=None, seed=0):
    """A problem on random data at a random start, with the model of its local problems and their linear term."""
    rng = np.random.default_rng(seed)
    loss = loss or consensus.SquaredLoss()
    x = rng.standard_normal((agents, samples, widths[0]))
    if isinstance(loss, consensus.CrossEntropy):
        targets = rng.integers(0, widths[-1], (agents, samples, 1)).astype(float)
    else:
        targets = rng.standard_normal((agents, samples, widths[-1]))
    indices = np.arange(agents * samples).reshape(agents, samples)
    shards = consensus.Shards(x, targets, np.ones((agents, samples)), indices, agents * samples)
    problem = consensus.Problem(consensus.MLP(widths), loss, shards, regularizer)
    w = np.stack([problem.model.init(rng) for _ in range(agents)])
    gradient = problem.gradient(w)
    return problem, PartialLinearization(TAU).at(problem, w, gradient), (agents - 1) * gradient


def solve(case, linear="auto", tolerance=1e-8):
    problem, model, term = case
    return Exact(linear).solve(model, term, problem.regularizer, None, tolerance)


def seconds_of(case, repeats=7, **options):
    return median_seconds(lambda: solve(case, **options), repeats)


def seconds_of_gradient(case):
    problem, model, _ = case
    return median_seconds(lambda: problem.gradient(model.w), 11)


def headline_figures():
    rows, ridge = Rows("case", 66, {"measured": ">12", "to reach": "<"}), consensus.L2(1e-3)

    case = local_problem([64, 100, 1], 500, regularizer=ridge)
    chosen, primal = seconds_of(case), seconds_of(case, repeats=1, linear="primal")
    what = f"64-100-1, n = 500: primal {primal * 1e3:.0f} ms over chosen {chosen * 1e3:.1f} ms"
    rows.add(what, f"{primal / chosen:.0f} x", ">= 100 x")
    a, b = solve(case).w, solve(case, "primal").w
    rows.add("  relative difference of the answers", f"{np.linalg.norm(a - b) / np.linalg.norm(b):.0e}", "<= 1e-10")

    case = local_problem([784, 300, 100, 1], 1000, regularizer=ridge)
    ratio = seconds_of(case) / seconds_of_gradient(case)
    rows.add("784-300-100-1, n = 1000: one solve, in gradients", f"{ratio:.1f}", "<= 15")
    rows.add("  memory above the data", f"{peak_bytes(lambda: solve(case)) / 1e6:.0f} MB", "<= 250 MB")

    case = local_problem([784, 64, 10], 200, loss=consensus.CrossEntropy(), regularizer=ridge)
    ratio = seconds_of(case, tolerance=1e-6) / seconds_of_gradient(case)
    rows.add("784-64-10, cross-entropy, n = 200: one solve to 1e-6, in gradients", f"{ratio:.0f}", "<= 150")

    one, twenty = (seconds_of(local_problem([64, 100, 1], 500, agents, regularizer=ridge)) for agents in (1, 20))
    rows.add("64-100-1, n = 500: twenty agents over one", f"{twenty / one:.1f}", "<= 20, on two cores less")


def lasso():
    """The same lasso by our local solver, by coordinate descent on the explicit Jacobian, and by CVXPY."""
    print("\nL1, 64-100-1, n = 500, one core: 1/(2n) |J v - residual|^2 + tau/2 |v|^2 + weight |v|_1")
    columns = {"tau": "", "nonzero": ".0%", "ours ms": ".1f", "scikit-learn": ".1f", "CVXPY": ".0f", "above its optimum": ".1e"}
    rows = Rows("weight", 8, columns)
    for weight, tau in ((1e-3, 0.1), (1e-2, 0.1), (1e-2, 0.01), (1e-1, 0.01)):
        problem, model, _ = local_problem([64, 100, 1], 500, regularizer=consensus.L1(weight))
        ours = partial(by_newton, problem, model, tau)
        v, seconds = ours(), median_seconds(ours, 7)
        jacobian = np.asfortranarray(problem.model.jacobian(model.w, problem.shards.features)[0])
        residual = (problem.shards.targets - problem.model.predict(model.w, problem.shards.features))[0, :, 0]

        def objective(v, jacobian=jacobian, residual=residual, tau=tau, weight=weight):
            return np.square(jacobian @ v - residual).mean() / 2 + tau / 2 * v @ v + weight * np.abs(v).sum()

        theirs = coordinate_descent(jacobian, residual, weight, tau, objective, objective(v))
        exact, reference = timed(by_cvxpy, jacobian, residual, weight, tau)
        above = objective(v) / objective(reference) - 1
        rows.add(weight, tau, np.mean(v != 0), seconds * 1e3, theirs / seconds, exact / seconds, above)
    print("(times of the others over ours, to reach: scikit-learn >= 1 x, CVXPY >= 20 x)")


def by_newton(problem, model, tau):
    targets, weights = problem.shards.targets, problem.weights
    outputs, linearization = problem.linearize(model.w, slice(None))
    slopes, centre = problem.loss.gradient(outputs, targets), np.zeros_like(model.w)
    linear = linearization.vjp(slopes * weights[:, :, None])
    data = linearization, problem.loss, outputs, targets, weights, slopes
    sub = Subproblem(*data, centre, linear, tau, problem.regularizer)
    return newton(sub.bounded(), None, centre, 1e-6, 100)[0][0]


def coordinate_descent(jacobian, residual, weight, tau, objective, target):
    """Seconds of scikit-learn at its loosest tolerance that comes as low as ``target``, the Jacobian given to it."""
    for tolerance in 10.0 ** -np.arange(3, 11):
        descent = CoordinateDescent(
            alpha=weight + tau, l1_ratio=weight / (weight + tau), fit_intercept=False, tol=tolerance, max_iter=10_000
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            seconds, _ = timed(descent.fit, jacobian, residual)
        if objective(descent.coef_) <= target * (1 + 1e-9):
            break
    return seconds


def by_cvxpy(jacobian, residual, weight, tau):
    v = cp.Variable(jacobian.shape[1])
    data = cp.sum_squares(jacobian @ v - residual) / (2 * len(residual))
    cp.Problem(cp.Minimize(data + tau / 2 * cp.sum_squares(v) + weight * cp.norm1(v))).solve(solver="CLARABEL")
    return v.value


def main():
    options(__doc__)
    print(f"dgemm {dgemm_rate() / 1e9:.0f} GFLOP/s on all cores\n")
    headline_figures()
    with one_blas_thread:
        lasso()


if __name__ == "__main__":
    main()
