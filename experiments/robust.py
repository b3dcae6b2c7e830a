"""Agents that lie: what from none to six liars of twenty cost the honest ones, with and without robust mixing."""

import sys

import numpy as np

import consensus
import topologies
from consensus.robust import ALIE, IPM, NNA, Attack, ClippedGossip, CSPlus, Dissensus, SignFlip, flip_labels
from consensus.solvers import DGD
from experiments.robustness.linear import smooth_optimum
from experiments.shared.cases import DECAY, Case
from experiments.shared.curves import legend, panels, plain, points
from experiments.shared.harness import Experiment
from experiments.shared.results import training
from experiments.shared.tables import Spread, Table

LIARS = (0, 1, 3, 4, 6)
TOLERATED = 0.15  # of the agents: three of twenty
LIES = {"sign flip": SignFlip(), "ALIE": ALIE(), "IPM": IPM(), "dissensus": Dissensus(), "label flip": None}
MIXING = {"plain": None, "CS+": CSPlus, "NNA": NNA, "ClippedGossip": ClippedGossip}
SOLVER = DGD(0.1)


def main(arguments=None):
    quick = {"repeats": 1, "rounds": 20}
    experiment = Experiment("robust", __doc__, arguments, datasets=["diabetes"], agents=20, rounds=200, repeats=3, quick=quick)
    agents, datasets = experiment.agents, experiment.datasets
    if agents < 4:
        sys.exit(f"error: one liar among {agents} agents is too many; --agents 4 is the least")
    most = max(1, int(TOLERATED * agents))
    counts = [count for count in LIARS[:: 2 if experiment.quick else 1] if count <= agents - 2]
    cases = {(data, seed): linear(experiment.case(data, agents, seed)) for data in datasets for seed in experiment.seeds}

    def run(curve, seed):
        data, mixing, attack, count = curve
        settings = {"dataset": data, "mixing": mixing, "attack": attack, "liars": count, "agents": agents, "seed": seed}
        case, network, liars = cases[data, seed], net(agents, seed), drawn(agents, count, seed)
        solver, robust = SOLVER, MIXING[mixing]
        if robust:
            solver = robust(solver, tolerated=most / (1 + degree(agents)))
        if attack == "label flip":
            case = case._replace(problem=flipped(case.problem, liars))
        elif count:
            solver = Attack(solver, liars, LIES[attack])
        return training(settings, case, network, solver, rounds=experiment.rounds, seed=seed)

    kinds = [("none", 0), *((attack, count) for attack in LIES for count in counts if count)]
    found = experiment.repeat(run, [(data, mixing, *kind) for data in datasets for mixing in MIXING for kind in kinds])
    costs = {curve: excess(outcomes, cases, curve, experiment.seeds) for curve, outcomes in found.items()}
    costs |= {
        (data, mixing, attack, 0): costs[data, mixing, "none", 0] for data in datasets for mixing in MIXING for attack in LIES
    }
    experiment.figure(figure(costs, datasets, counts, most))
    experiment.table(table(costs, datasets, counts))


def linear(case):
    """The case with a model that is linear, so that there is one optimum."""
    problem = case.problem
    model = consensus.Linear(problem.shards.features.shape[-1], problem.model.outputs)
    return Case(consensus.Problem(model, problem.loss, problem.shards, DECAY), case.test)


def flipped(problem, liars):
    classes = {consensus.SquaredLoss: None, consensus.LogisticLoss: 2}.get(type(problem.loss), problem.model.outputs)
    shards = flip_labels(problem.shards, liars, classes)
    return consensus.Problem(problem.model, problem.loss, shards, problem.regularizer)


def degree(agents):
    """How many neighbours each of them has: three fifths of the others, and more of few."""
    return min(agents - 1, 2 * max(2, round(0.3 * agents)))


def net(agents, seed):
    """A random graph where all have as many neighbours, and all edges weigh the same: so do as many liars."""
    return topologies.Static(topologies.random_regular(agents, degree(agents), seed=seed), weights=topologies.max_degree)


def drawn(agents, count, seed):
    """Who lies: more liars are the same and some more."""
    return np.sort(np.random.default_rng(seed).permutation(agents)[:count]).tolist()


def excess(outcomes, cases, curve, seeds):
    """How far the honest agents' objective is above its least, in percent of that, at their own copies, on average."""
    data, _, _, count = curve
    values = []
    for outcome, seed in zip(outcomes, seeds, strict=True):
        whole = cases[data, seed].problem
        honest = np.setdiff1d(np.arange(whole.agents), drawn(whole.agents, count, seed))
        own = whole.shards.restrict(honest)
        real = own.weights > 0
        shards = consensus.partition(own.features[real], own.targets[real], agents=len(honest))
        theirs = consensus.Problem(whole.model, whole.loss, shards, whole.regularizer)
        ends = np.inf if outcome.diverged else np.mean([theirs.objective(w) for w in outcome.w[honest]])
        values.append(100 * (ends / smooth_optimum(theirs) - 1))
    return Spread.of(values)


def figure(costs, datasets, counts, most):
    usual = [spread.middle for spread in costs.values() if spread.middle < 1e6]  # what blows up leaves the axes
    canvas, axes = panels(len(datasets) * len(LIES), columns=3, size=(2.6, 2.4), share=True)
    for ax, (data, attack) in zip(axes, [(data, attack) for data in datasets for attack in LIES], strict=True):
        for index, mixing in enumerate(MIXING):
            spreads = [costs[data, mixing, attack, count] for count in counts]
            points(ax, [(count,) * 3 for count in counts], spreads, mixing, index)
        ax.axvline(most, color="0.6", linewidth=3, zorder=1, label="as many are tolerated")
        ax.set(title=f"{data}, {attack}" if len(datasets) > 1 else attack, xlabel="agents that lie", yscale="log")
        ax.set_xticks(counts)
        plain(ax.yaxis)
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel("honest agents' objective\nabove its least [%]")
    axes[0].set_ylim(min(usual) / 2, 2 * max(usual))
    legend(canvas, axes[0], columns=5)
    return canvas


def table(costs, datasets, counts):
    rows = Table({"data set": "", "attack": "", "liars": "d", **{f"{mixing}, % above": ".2g" for mixing in MIXING}})
    for data in datasets:
        for attack in LIES:
            for count in counts:
                rows.add(data, attack, count, *(costs[data, mixing, attack, count] for mixing in MIXING))
    return rows


if __name__ == "__main__":
    main()
