"""References for the agents: methods on one machine with all the data."""

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from consensus.history import History
from experiments.shared.studies import Outcome


def lbfgs(made, rounds, seed):
    """The outcome of SciPy's L-BFGS on U, from the start that the agents have; r must be smooth.

    ``made()`` returns a problem, a network and options, as a case of a study. In the history, as in that of
    :func:`gradient_descent`, an ``exchange`` is a gradient of U: what a server would collect from all agents in one round.
    """

    def method(problem, start, record):
        gradients, cost = 0, smooth_cost(problem)

        def count(w):
            nonlocal gradients
            gradients += 1
            return cost(w)

        def see(w):
            record(w, gradients)

        options = {"maxiter": rounds, "maxfun": 10 * rounds, "gtol": 1e-9, "ftol": 0.0}
        return minimize(count, start, jac=True, method="L-BFGS-B", callback=see, options=options).x

    return _recorded(made, seed, method)


def gradient_descent(made, rounds, seed):
    """The outcome of (proximal) gradient descent: ``w+ = prox_{t r}(w - t grad G(w))``, t halved until G is below its model.

    ISTA with backtracking: Beck, Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse problems",
    SIAM J. Imaging Sciences 2(1), 2009, section 3.
    """

    def method(problem, w, record):
        step = 10.0
        for iteration in range(1, rounds + 1):
            w, step = _descended(problem, w, 1.5 * step)  # it may grow again
            record(w, iteration)
        return w

    return _recorded(made, seed, method)


def _descended(problem, w, step):
    """The next iterate of proximal gradient descent, and its step, at most the given one."""
    gradient, value = problem.total_gradient(w), _value(problem, w)
    while True:
        new = problem.regularizer.prox((w - step * gradient)[None], step)[0]
        move = new - w
        if _value(problem, new) <= value + gradient @ move + move @ move / (2 * step) + 1e-12 * abs(value):
            return new, step
        step /= 2


def smooth_cost(problem):
    """The function ``w -> U(w), grad U(w)``; r must be smooth."""
    return lambda w: (problem.objective(w), problem.total_gradient(w) + problem.regularizer.gradient(w[None])[0])


def lowest(problem, start, method="L-BFGS-B", **options):
    """The least U that SciPy finds from ``start``, with all data in one place; r must be smooth."""
    return float(minimize(smooth_cost(problem), start, jac=True, method=method, options=options).fun)


def reference(problem):
    """The objective at which L-BFGS ends from a start that is the same for all, or, where r is not smooth, gradient descent."""
    w = problem.model.init(np.random.default_rng(0))
    with threadpool_limits(1, user_api="blas"):
        if problem.regularizer.smooth:
            return lowest(problem, w, maxiter=3000, maxfun=30_000, gtol=1e-9, ftol=1e-14)
        step = 10.0
        for _ in range(3000):
            w, step = _descended(problem, w, 1.5 * step)
    return problem.objective(w)


def reference_of(made):
    """The :func:`reference` of what a case makes."""
    return reference(made()[0])


def _recorded(made, seed, method):
    problem, _, options = made()
    history, start = History(), problem.model.init(np.random.default_rng(seed))
    X, y = options["test"]

    def record(w, gradients):
        error = problem.loss.error(problem.model.predict(w[None], X[None]), y.reshape(1, -1, 1)).mean()
        row = {"round": history.rows, "objective": problem.objective(w), "stationarity": problem.stationarity(w)}
        history.append(row | {"test_error": float(error), "exchanges": gradients})

    with threadpool_limits(1, user_api="blas"):  # the same sums on any number of cores
        record(start, 0)
        w = method(problem, start, record)
    return Outcome(history, w[None])


def _value(problem, w):
    return problem.value(np.broadcast_to(w, (problem.agents, len(w)))).sum()
