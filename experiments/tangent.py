"""The benefit of linearising in every round: a quadratic network against its tangent at the start and random features."""

import numpy as np
from sklearn.preprocessing import PolynomialFeatures

import consensus
from consensus.models.linearization import linearize
from consensus.solvers import AdaptiveNEXT
from experiments.shared import quadratics
from experiments.shared.cases import Case, graph
from experiments.shared.curves import draw, own_legend, panels, plain, points, ticks
from experiments.shared.harness import Experiment
from experiments.shared.tables import Spread, Table, last

WIDTHS = (2, 5, 10, 20, 50)  # hidden units; more than features: any quadratic function can be represented
SHOWN = 5  # that whose curves are drawn
UNITS, TOLD = (3, 8, 15, 22, 30, 45), 15  # hidden units for Gaussians; those in the paper's text
GAUSSIANS = "Gaussians"
NETWORK, TANGENT, FEATURES = "network, linearised anew", "linearised once, at the start", "random features"


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "repeats": 1, "rounds": 20}
    experiment = Experiment("tangent", __doc__, arguments, datasets=["boston", "kin8nm"], repeats=3, rounds=400, quick=quick)
    agents, datasets, seeds = experiment.agents, experiment.datasets, experiment.seeds
    units = (TOLD,) if experiment.quick else UNITS

    def made(data, width, seed):
        if data == GAUSSIANS:
            return quadratics.case(width, agents, seed)
        none = consensus.L2(0.0)
        return experiment.case(data, agents, seed, hidden=width, activation="quadratic", regularizer=none)

    pairs = [(data, width) for data in datasets for width in WIDTHS] + [(GAUSSIANS, width) for width in units]
    cases = {(data, width, seed): made(data, width, seed) for data, width in pairs for seed in seeds}

    def run(data, width, method, seed):
        case, most = REGIMES[method](cases[data, width, seed], seed), experiment.rounds
        return case, graph(agents, seed), AdaptiveNEXT(), {"exchanges": most, "records": most}

    curves = [(*pair, method) for pair in pairs for method in REGIMES]
    found = experiment.train(("dataset", "hidden units", "method"), curves, run)
    optima = {which: optimum(case) for which, case in cases.items() if which[0] != GAUSSIANS}
    experiment.figure(figure(found, optima, datasets, seeds))
    experiment.figure(risks(found, units, seeds), "risks")
    experiment.table(table(found, optima, cases, datasets, seeds))
    experiment.table(compared(found, units, cases, seeds), "risks")


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
    features, targets = expand(*_samples(case))
    parts = consensus.partition(features, targets, case.problem.agents, seed=seed)
    return Case(consensus.Problem(model, consensus.SquaredLoss(), parts), expand(*case.test))


def _samples(case):
    shards = case.problem.shards
    real = shards.weights > 0
    return shards.features[real], shards.targets[real]


def optimum(case):
    """The least U of any network of this kind, whatever its width: least squares on all products of two features."""
    features, targets = _samples(case)
    return misfit(PolynomialFeatures(2).fit_transform(features), targets)


def misfit(features, targets):
    """The least of ``mean (features w - targets)^2 / 2`` over w."""
    best = np.linalg.lstsq(features, targets, rcond=None)[0]
    return float(np.mean((features @ best - targets) ** 2) / 2)


def figure(found, optima, datasets, seeds):
    canvas, axes = panels(2 * len(datasets), columns=2, size=(3.6, 3.0))
    for data, left, right in zip(datasets, axes[::2], axes[1::2], strict=True):
        least = Spread.of(optima[data, SHOWN, seed] for seed in seeds)
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
    return {NETWORK: quadratics.by_network(B, units), TANGENT: once, FEATURES: features}


def risks(found, units, seeds):
    """Test errors of what was trained, as points, on the curves of theory."""
    canvas, (ax,) = panels(1, size=(4.5, 3.2))
    d = quadratics.DIMENSION
    matrices, grid = [quadratics.matrix(d, seed) for seed in seeds], np.arange(1, max(units) + 1)
    for index, method in enumerate(REGIMES):
        curves = np.median([[theory(B, count)[method] for count in grid] for B in matrices], axis=0)
        ax.plot(grid / d, curves, color="0.6", linewidth=3, zorder=0.5, label="theory" if index == 0 else None)
        ends = [last(found[GAUSSIANS, count, method], "test_error") for count in units]
        points(ax, [count / d for count in units], ends, method, index)
        ax.lines[-1].set_linestyle("none")
    ax.set(xlabel="hidden units / features", ylabel="risk / risk of a constant", ylim=(-0.02, 1.02))
    own_legend(ax)
    return canvas


def table(found, optima, cases, datasets, seeds):
    names = {"network": ".3g", "tangent": ".3g", "random features": ".3g"}
    names |= {"tangent, least": ".3g", "random features, least": ".3g", "any quadratic, least": ".3g"}
    rows = Table({"data set": "", "units": "d", **names, **{f"test error, {name}": ".3g" for name in list(names)[:3]}})
    for data in datasets:
        for width in WIDTHS:
            ends = [last(found[data, width, method], "objective") for method in REGIMES]
            least = [
                Spread.of(misfit(*_with_bias(linear(cases[data, width, seed], seed))) for seed in seeds)
                for linear in (tangent, random_features)
            ]
            any_quadratic = Spread.of(optima[data, width, seed] for seed in seeds)
            errors = [last(found[data, width, method], "test_error") for method in REGIMES]
            rows.add(data, width, *ends, *least, any_quadratic, *errors)
    return rows


def _with_bias(case):
    """The features of a linear model, with a column of ones if it has a bias, and the targets."""
    features, targets = _samples(case)
    return np.column_stack([features, np.ones(len(features))]) if case.problem.model.bias else features, targets


def compared(found, units, cases, seeds):
    """The test errors for Gaussians, and the least risk of any parameters of the same regime at the same start."""
    names = dict.fromkeys(REGIMES, ".3g") | {f"{method}, least": ".3g" for method in REGIMES}
    rows = Table({"units": "d", **names, **{f"{method}, limit": ".3g" for method in (TANGENT, FEATURES)}})
    for count in units:
        least, limit = {method: [] for method in REGIMES}, {method: [] for method in REGIMES}
        for seed in seeds:
            B, start = quadratics.matrix(quadratics.DIMENSION, seed), _start(cases[GAUSSIANS, count, seed], seed)
            W = start[: quadratics.DIMENSION * count].reshape(quadratics.DIMENSION, count)
            known = quadratics.by_network(B, count), quadratics.by_tangent(B, W), quadratics.by_features(B, W)
            for method, own in zip(REGIMES, known, strict=True):
                least[method].append(own)
                limit[method].append(theory(B, count)[method])
        ends = [last(found[GAUSSIANS, count, method], "test_error") for method in REGIMES]
        limits = [Spread.of(limit[method]) for method in (TANGENT, FEATURES)]
        rows.add(count, *ends, *(Spread.of(least[method]) for method in REGIMES), *limits)
    return rows


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
