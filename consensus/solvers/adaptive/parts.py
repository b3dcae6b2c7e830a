"""The steps of AdaptiveNEXT's round that an agent takes by itself."""

import numpy as np

from consensus import _checks
from consensus._parallel import for_chunks
from consensus.local.low_rank import low_rank
from consensus.local.operators import times_root_transposed
from consensus.problems import Problem
from consensus.solvers.adaptive import curvature

DIRECTIONS, _NUMBERS = 64, 1 << 18  # columns of curvature in a message, and numbers in them, at most
_PAIRS = 20  # secant pairs kept where there is no Jacobian
# Of the own model: error over predicted decrease; trials. Few: where agents' steps differ much, the costs at their ends say
# little of that at the mean, which is what they judge.
_TRUST, _TRIES = 0.25, 2
_MARKED = 1e-3  # rise of the costs, relative: what the agents disagree by may hide smaller ones
_REFUSALS = 4  # in a row
_FAR = 10.0  # standard deviations of features and targets that are far from one


def check(problem):
    """Warn of data far from standardised."""
    if not isinstance(_checks.problem(problem), Problem):
        return
    real = problem.shards.weights > 0
    X, targets = problem.shards.features[real], problem.shards.targets[real]
    found = [("feature", k, X[:, k]) for k in range(X.shape[1])]
    if problem.loss.quadratic:
        found += [("target", k, targets[:, k]) for k in range(targets.shape[1])]
    far = []
    for kind, k, column in found:
        mean, spread = float(column.mean()), float(column.std())
        if spread > _FAR or abs(mean) > _FAR * max(spread, 1.0) or (kind == "target" and 0 < spread < 1 / _FAR):
            far.append(f"{kind} {k} (mean {mean:.3g}, standard deviation {spread:.3g})")
    if far:
        shown = ", ".join(far[:3]) + (f" and {len(far) - 3} more" if len(far) > 3 else "")
        _checks.warn(
            f"data far from standardised: {shown}; networks train badly on them whatever the solver: "
            "consensus.datasets.split or scikit-learn's StandardScaler standardises"
        )


