"""The cost of none to six Byzantine agents among twenty to the honest ones, by aggregation rule and distribution of data."""

import itertools
import sys
from functools import cache, partial

import numpy as np

import consensus
import topologies
from consensus.robust import ALIE, IPM, NNA, NNM, Attack, Bucketing, ClippedGossip, CSPlus, Dissensus, SignFlip, flip_labels
from consensus.solvers import DGD, DSGDm
from consensus.studies import Study
from experiments.shared import cases
from experiments.shared.centralised import lowest
from experiments.shared.curves import legend, panels, plain, points
from experiments.shared.studies import Folder, objective, options, outcomes, ran
from experiments.shared.tables import Spread, Table

SHARED_OUT = {"iid": "like data", "sorted": "sorted by target"}
BYZANTINE = (0, 1, 3, 6)
TOLERATED = 0.15  # of the agents: three of twenty
SENT = {"sign flip": SignFlip(), "ALIE": ALIE(), "IPM": IPM(), "dissensus": Dissensus()}
FLIP = "label flip"
ATTACKS = (*SENT, FLIP)
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
    quick = {"dataset": ["diabetes"], "seeds": 1, "rounds": 20}
    given = options(__doc__, arguments, quick, dataset=["diabetes", "breast_cancer"], agents=20, seeds=3, rounds=200)
    agents, places = given.agents, [(data, shards) for data in given.dataset for shards in SHARED_OUT]
    if agents < 4:
        sys.exit(f"error: one Byzantine agent among {agents} agents is too many; --agents 4 is the least")
    folder, most = Folder(given, "robust"), tolerated(agents)
    counts = [count for count in BYZANTINE[:: 2 if given.quick else 1] if count <= agents - 2]

    costs = run(folder / "runs", given, places, MIXING, list(itertools.product(ATTACKS, counts)), SOLVER, given.rounds)
    for place in places:
        folder.figure(figure(costs, place, counts, most), "figure" if place == places[0] else f"{place[0]}-{place[1]}")
    folder.table(table(costs, places, counts))

    kinds, rules = [("none", 0), *((attack, most) for attack in SENT)], ("plain", *RULES)
    by_momentum = {
        name: run(folder / "momentum", given, places[:1], rules, kinds, DSGDm(0.05, batch=1, momentum=value), 2 * given.rounds)
        for name, value in MOMENTA.items()
    }
    folder.table(momentum_table(by_momentum, places[0], kinds), "momentum")


def case(seed, place, flipped, agents, every):
    """The labels of so many Byzantine agents are flipped."""
    whole = linear(place, agents, seed)
    problem, start = whole.problem, whole.problem.model.init(np.random.default_rng(seed))
    if flipped:
        classes = {consensus.SquaredLoss: None, consensus.LogisticLoss: 2}.get(type(problem.loss), problem.model.outputs)
        shards = flip_labels(problem.shards, drawn(agents, flipped, seed), classes)
        problem = consensus.Problem(problem.model, problem.loss, shards, problem.regularizer)
    return problem, net(agents, seed), {"test": whole.test, "record_every": every, "start": start, "seed": 0}


def linear(place, agents, seed):
    """Linear models, so that there is one optimum."""
    data, scheme = place
    return cases.case(data, agents, seed, hidden=0, scheme=scheme)


def run(folder, given, places, mixing, kinds, solver, rounds):
    """The costs by place, rule, attack and number of Byzantine agents; other ones for each seed, which has its own solvers."""
    made, found = partial(case, agents=given.agents, every=max(1, rounds // 10)), {}
    flips = {(attack, count): count if attack == FLIP else 0 for attack, count in kinds}
    for seed in range(given.seeds):
        for flipped in dict.fromkeys(flips.values()):
            curves = [(rule, *kind) for rule in mixing for kind in kinds if flips[kind] == flipped]
            solvers = {f"{curve}": attacked(solver, *curve, given.agents, seed) for curve in curves}
            usual = {"solvers": solvers, "seeds": [seed], "rounds": rounds, "measure": objective, "folder": folder}
            study = Study(made, over={"place": places, "flipped": [flipped]}, **usual)
            done = outcomes(ran(study, given.workers))
            for place, curve in itertools.product(places, curves):
                (outcome,) = done[place, flipped, f"{curve}"]
                found.setdefault((*place, *curve), []).append(excess(outcome, place, given.agents, curve[-1], seed))
    return {curve: Spread.of(values) for curve, values in found.items()}


def attacked(solver, mixing, attack, count, agents, seed):
    """The solver with a rule, and with so many agents that send what an attack says."""
    if robust := MIXING[mixing]:
        solver = robust(solver, byzantine_weight=tolerated(agents) / (1 + degree(agents)))
    return Attack(solver, drawn(agents, count, seed), SENT[attack]) if count and attack in SENT else solver


def tolerated(agents):
    return max(1, int(TOLERATED * agents))


def degree(agents):
    """Return the number of neighbours of each agent: three fifths of the others, and more in small networks."""
    return min(agents - 1, 2 * max(2, round(0.3 * agents)))


def net(agents, seed):
    """A random regular graph whose edges all have the same weight."""
    return topologies.Static(topologies.random_regular(agents, degree(agents), seed=seed), weights=topologies.max_degree)


def drawn(agents, count, seed):
    """The Byzantine agents: a larger count adds agents to those of a smaller one."""
    return np.sort(np.random.default_rng(seed).permutation(agents)[:count]).tolist()


def excess(outcome, place, agents, count, seed):
    """Return the percentage by which the honest agents' objective, at their own copies, exceeds its least, on average."""
    honest, theirs, least = of_honest(place, agents, count, seed)
    ends = np.inf if outcome.diverged else np.mean([theirs.objective(w) for w in outcome.w[honest]])
    return 100 * (ends / least - 1)


@cache
def of_honest(place, agents, count, seed):
    """Return the honest agents, their problem, and its least objective."""
    whole, honest = linear(place, agents, seed).problem, np.setdiff1d(np.arange(agents), drawn(agents, count, seed))
    own = whole.shards.restrict(honest)
    real = own.weights > 0
    shards = consensus.partition(own.features[real], own.targets[real], agents=len(honest))
    theirs = consensus.Problem(whole.model, whole.loss, shards, whole.regularizer)
    return honest, theirs, lowest(theirs, np.zeros(theirs.parameters), "BFGS", gtol=1e-10, maxiter=10000)


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


def momentum_table(costs, place, kinds):
    columns = list(itertools.product(("plain", *RULES), MOMENTA))
    rows = Table({"attack": "", "byzantine": "d", **{f"{mixing}, {name}, % above": ".2g" for mixing, name in columns}})
    for kind in kinds:
        rows.add(*kind, *(costs[name][*place, mixing, *kind] for mixing, name in columns))
    return rows


if __name__ == "__main__":
    main()
