"""Time of an exact local solve, against gradients, the primal solve, CVXPY and scikit-learn."""

import warnings

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
from experiments.shared.timing import dgemm_rate, median_seconds, peak_bytes, timed

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


def line(what, measured, target):
    print(f"{what:<66} {measured:>12}   {target}")


def headline_figures():
    line("case", "measured", "to reach")
    ridge = consensus.L2(1e-3)

    case = local_problem([64, 100, 1], 500, regularizer=ridge)
    chosen, primal = seconds_of(case), seconds_of(case, repeats=1, linear="primal")
    a, b = solve(case).w, solve(case, "primal").w
    line(
        f"64-100-1, n = 500: primal {primal * 1e3:.0f} ms over chosen {chosen * 1e3:.1f} ms",
        f"{primal / chosen:.0f} x",
        ">= 100 x",
    )
    line("  relative difference of the answers", f"{np.linalg.norm(a - b) / np.linalg.norm(b):.0e}", "<= 1e-10")

    case = local_problem([784, 300, 100, 1], 1000, regularizer=ridge)
    ratio = seconds_of(case) / seconds_of_gradient(case)
    line("784-300-100-1, n = 1000: one solve, in gradients", f"{ratio:.1f}", "<= 15")
    line("  memory above the data", f"{peak_bytes(lambda: solve(case)) / 1e6:.0f} MB", "<= 250 MB")

    case = local_problem([784, 64, 10], 200, loss=consensus.CrossEntropy(), regularizer=ridge)
    ratio = seconds_of(case, tolerance=1e-6) / seconds_of_gradient(case)
    line("784-64-10, cross-entropy, n = 200: one solve to 1e-6, in gradients", f"{ratio:.0f}", "<= 150")

    one, twenty = (local_problem([64, 100, 1], 500, agents, regularizer=ridge) for agents in (1, 20))
    ratio = seconds_of(twenty) / seconds_of(one)
    line("64-100-1, n = 500: twenty agents over one", f"{ratio:.1f}", "<= 20, on two cores less")


def lasso():
    """The same lasso by our local solver, by coordinate descent on the explicit Jacobian, and by CVXPY."""
    print("\nL1, 64-100-1, n = 500, one core: 1/(2n) |J v - residual|^2 + tau/2 |v|^2 + weight |v|_1")
    print(f"{'weight':>8} {'tau':>6} {'nonzero':>8} {'ours ms':>8} {'scikit-learn':>13} {'CVXPY':>9} {'above its optimum':>18}")
    for weight, tau in ((1e-3, 0.1), (1e-2, 0.1), (1e-2, 0.01), (1e-1, 0.01)):
        problem, model, _ = local_problem([64, 100, 1], 500, regularizer=consensus.L1(weight))
        targets = problem.shards.targets

        def ours(problem=problem, model=model, targets=targets, tau=tau):
            outputs, linearization = problem.linearize(model.w, slice(None))
            slopes = problem.loss.gradient(outputs, targets)
            linear = linearization.vjp(slopes * problem.weights[:, :, None])
            centre = np.zeros_like(model.w)
            sub = Subproblem(
                linearization, problem.loss, outputs, targets, problem.weights, slopes, centre, linear, tau, problem.regularizer
            )
            return newton(sub.bounded(), None, centre, 1e-6, 100)[0][0]

        v, seconds = ours(), median_seconds(ours, 7)
        jacobian = np.asfortranarray(problem.model.jacobian(model.w, problem.shards.features)[0])
        residual = (targets - problem.model.predict(model.w, problem.shards.features))[0, :, 0]

        def objective(v, jacobian=jacobian, residual=residual, tau=tau, weight=weight):
            return np.square(jacobian @ v - residual).mean() / 2 + tau / 2 * v @ v + weight * np.abs(v).sum()

        theirs = coordinate_descent(jacobian, residual, weight, tau, objective, objective(v))
        exact, reference = timed(by_cvxpy, jacobian, residual, weight, tau)
        print(
            f"{weight:>8} {tau:>6} {np.mean(v != 0):>8.0%} {seconds * 1e3:>8.1f} {theirs / seconds:>11.1f} x "
            f"{exact / seconds:>7.0f} x {objective(v) / objective(reference) - 1:>18.1e}"
        )
    print("(times of the others over ours, to reach: scikit-learn >= 1 x, CVXPY >= 20 x)")


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
    print(f"dgemm {dgemm_rate() / 1e9:.0f} GFLOP/s on all cores\n")
    headline_figures()
    with one_blas_thread:
        lasso()


if __name__ == "__main__":
    main()
