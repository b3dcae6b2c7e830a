"""The benefit of linearising in every round: a network against its tangent model at the start, with quadratic activations."""

import numpy as np
from matplotlib.ticker import NullLocator
from sklearn.preprocessing import PolynomialFeatures

import consensus
from consensus.models.linearization import linearize
from consensus.solvers import AdaptiveNEXT
from experiments.shared.cases import Case, graph
from experiments.shared.curves import draw, own_legend, panels, plain, points
from experiments.shared.harness import Experiment
from experiments.shared.results import training
from experiments.shared.tables import Spread, Table, last

WIDTHS = (2, 5, 10, 20, 50)  # hidden units; more than features: any quadratic function can be represented
SHOWN = 5  # that whose curves are drawn
NETWORK, TANGENT = "network, linearised anew", "linearised once, at the start"
METHODS = (NETWORK, TANGENT)


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "repeats": 1, "rounds": 20}
    experiment = Experiment("tangent", __doc__, arguments, datasets=["boston", "kin8nm"], repeats=3, rounds=400, quick=quick)
    agents, datasets, seeds = experiment.agents, experiment.datasets, experiment.seeds

    def made(data, width, seed):
        none = consensus.L2(0.0)
        return experiment.case(data, agents, seed, hidden=width, activation="quadratic", regularizer=none)

    cases = {(data, width, seed): made(data, width, seed) for data in datasets for width in WIDTHS for seed in seeds}

    def run(curve, seed):
        data, width, method = curve
        settings = {"dataset": data, "hidden units": width, "method": method, "agents": agents, "seed": seed}
        case = cases[data, width, seed] if method == NETWORK else tangent(cases[data, width, seed], seed)
        net, most = graph(agents, seed), experiment.rounds
        return training(settings, case, net, AdaptiveNEXT(), rounds=most, exchanges=most, records=most, seed=seed)

    curves = [(data, width, method) for data in datasets for width in WIDTHS for method in METHODS]
    found = experiment.repeat(run, curves)
    optima = {which: optimum(case) for which, case in cases.items()}
    experiment.figure(figure(found, optima, datasets, seeds))
    experiment.table(table(found, optima, cases, datasets, seeds))


def tangent(case, seed):
    """The case for ``f(w0) + J (w - w0)``, J taken at the start w0: linear in w - w0, with the rows of J as features."""
    model, shards = case.problem.model, case.problem.shards
    start = model.init(np.random.default_rng(seed))[None]

    def expand(X, y):
        outputs, linearization = linearize(model, start, X[None])
        return linearization.jacobian()[0], y.reshape(-1, 1) - outputs[0]

    real = shards.weights > 0
    features, targets = expand(shards.features[real], shards.targets[real])
    parts, linear = consensus.partition(features, targets, len(real), seed=seed), consensus.Linear(model.parameters, bias=False)
    return Case(consensus.Problem(linear, consensus.SquaredLoss(), parts), expand(*case.test))


def optimum(case):
    """The least U of any network of this kind, whatever its width: least squares on all products of two features."""
    shards = case.problem.shards
    real = shards.weights > 0
    products, targets = PolynomialFeatures(2).fit_transform(shards.features[real]), shards.targets[real]
    return misfit(products, targets)


def misfit(features, targets):
    """The least of ``mean (features w - targets)^2 / 2`` over w."""
    best = np.linalg.lstsq(features, targets, rcond=None)[0]
    return float(np.mean((features @ best - targets) ** 2) / 2)


def figure(found, optima, datasets, seeds):
    canvas, axes = panels(2 * len(datasets), columns=2, size=(3.6, 2.9))
    for data, left, right in zip(datasets, axes[::2], axes[1::2], strict=True):
        least = Spread.of(optima[data, SHOWN, seed] for seed in seeds)
        draw(left, {method: found[data, SHOWN, method] for method in METHODS}, "objective")
        left.set_title(f"{data}, {SHOWN} hidden units")
        for index, method in enumerate(METHODS):
            ends = [last(found[data, width, method], "objective") for width in WIDTHS]
            points(right, [(width,) * 3 for width in WIDTHS], ends, method, index)
        right.set(xscale="log", yscale="log", xlabel="hidden units", ylabel="objective at the end", title=data)
        right.set_xticks(WIDTHS, WIDTHS)
        right.xaxis.set_minor_locator(NullLocator())
        plain(right.yaxis)
        for ax in (left, right):
            ax.axhline(least.middle, color="0.6", linewidth=3, zorder=0.5, label="least of any quadratic function")
            own_legend(ax, columns=1)
    return canvas


def table(found, optima, cases, datasets, seeds):
    names = {"network": ".3g", "tangent": ".3g", "tangent, least": ".3g", "any quadratic, least": ".3g"}
    rows = Table({"data set": "", "units": "d", **names, "test error, network": ".3g", "tangent's": ".3g"})
    for data in datasets:
        for width in WIDTHS:
            ends = [last(found[data, width, method], "objective") for method in METHODS]
            once = [tangent(cases[data, width, seed], seed).problem.shards for seed in seeds]
            least = Spread.of(misfit(s.features[s.weights > 0], s.targets[s.weights > 0]) for s in once)
            any_quadratic = Spread.of(optima[data, width, seed] for seed in seeds)
            errors = [last(found[data, width, method], "test_error") for method in METHODS]
            rows.add(data, width, *ends, least, any_quadratic, *errors)
    return rows


if __name__ == "__main__":
    main()
