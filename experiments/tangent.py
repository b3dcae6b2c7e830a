"""The benefit of linearising in every round: a quadratic network against its tangent at the start and random features."""

import itertools

import numpy as np
from sklearn.preprocessing import PolynomialFeatures

import consensus
from consensus.models.linearization import linearize
from consensus.solvers import AdaptiveNEXT
from experiments.shared import cases, quadratics
from experiments.shared.cases import Case
from experiments.shared.curves import draw, own_legend, panels, plain, points, ticks
from experiments.shared.studies import Folder, options, trained
from experiments.shared.tables import Spread, Table, last

WIDTHS = (2, 5, 10, 20, 50)  # hidden units; more than features: any quadratic function can be represented
SHOWN = 5  # that whose curves are drawn
UNITS, TOLD = (3, 8, 15, 22, 30, 45), 15  # hidden units for Gaussians; those in the paper's text
GAUSSIANS = "Gaussians"
NETWORK, TANGENT, FEATURES = "network, linearised anew", "linearised once, at the start", "random features"


def case(seed, data, units, method, agents, every, exchanges):
    if data == GAUSSIANS:
        whole = quadratics.case(units, agents, seed)
    else:
        whole = cases.case(data, agents, seed, hidden=units, activation="quadratic", regularizer=consensus.L2(0.0))
    problem, test = REGIMES[method](whole, seed)
    return problem, cases.graph(agents, seed), {"test": test, "record_every": every, "exchanges": exchanges}


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "seeds": 1, "rounds": 20}
    given = options(__doc__, arguments, quick, dataset=["boston", "kin8nm"], agents=10, seeds=3, rounds=400)
    folder, units = Folder(given, "tangent"), (TOLD,) if given.quick else UNITS
    found = {}
    for name, datasets, widths in (("data", given.dataset, WIDTHS), ("gaussians", [GAUSSIANS], units)):
        over = {"data": datasets, "units": widths, "method": list(REGIMES)}
        fixed = {"rows": given.rounds, "agents": given.agents, "exchanges": given.rounds}
        found |= trained(given, folder / name, case, over, {1: {"AdaptiveNEXT": AdaptiveNEXT()}}, **fixed)
    found = {key[:-1]: done for key, done in found.items()}
    optima = {data: Spread.of(optimum(done.problem) for done in found[data, SHOWN, NETWORK]) for data in given.dataset}
    folder.figure(figure(found, optima))
    folder.figure(risks(found, units, range(given.seeds)), "risks")
    folder.table(table(found, optima))
    folder.table(compared(found, units, range(given.seeds)), "risks")


def tangent(case, seed):
    """The case for ``f(w0) + J (w - w0)``, J taken at the start w0: linear in w - w0, with the rows of J as features."""
    model, start = case.problem.model, _start(case, seed)[None]

    def expand(X, y):
        outputs, linearization = linearize(model, start, X[None])
        return linearization.jacobian()[0], y.reshape(-1, 1) - outputs[0]

    return _linear(case, expand, consensus.Linear(model.parameters, bias=False), seed)


def random_features(case, seed):
    """The case for the last layer alone: the hidden units at the start are the features of a linear model."""
    (first, m, k), _ = case.problem.model.matrices
    start = _start(case, seed)
    weights, bias = start[first : first + m * k].reshape(m, k), start[first + m * k : first + (m + 1) * k]
    return _linear(case, lambda X, y: (np.square(X @ weights + bias), y.reshape(-1, 1)), consensus.Linear(k), seed)


REGIMES = {NETWORK: lambda case, seed: case, TANGENT: tangent, FEATURES: random_features}


def _start(case, seed):
    return case.problem.model.init(np.random.default_rng(seed))


def _linear(case, expand, model, seed):
    """The case of a linear model of other features, which ``expand`` makes of the samples, as are the targets."""
    features, targets = expand(*_samples(case.problem))
    parts = consensus.partition(features, targets, case.problem.agents, seed=seed)
    return Case(consensus.Problem(model, consensus.SquaredLoss(), parts), expand(*case.test))


def _samples(problem):
    real = problem.shards.weights > 0
    return problem.shards.features[real], problem.shards.targets[real]


def optimum(problem):
    """The least U of any network of this kind, whatever its width: least squares on all products of two features."""
    features, targets = _samples(problem)
    return misfit(PolynomialFeatures(2).fit_transform(features), targets)


def misfit(features, targets):
    """The least of ``mean (features w - targets)^2 / 2`` over w."""
    best = np.linalg.lstsq(features, targets, rcond=None)[0]
    return float(np.mean((features @ best - targets) ** 2) / 2)


