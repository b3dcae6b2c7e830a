"""The references as runs of an Experiment."""

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from consensus.history import History
from experiments.shared.centralised import smooth_cost
from experiments.shared.results import Outcome, Run


def lbfgs(settings, case, *, rounds, seed):
    """A run of SciPy's L-BFGS on U, from the start that the agents have; r must be smooth.

    In its history, as in that of :func:`gradient_descent`, an ``exchange`` is a gradient of U: what a server would collect
    from all agents in one round.
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

    return _run(settings, case, method, "L-BFGS", rounds, seed)


def gradient_descent(settings, case, *, rounds, seed):
    """A run of (proximal) gradient descent on U: ``w+ = prox_{t r}(w - t grad G(w))``, t halved until G is below its model.

    ISTA with backtracking: Beck, Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse problems",
    SIAM J. Imaging Sciences 2(1), 2009, section 3.
    """

    def method(problem, w, record):
        step, every = 10.0, max(1, rounds // 300)
        for iteration in range(1, rounds + 1):
            gradient, value = problem.total_gradient(w), _value(problem, w)
            step *= 1.5  # it may grow again
            while True:
                new = problem.regularizer.prox((w - step * gradient)[None], step)[0]
                move = new - w
                if _value(problem, new) <= value + gradient @ move + move @ move / (2 * step) + 1e-12 * abs(value):
                    break
                step /= 2
            w = new
            if iteration % every == 0 or iteration == rounds:
                record(w, iteration)
        return w

    return _run(settings, case, method, "gradient descent", rounds, seed)


def _run(settings, case, method, name, rounds, seed):
    problem = case.problem
    start = problem.model.init(np.random.default_rng(seed))
    config = {"method": name, "iterations": rounds, **case.identity(start)}

    def work(engine):
        history = History()

        def record(w, gradients):
            outputs = problem.model.predict(w[None], case.test[0][None])
            error = problem.loss.error(outputs, case.test[1].reshape(1, -1, 1)).mean()
            row = {"round": history.rows, "objective": problem.objective(w), "stationarity": problem.stationarity(w)}
            history.append(row | {"test_error": float(error), "exchanges": gradients})

        with threadpool_limits(1, user_api="blas"):  # the same sums on any number of cores
            record(start, 0)
            w = method(problem, start, record)
        return Outcome(history, w[None], "done")

    return Run(settings, config, work, case)


def _value(problem, w):
    return problem.value(np.broadcast_to(w, (problem.agents, len(w)))).sum()
