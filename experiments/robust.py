"""The cost of none to six Byzantine agents among twenty to the honest ones, by aggregation rule and distribution of data."""

import sys
from functools import partial

import numpy as np

import consensus
import topologies
from consensus.robust import ALIE, IPM, NNA, NNM, Attack, Bucketing, ClippedGossip, CSPlus, Dissensus, SignFlip, flip_labels
from consensus.solvers import DGD, DSGDm
from experiments.shared.cases import DECAY, Case
from experiments.shared.centralised import lowest
from experiments.shared.curves import legend, panels, plain, points
from experiments.shared.harness import Experiment
from experiments.shared.tables import Spread, Table

SHARED_OUT = {"iid": "like data", "sorted": "sorted by target"}
BYZANTINE = (0, 1, 3, 6)
TOLERATED = 0.15  # of the agents: three of twenty
ATTACKS = {"sign flip": SignFlip(), "ALIE": ALIE(), "IPM": IPM(), "dissensus": Dissensus(), "label flip": None}
RULES = {"CS+": CSPlus, "NNA": NNA, "ClippedGossip": ClippedGossip}
MIXING = {
    "plain": None,
    **RULES,
    **{f"{name}, NNM": partial(rule, before=NNM()) for name, rule in RULES.items()},
    # Of twelve neighbours two in a bucket: CS+ would clip all of them.
    **{f"{name}, bucketing": partial(RULES[name], before=Bucketing(2)) for name in ("NNA", "ClippedGossip")},
}
DRAWN = ("plain", *RULES, "ClippedGossip, NNM")
SOLVER = DGD(0.1)
MOMENTA = {"no momentum": 0.0, "momentum 0.9": 0.9}  # of descent by one sample


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "repeats": 1, "rounds": 20}
    usual = {"datasets": ["diabetes", "breast_cancer"], "agents": 20, "rounds": 200, "repeats": 3}
    experiment = Experiment("robust", __doc__, arguments, **usual, quick=quick)
    agents, places = experiment.agents, [(data, scheme) for data in experiment.datasets for scheme in SHARED_OUT]
    if agents < 4:
        sys.exit(f"error: one Byzantine agent among {agents} agents is too many; --agents 4 is the least")
    most = max(1, int(TOLERATED * agents))
    counts = [count for count in BYZANTINE[:: 2 if experiment.quick else 1] if count <= agents - 2]
    cases = {
        (*place, seed): linear(experiment.case(place[0], agents, seed, scheme=place[1]))
        for place in places
        for seed in experiment.seeds
    }
    names = "dataset", "shards", "mixing", "attack", "byzantine"

    def run(data, scheme, mixing, attack, count, seed, solver=SOLVER, rounds=experiment.rounds):
        case, network, byzantine = cases[data, scheme, seed], net(agents, seed), drawn(agents, count, seed)
        robust = MIXING[mixing]
        if robust:
            solver = robust(solver, byzantine_weight=most / (1 + degree(agents)))
        if attack == "label flip":
            case = case._replace(problem=flipped(case.problem, byzantine))
        elif count:
            solver = Attack(solver, byzantine, ATTACKS[attack])
        return case, network, solver, {"rounds": rounds, "records": 10}

    kinds = [("none", 0), *((attack, count) for attack in ATTACKS for count in counts if count)]
    curves = [(*place, mixing, *kind) for place in places for mixing in MIXING for kind in kinds]
    found = experiment.train(names, curves, run)
    costs = {curve: excess(outcomes, cases, curve, experiment.seeds) for curve, outcomes in found.items()}
    costs |= {
        (*place, mixing, attack, 0): costs[*place, mixing, "none", 0]
        for place in places
        for mixing in MIXING
        for attack in ATTACKS
    }
    for place in places:
        experiment.figure(figure(costs, place, counts, most), "figure" if place == places[0] else f"{place[0]}-{place[1]}")
    experiment.table(table(costs, places, counts))

    place, attacks = places[0], [("none", 0), *((attack, most) for attack, function in ATTACKS.items() if function)]
    curves = [(*place, mixing, *kind) for mixing in ("plain", *RULES) for kind in attacks]
    noisy = {name: DSGDm(0.05, batch=1, momentum=momentum) for name, momentum in MOMENTA.items()}
    by_momentum = {
        name: experiment.train(names, curves, partial(run, solver=solver, rounds=2 * experiment.rounds), f"runs with {name}")
        for name, solver in noisy.items()
    }
    experiment.table(momentum_table(by_momentum, cases, experiment.seeds, place, attacks), "momentum")