def figure(found, optima):
    canvas, axes = panels(2 * len(optima), columns=2, size=(3.6, 3.0))
    for (data, least), left, right in zip(optima.items(), axes[::2], axes[1::2], strict=True):
        draw(left, {method: found[data, SHOWN, method] for method in REGIMES}, "objective")
        left.set_title(f"{data}, {SHOWN} hidden units")
        for index, method in enumerate(REGIMES):
            ends = [last(found[data, width, method], "objective") for width in WIDTHS]
            points(right, WIDTHS, ends, method, index)
        right.set(xscale="log", yscale="log", xlabel="hidden units", ylabel="objective at the end", title=data)
        ticks(right.xaxis, WIDTHS)
        plain(right.yaxis)
        for ax in (left, right):
            ax.axhline(least.middle, color="0.6", linewidth=3, zorder=0.5, label="least of any quadratic function")
            own_legend(ax, columns=1)
    return canvas


def theory(B, units):
    """The risks that theory gives in each regime: for the network of this B, for the others in the limit of large d."""
    features, once = quadratics.limits(B, units / len(B))
    return quadratics.by_network(B, units), once, features


def risks(found, units, seeds):
    """Test errors of what was trained, as points, on the curves of theory."""
    canvas, (ax,) = panels(1, size=(4.5, 3.2))
    d = quadratics.DIMENSION
    matrices, grid = [quadratics.matrix(d, seed) for seed in seeds], np.arange(1, max(units) + 1)
    curves = np.median([[theory(B, count) for count in grid] for B in matrices], axis=0)
    for index, method in enumerate(REGIMES):
        ax.plot(grid / d, curves[:, index], color="0.6", linewidth=3, zorder=0.5, label="theory" if index == 0 else None)
        ends = [last(found[GAUSSIANS, count, method], "test_error") for count in units]
        points(ax, [count / d for count in units], ends, method, index)
        ax.lines[-1].set_linestyle("none")
    ax.set(xlabel="hidden units / features", ylabel="risk / risk of a constant", ylim=(-0.02, 1.02))
    own_legend(ax)
    return canvas


def table(found, optima):
    names = ("network", "tangent", "random features")
    columns = (*names, "tangent, least", "random features, least", "any quadratic, least")
    rows = Table({"data set": "", "units": "d"} | dict.fromkeys((*columns, *(f"test error, {name}" for name in names)), ".3g"))
    for data, width in itertools.product(optima, WIDTHS):
        ends, errors = ([last(found[data, width, method], c) for method in REGIMES] for c in ("objective", "test_error"))
        linear = [[misfit(*_with_bias(done.problem)) for done in found[data, width, method]] for method in (TANGENT, FEATURES)]
        rows.add(data, width, *ends, *map(Spread.of, linear), optima[data], *errors)
    return rows


def _with_bias(problem):
    """The features of a linear model, with a column of ones if it has a bias, and the targets."""
    features, targets = _samples(problem)
    return np.column_stack([features, np.ones(len(features))]) if problem.model.bias else features, targets


def compared(found, units, seeds):
    """The test errors for Gaussians, and the least risk of any parameters of the same regime at the same start."""
    columns = (*REGIMES, *(f"{method}, least" for method in REGIMES), *(f"{method}, limit" for method in (TANGENT, FEATURES)))
    rows = Table({"units": "d"} | dict.fromkeys(columns, ".3g"))
    for count in units:
        ends = [last(found[GAUSSIANS, count, method], "test_error") for method in REGIMES]
        rows.add(count, *ends, *map(Spread.of, zip(*(known(count, seed) for seed in seeds), strict=True)))
    return rows


def known(units, seed):
    """The least risk in each regime at the start that the seed draws, and the limits of the tangent and of random features."""
    d = quadratics.DIMENSION
    B, start = quadratics.matrix(d, seed), consensus.MLP([d, units, 1], "quadratic").init(np.random.default_rng(seed))
    W = start[: d * units].reshape(d, units)
    least = quadratics.by_network(B, units), quadratics.by_tangent(B, W), quadratics.by_features(B, W)
    return *least, *theory(B, units)[1:]


def stated(rows):
    """The numbers in the paper's text, from the rows of the second table."""
    row = next(row for row in rows if int(row["units"]) == TOLD)
    found = {"gaussians.features": quadratics.DIMENSION, "gaussians.units": TOLD}
    for method, name in zip(REGIMES, ("network", "tangent", "random"), strict=True):
        ends = {"": row[method], ".least": row[f"{method}, least"]}
        found |= {f"gaussians.{name}{end}": f"{float(value):.2g}" for end, value in ends.items()}
    return found


if __name__ == "__main__":
    main()
