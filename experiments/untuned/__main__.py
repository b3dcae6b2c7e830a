"""Solvers without settings on cases that chose no constant: sums over trees against L-BFGS, gossip against tuned rivals.

python -m experiments.untuned [trees | gossip | default | drawn] [--cases 2] [--seed 1] [--quick]

Measured are exchanges, and bytes in the whole network, until the objective at the agents' mean is within a part of the gap
between the start's and the least. Rivals are tuned case by case and measure by measure. Who does not get there counts as all
exchanges of a run, and the bytes sent in them.
"""

import argparse
import functools
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from consensus._arrays.parallel import cores
from consensus.solvers import EXTRA, NIDS, OPAPC, AdaptiveNEXT, Auto, TreeLBFGS, TreeNewton
from experiments.shared.centralised import lowest
from experiments.untuned import cases, rivals
from experiments.untuned.central import least, lipschitz
from experiments.untuned.counting import counted, geometric_mean, levels, measures, over_best, runs
from experiments.untuned.drawn import problem_of

TREES = {"L-BFGS": TreeLBFGS(rounded=False), "TreeLBFGS": TreeLBFGS(), "TreeNewton": TreeNewton()}
UNTUNED = {"Auto": Auto(), "EXTRA": EXTRA(), "NIDS": NIDS(), "OPAPC": OPAPC()}
FLOAT, BITS = "Over the best rival that sends float32", "Over the best rival that sends 4 or 6 bits"
MOST = {"trees": 600, "gossip": 1000, "default": 400, "drawn": 800}  # exchanges; rounds on trees
QUICK = {"trees": 20, "gossip": 30, "default": 40, "drawn": 60}
PARTS = (1e-2, 1e-4)  # of the gap, for the default
SETTLED = {"stays": True, "rows": 10, "lost": 1e3}  # rows at its last level, or times the start's objective, end a run of it
MORE = 8  # times the default's exchanges, for rivals


def trees(some, most, folder, workers):
    """Over L-BFGS in float64 on the same tree; geometric means are over the cases in which both get there."""
    found = {}
    for case in some:
        problem, _, start = cases.in_float64(case)
        best = lowest(problem, start, maxiter=20000, maxfun=40000, gtol=1e-9, ftol=1e-15, maxcor=30)
        goals = levels(problem.objective(start), best, (0.3, 0.1, 0.03, 0.01))
        ran = runs(functools.partial(cases.in_float64, case), TREES, goals, folder / str(case), workers, rounds=most)
        counts = counted(ran.droplevel("setting"), goals)[measures(goals)].replace(np.inf, np.nan)
        found[str(case)] = (counts / counts.loc["L-BFGS"]).drop("L-BFGS")
    table = pd.concat(found, names=["case"])
    means = {"geometric mean": table.groupby("solver").agg(geometric_mean)}
    return {"Over L-BFGS": pd.concat([table, pd.concat(means, names=["case"])])}


def gossip(some, most, folder, workers):
    """AdaptiveNEXT in float64; the least is the lowest that it and one plain NEXT reach in all exchanges.

    All bytes of a rival are those of its exchanges times the same number, so that the setting that is best by exchanges is best
    by bytes, too.
    """
    tables, missed = {"AdaptiveNEXT": {}, FLOAT: {}, BITS: {}}, {FLOAT: 0, BITS: 0}
    for case in some:
        double, single = (functools.partial(make, case) for make in (cases.in_float64, cases.in_float32))
        problem, network, _ = single()

        def ran(make, solvers, goals, kind, place=folder / str(case)):
            return runs(make, solvers, goals, place / kind, workers, rounds=most, exchanges=most, lost=10.0)

        own = ran(double, {"AdaptiveNEXT": AdaptiveNEXT()}, {"0%": 0.0}, "own")
        plain = ran(single, {"NEXT": rivals.reference(network)}, {"0%": 0.0}, "plain")
        best = min(counted(run, {}, most)["lowest"].min() for run in (own, plain))
        goals = levels(own.iloc[0].history["objective"][0], best, (0.1, 0.03, 0.01))
        names, needs = measures(goals), counted(own, goals, most).iloc[0]
        done = {FLOAT: counted(ran(single, rivals.of_gossip(problem, network), goals, "float"), goals, most)}
        tracking = done[FLOAT][done[FLOAT].index.isin(rivals.ORDERS, level="solver")].sort_values([names[2], "lowest"])
        quicker = next((rivals.ORDERS[name] for name, _ in tracking.index), None)
        if few := rivals.of_gossip_in_few_bits(problem, network, quicker):
            done[BITS] = counted(ran(single, few, goals, "bits"), goals, most)
        tables["AdaptiveNEXT"][str(case)] = needs[[*names, "sent in full"]]
        for title, found in done.items():
            sent = needs["sent in full"], found["sent in full"].min()
            ratios, best = over_best(needs, found, goals, *([most, all_bytes] for all_bytes in sent))
            tables[title][str(case)] = pd.concat([ratios, pd.Series({"best to 1%": " / ".join(best.iloc[[2, 5]].unique())})])
            missed[title] += best == "none"
    tables = {title: pd.DataFrame(rows).T for title, rows in tables.items() if rows}
    for title in list(tables)[1:]:
        tables[title].loc["geometric mean"] = geometric_mean(tables[title][names].astype(float))
        tables[title].loc["cases that all rivals missed"] = missed[title]
    return tables