def columns(problem):
    """How many curvature products are mixed."""
    if not isinstance(problem, Problem):
        return 0
    return max(1, min(problem.parameters, DIRECTIONS, _NUMBERS // problem.parameters))


def weight(problem):
    """Of the quadratic regularizer, which belongs to the costs; zero for others."""
    return problem.regularizer.strong_convexity if problem.regularizer.quadratic else 0.0


def evaluate(problem, w, n):
    """Own costs and gradients, with their share of a quadratic r, and curvature products for the directions of round n."""
    cost, gradient = problem.value(w), problem.gradient(w)
    if weight(problem):
        share = weight(problem) / problem.network_size
        cost, gradient = cost + share / 2 * np.vecdot(w, w), gradient + share * w
    if not isinstance(problem, Problem):
        return cost, gradient, np.zeros((*w.shape, 0), w.dtype)
    return cost, gradient, curvature.gauss_newton_products(problem, w, _basis(problem, n))


def _basis(problem, n):
    return curvature.directions(problem.parameters, columns(problem), n, problem.dtype)


def own_scale(problem, w, gradient, products):
    """Estimates (agents,) of the trace of H from the own cost; without a Jacobian, of H along the own gradient."""
    A, P = problem.network_size, problem.parameters
    if products.size:
        scale = A * P / products.shape[2] * np.einsum("pk,apk->a", _basis(problem, 0), products)
        # A loss may have no curvature at the start, as Huber's far away: then by what step would be as long as w.
        scale = np.maximum(scale, A * np.linalg.norm(gradient, axis=1) / (1 + np.linalg.norm(w, axis=1)))
    else:
        norm = np.linalg.norm(gradient, axis=1, keepdims=True)
        along = np.divide(gradient, norm, out=np.full_like(gradient, P**-0.5), where=norm > 0)
        h = np.sqrt(np.finfo(w.dtype).eps) * (1 + np.linalg.norm(w, axis=1, keepdims=True))
        _, there, _ = evaluate(problem, w + h * along, 0)
        scale = A * np.linalg.norm((there - gradient) / h, axis=1)
    return np.maximum(scale, np.finfo(w.dtype).tiny ** 0.5)


def no_pairs(problem, w):
    """Secant pairs before there are any: columns of zeros."""
    return np.zeros((*w.shape, 0 if isinstance(problem, Problem) else _PAIRS), w.dtype)


def secants(problem, state, w, slope):
    """The last pairs (w - w', G - G'), scaled to steps of length one, with this round's."""
    if not state.steps.shape[2] or state.round == 0:
        return state.steps, state.changes
    step, change = w - state.w, slope - state.slope
    length = np.linalg.norm(step, axis=1, keepdims=True)
    inverse = np.divide(1, length, out=np.zeros_like(length), where=length > 0)
    append = lambda old, new: np.concatenate([old[:, :, 1:], (inverse * new)[:, :, None]], axis=2)  # noqa: E731
    return append(state.steps, step), append(state.changes, change)


def network_curvature(problem, n, products, steps, changes):
    """V with V V' ~ H: from the network's products with the directions of round n, or from secant pairs."""
    if steps.shape[2]:
        return curvature.factor(steps, changes)
    basis = _basis(problem, n)
    return curvature.factor(basis, products.reshape(len(products), *basis.shape))


def judge(problem, state, w, total, slope, tau):
    """New tau (agents,) by what the last trial brought, and which agents refuse it."""
    r, s = problem.regularizer, w - state.w
    rise = 0 if r.quadratic else r.value(w) - r.value(state.w)
    trapezoid, change = np.vecdot(s, state.slope + slope) / 2, total - state.total
    marked = change > _MARKED * np.abs(total)
    actual = np.where(marked, np.maximum(trapezoid, change), trapezoid) + rise
    predicted = _model(problem, state.slope, state.V, s) + rise
    falls = predicted < 0
    ratio = np.where(falls, actual / np.where(falls, predicted, 1), -1)
    refused = (ratio < 0) & falls & (state.refused < _REFUSALS)
    factor = np.select([ratio < 0, ratio < 0.25, ratio > 0.75], [4.0, 2.0, 1 / 3], 1.0)
    return tau * factor.astype(tau.dtype), np.where(refused, state.refused + 1, 0).astype(tau.dtype)


def _model(problem, slope, V, d):
    """``G . d + 1/2 |V' d|^2`` and a quadratic r's curvature: what the costs should change by (agents,)."""
    image = (d[:, None, :] @ V)[:, 0]
    return np.vecdot(slope, d) + (np.vecdot(image, image) + weight(problem) * np.vecdot(d, d)) / 2


def directions(problem, w, slope, V, tau):
    """Minimisers d (agents, P) of the local problems, the tau to go on with, and how many solves each agent took."""
    r = problem.regularizer
    prox = None if r.quadratic else r
    exact = getattr(getattr(problem, "model", None), "jacobian_is_constant", False) and problem.loss.quadratic
    used, tries = tau.copy(), np.ones_like(tau)
    d = low_rank(V, used + weight(problem), w, slope, prox)

    def test(rows):
        error, rounding = _own_model(problem, w, rows)
        again = np.arange(rows.start, rows.stop)
        for _ in range(_TRIES):
            decrease = -_model(problem, slope[again], V[again], d[again])
            if prox is not None:
                decrease -= r.value(w[again] + d[again]) - r.value(w[again])
            inside = again - rows.start
            again = again[~(error(d[rows])[inside] <= _TRUST * decrease + rounding[inside])]
            if not len(again):
                break
            used[again] *= 2
            tries[again] += 1
            d[again] = low_rank(V[again], used[again] + weight(problem), w[again], slope[again], prox)

    if isinstance(problem, Problem) and not exact:
        for_chunks(test, len(w), 3 * problem.shards.features.shape[1] * _widths(problem) * w.itemsize)
    problem.work.solves += 1
    problem.work.iterations += int(tries.sum())
    return d, np.maximum(tau, used / 2), tries


def _own_model(problem, w, rows):
    """A function of d: A times |own cost at w + d less that of its own Gauss-Newton model around w| (agents,); its rounding."""
    model, loss, weights = problem.model, problem.loss, problem.weights[rows]
    features, targets = problem.shards.features[rows], problem.shards.targets[rows]
    outputs, linearization = problem.linearize(w, rows)
    values, slopes, root = loss.value(outputs, targets), loss.gradient(outputs, targets), loss.curvature_root(outputs, targets)

    def error(d):
        a = linearization.jvp(d)
        modelled = (slopes * a + np.square(times_root_transposed(root, a)) / 2).sum(axis=2)
        true = loss.value(model.predict(w[rows] + d, features), targets) - values
        return problem.network_size * np.abs(np.vecdot(true - modelled, weights))

    # Differences of costs are not known better than this: near the optimum the test would compare digits that are lost.
    rounding = 10 * np.finfo(w.dtype).eps * problem.network_size * np.abs(np.vecdot(values, weights))
    return error, rounding


def _widths(problem):
    return sum(getattr(problem.model, "widths", (problem.model.outputs,)))