def linear(case):
    """The case with a model that is linear, so that there is one optimum."""
    problem = case.problem
    model = consensus.Linear(problem.shards.features.shape[-1], problem.model.outputs)
    return Case(consensus.Problem(model, problem.loss, problem.shards, DECAY), case.test)


def flipped(problem, byzantine):
    classes = {consensus.SquaredLoss: None, consensus.LogisticLoss: 2}.get(type(problem.loss), problem.model.outputs)
    shards = flip_labels(problem.shards, byzantine, classes)
    return consensus.Problem(problem.model, problem.loss, shards, problem.regularizer)


def degree(agents):
    """Return the number of neighbours of each agent: three fifths of the others, and more in small networks."""
    return min(agents - 1, 2 * max(2, round(0.3 * agents)))


def net(agents, seed):
    """A random regular graph whose edges all have the same weight."""
    return topologies.Static(topologies.random_regular(agents, degree(agents), seed=seed), weights=topologies.max_degree)


def drawn(agents, count, seed):
    """The Byzantine agents: a larger count adds agents to those of a smaller one."""
    return np.sort(np.random.default_rng(seed).permutation(agents)[:count]).tolist()


def excess(outcomes, cases, curve, seeds):
    """Return the percentage by which the honest agents' objective, at their own copies, exceeds its least, on average."""
    *place, _, _, count = curve
    values = []
    for outcome, seed in zip(outcomes, seeds, strict=True):
        whole = cases[*place, seed].problem
        honest = np.setdiff1d(np.arange(whole.agents), drawn(whole.agents, count, seed))
        own = whole.shards.restrict(honest)
        real = own.weights > 0
        shards = consensus.partition(own.features[real], own.targets[real], agents=len(honest))
        theirs = consensus.Problem(whole.model, whole.loss, shards, whole.regularizer)
        ends = np.inf if outcome.diverged else np.mean([theirs.objective(w) for w in outcome.w[honest]])
        values.append(100 * (ends / lowest(theirs, np.zeros(theirs.parameters), "BFGS", gtol=1e-10, maxiter=10000) - 1))
    return Spread.of(values)


def figure(costs, place, counts, most):
    of = {
        attack: {mixing: [costs[*place, mixing, attack, count] for count in counts] for mixing in DRAWN} for attack in ATTACKS
    }
    usual = [spread.middle for curves in of.values() for spreads in curves.values() for spread in spreads]
    usual = [value for value in usual if value < 1e4]  # what blows up leaves the axes
    canvas, axes = panels(len(ATTACKS), columns=3, size=(2.6, 2.4), share=True)
    for ax, (attack, curves) in zip(axes, of.items(), strict=True):
        for index, (mixing, spreads) in enumerate(curves.items()):
            points(ax, counts, spreads, mixing, index)
        ax.axvline(most, color="0.6", linewidth=3, zorder=1, label="tolerated")
        ax.set(title=attack, xlabel="Byzantine agents", yscale="log")
        ax.set_xticks(counts)
        plain(ax.yaxis)
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel("honest agents' objective\nabove its least [%]")
    axes[0].set_ylim(min(usual) / 2, 2 * max(usual))
    legend(canvas, axes[0], columns=3)
    return canvas


def table(costs, places, counts):
    named = {"data set": "", "shards": "", "attack": "", "byzantine": "d"}
    rows = Table({**named, **{f"{mixing}, % above": ".2g" for mixing in MIXING}})
    for data, scheme in places:
        for attack in ATTACKS:
            for count in counts:
                spreads = [costs[data, scheme, mixing, attack, count] for mixing in MIXING]
                rows.add(data, SHARED_OUT[scheme], attack, count, *spreads)
    return rows


def momentum_table(by_momentum, cases, seeds, place, attacks):
    columns = [(mixing, name) for mixing in ("plain", *RULES) for name in MOMENTA]
    rows = Table({"attack": "", "byzantine": "d", **{f"{mixing}, {name}, % above": ".2g" for mixing, name in columns}})
    for attack, count in attacks:
        curves = [(name, (*place, mixing, attack, count)) for mixing, name in columns]
        rows.add(attack, count, *(excess(by_momentum[name][curve], cases, curve, seeds) for name, curve in curves))
    return rows


if __name__ == "__main__":
    main()
