"""Linear models on a ring of 30: exchanges to 1e-8 of the optimum, AdaptiveNEXT against tuned first-order methods."""

import math

import numpy as np
from sklearn.linear_model import Lasso
from sklearn.preprocessing import scale

import consensus
import topologies
from consensus import datasets
from consensus.solvers import NEXT, AdaptiveNEXT, GradientTracking
from consensus.surrogates import FullLinearization
from experiments.shared.centralised import lowest
from experiments.shared.tables import Table

AGENTS, ACCURACY = 30, 1e-8
STEPS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


def linear_table(quick=False):
    """A row a model: exchanges of AdaptiveNEXT, of the other method with its best step, and how many times fewer."""
    table = Table({"model": "", "AdaptiveNEXT": ".0f", "other": "", "best step": ".3g", "its exchanges": ".0f", "ratio": ".1f"})
    most = 2000 if quick else 40000
    for name, problem, best in problems():
        first = exchanges_needed(problem, AdaptiveNEXT(), best, 4000)
        smooth = problem.regularizer.smooth
        other = "gradient tracking" if smooth else "proximal gradient tracking"
        needed = {}
        for step in STEPS:
            solver = GradientTracking(step, order="cta") if smooth else NEXT(FullLinearization(1 / step), 0.5)
            needed[step] = exchanges_needed(problem, solver, best, min([most, *needed.values()]))
        step = min(needed, key=needed.get)
        table.add(name, first, other, step, needed[step], needed[step] / first)
    return table


def problems():
    """Ridge, lasso and logistic regression on standardised data, and their optimal values by other means."""
    X, y = datasets.load("diabetes")
    ridge = _problem(scale(X), scale(y), consensus.SquaredLoss(), consensus.L2(1e-2))
    lasso = _problem(scale(X), scale(y), consensus.SquaredLoss(), consensus.L1(1e-2))
    X, y = datasets.load("breast_cancer")
    logistic = _problem(scale(X), y, consensus.LogisticLoss(), consensus.L2(1e-2))
    yield "ridge", ridge, smooth_optimum(ridge)
    yield "lasso", lasso, lasso_optimum(lasso)
    yield "logistic", logistic, smooth_optimum(logistic)


def _problem(X, y, loss, regularizer):
    shards = consensus.partition(X, y, AGENTS, "sorted", seed=0)
    return consensus.Problem(consensus.Linear(X.shape[1]), loss, shards, regularizer)


def smooth_optimum(problem):
    """U's minimum by SciPy, on all data in one place."""
    return lowest(problem, np.zeros(problem.parameters), "BFGS", gtol=1e-10, maxiter=10000)


def lasso_optimum(problem):
    """U's minimum by scikit-learn's coordinate descent; its intercept is not penalised, ours is zero: the data are centred."""
    real = problem.shards.weights > 0
    X, y = problem.shards.features[real], problem.shards.targets[real][:, 0]
    fitted = Lasso(alpha=problem.regularizer.weight, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(X, y)
    return problem.objective(np.append(fitted.coef_, 0.0))


def exchanges_needed(problem, solver, best, most):
    """Exchanges until U at the mean is within ACCURACY of the optimum, and the agents of each other; infinite if never."""
    start = np.zeros(problem.parameters)
    try:
        options = {"rounds": most, "exchanges": most, "record_every": 1, "start": start}
        result = consensus.solve(problem, topologies.ring(AGENTS), solver, **options)
    except consensus.DivergenceError:
        return math.inf
    history = result.history
    there = (history["objective"] - best <= ACCURACY * best) & (history["disagreement"] <= ACCURACY)
    return int(history["exchanges"][there.argmax()]) if there.any() else math.inf