def default(some, most, folder, workers):
    """The default of ``solve`` against tuned rivals in float and in 4 bits, and others without settings: until it stays there.

    Rivals have eight times the exchanges that the default takes, or as many as there are. Where neither the default nor a rival
    gets there, there is no ratio.
    """
    rows = {str(case): of_default(case, most, folder / str(case), workers) for case in some}
    table = pd.DataFrame.from_dict(rows, "index")
    ratios = table.filter(like=",").dropna(axis="columns", how="all")
    within = {f"within {bound:g}": (ratios <= bound).sum() / ratios.count() for bound in (1.2, 1.5, 2, 4)}
    summary = {"cases": ratios.count(), "mean": ratios.agg(geometric_mean)} | within | {"worst": ratios.max()}
    return {"Cases": table, "Summary": pd.DataFrame(summary)}


def of_default(case, most, folder, workers):
    """The row of a case: what the default takes and needs, ratios by kind of rivals and measure, and the best rival to 1%."""
    (double, network, start), make = cases.in_float64(case), functools.partial(cases.in_float32, case)
    goals = levels(double.objective(start), least(double, start), PARTS)
    ran, own = (found.iloc[0] for found in settled(make, {"Auto": Auto()}, goals, most, folder / "own", workers))
    single, limit, L = make()[0], int(min(most, MORE * own["exchanges to 0.01%"])), lipschitz(double, start)
    plain = rivals.of_default(single, network, L)
    done = {kind: settled(make, some, goals, limit, folder / kind, workers)[1] for kind, some in plain.items() if some}
    best = {
        name: {of.sort_values([f"exchanges to {part}", "lowest"]).index[0][1] for part in goals}
        for name, of in done["float"].groupby("solver")
    }
    if few := rivals.of_default_in_4_bits(single, network, L, plain["float"], best):
        done["4 bits"] = settled(make, few, goals, limit, folder / "4 bits", workers)[1]
    objective = ran.history["objective"]
    row = {"takes": taken(ran), "highest over start": np.nanmax(objective) / objective[0], **own[measures(goals)]}
    for kind, found in done.items():
        ratios, names = over_best(own, found, goals, [most, own["sent"]], [limit, found["sent"].max()])
        there = np.isfinite(np.minimum(own, found.min()))
        row |= {"best to 1%": names.iloc[0]} if kind == "float" else {}
        row |= {f"{measure}, {kind}": ratio for measure, ratio in ratios.where(there).items()}
    return row


def settled(make, solvers, goals, most, folder, workers):
    """The results, and what they need."""
    ran = runs(make, solvers, goals, folder, workers, rounds=most, exchanges=most, **SETTLED)
    return ran, counted(ran, goals, most, stays=True)


def taken(result):
    """The solver that ``Auto`` took."""
    return result.solver.removeprefix("Auto(").partition("(")[0]


def drawn(some, most, folder, workers):
    """The rule of ``Auto`` on problems drawn at random over the best of EXTRA, NIDS and OPAPC with steps by theory: exchanges.

    Runs in which no method gets there are left out.
    """
    rows = []
    for seed, number in some:
        make = functools.partial(problem_of, seed, number)
        problem, _, start = make()
        goals = levels(problem.objective(start), least(problem, start), PARTS)
        ran, found = settled(make, UNTUNED, goals, most, folder / f"{seed}, {number}", workers)
        counts = found.droplevel("setting").filter(like="exchanges")
        own, best = counts.loc["Auto"], counts.drop("Auto").min()
        ratios = (own.clip(upper=most) / best.clip(upper=most))[np.isfinite(np.minimum(own, best))]
        rows += [(row, ratio) for row in (taken(ran["Auto", ""]), "all") for ratio in ratios]
    by = pd.DataFrame(rows, columns=["takes", "ratio"]).groupby("takes")["ratio"]
    within = by.agg(lambda ratios: np.mean(ratios <= 1.2))
    return {
        "Drawn": pd.DataFrame({"runs": by.count(), "mean": by.agg(geometric_mean), "within 1.2": within, "worst": by.max()})
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m experiments.untuned", description=__doc__)
    halves = {"trees": trees, "gossip": gossip, "default": default, "drawn": drawn}
    parser.add_argument("half", nargs="*", choices=tuple(halves), default=("trees", "gossip"), help="default: trees, gossip")
    parser.add_argument("--cases", type=int, help="how many of each; default: all; 60 that are drawn")
    parser.add_argument("--seed", type=int, default=0, help="of those that are drawn; default: 0")
    parser.add_argument("--output", type=Path, default=Path("results/untuned"), help="what is there is not run again")
    parser.add_argument("--workers", type=int, default=cores(), help="runs at a time; default: one a core")
    parser.add_argument("--quick", action="store_true", help="few small cases and exchanges")
    given = parser.parse_args(arguments)
    every = cases.ALL | (cases.QUICK if given.quick else {}) | {"drawn": [(given.seed, k) for k in range(given.cases or 60)]}
    for half in given.half:
        folder = given.output / ("quick" if given.quick else "") / half
        some = tqdm(every[half][: given.cases], disable=None)
        for title, table in halves[half](some, (QUICK if given.quick else MOST)[half], folder, given.workers).items():
            table.to_csv(folder / f"{title}.csv")
            print(f"{title}, a run a case\n\n{table.to_markdown(floatfmt='.3g')}\n")


if __name__ == "__main__":
    main()
