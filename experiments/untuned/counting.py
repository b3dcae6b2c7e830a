"""Exchanges and bytes until an objective is low: runs of a study, levels, and what it takes to reach them."""

import functools
import warnings

import numpy as np
import pandas as pd

import consensus
from consensus.errors import RunError
from consensus.studies import Study
from experiments.shared.studies import ran


def quiet(problem, network, solver, **options):
    """The history of ``consensus.solve`` and the solver that ran, without warnings; of a run that diverged, up to there."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # solvers for convex costs warn of others
        try:
            result = consensus.solve(problem, network, solver, **options)
        except RunError as error:
            return error.history, solver
    return result.history, result.solver


def runs(make, solvers, goals, folder, workers=1, *, rounds, exchanges=None, stays=False, **ends):
    """The results of all runs on what ``make()`` returns by solver and setting, with grids that are tuned to each of the goals.

    Runs end early where :func:`ended` says so. No seed changes them: the report's is the best one of the tuning once more.
    """
    until = functools.partial(ended, level=[*goals.values()][-1], **ends)
    options = {"seed": 0, "exchanges": exchanges, "record_every": 1, "callbacks": [until]}
    made, found = functools.partial(case, make=make, options=options), {}
    usual = {"seeds": [0], "tuning_seeds": [1], "solvers": solvers, "rounds": rounds, "folder": folder}
    for goal in goals:
        measure = functools.partial(merit, goal={goal: goals[goal]}, most=exchanges or np.inf, stays=stays)
        study = Study(made, measure=measure, **usual)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # solvers for convex costs warn of others
            ran(study, workers, progress=False)
        kept = study.runs().itertuples()
        found |= {(run.Index, run.setting): consensus.load(study.folder / "runs" / run.file) for run in kept}
    return pd.Series(found).rename_axis(["solver", "setting"])


def merit(result, goal, most, stays):
    """The exchanges to a goal, a million if it is missed; of runs that need as many the one that got lower is better."""
    found = needed(result.history, goal, most, stays)
    return min(found[measures(goal)[0]], 1e6) + found["lowest"] / result.history["objective"][0] / 2


def case(seed, make, options):
    problem, network, start = make()
    return problem, network, options | {"start": start}


def ended(seen, level, rows=1, lost=np.inf):
    """Why a run ends: it was at the ``level`` in its last ``rows``, or came to so many times the start's objective."""
    objective = seen.history["objective"]
    there = (objective[-rows:] <= level).sum() == rows
    return "there, or lost" if there or objective[-1] > lost * abs(objective[0]) else None


def levels(first, least, parts):
    """``{part: objective}`` where these ``parts`` are left of the gap between the ``first`` and the ``least``."""
    return {f"{100 * part:g}%": float(least + part * (first - least)) for part in parts}


def measures(parts):
    return [f"{what} to {part}" for what in ("exchanges", "bytes") for part in parts]


def counted(results, goals, most=np.inf, *, stays=False):
    """What runs need to goals within ``most`` exchanges, infinite where they miss them; the lowest objective; all bytes.

    ``stays``: where a run is at a level from then on, not for the first time. Bytes ``in full`` are infinite in a run that was
    stopped early.
    """
    return pd.DataFrame([needed(one.history, goals, most, stays) for one in results], results.index)


def needed(history, goals, most, stays):
    inside = history["exchanges"] <= most
    objective = np.where(np.isfinite(history["objective"]), history["objective"], np.inf)[inside]
    there = objective <= np.array([*goals.values()])[:, None]
    there = np.logical_and.accumulate(there[:, ::-1], axis=1)[:, ::-1] if stays else there
    row, columns = there.argmax(axis=1), [history[name][inside] for name in ("exchanges", "bytes")]
    counts = [np.where(there.any(axis=1), column[row], np.inf) for column in columns]
    whole = columns[1][-1] if history["exchanges"][-1] >= most else np.inf
    ends = {"lowest": objective.min(), "sent": history["bytes"][-1], "sent in full": whole}
    return dict(zip(measures(goals), np.ravel(counts), strict=True)) | ends


def over_best(own, rivals, parts, everything, of_rivals):
    """What a run needs over the least of all rivals, and their names, by measure.

    Who misses a level counts as ``everything``, exchanges and bytes; the best of rivals who all miss it is "none".
    """
    least = rivals.groupby("solver", sort=False)[measures(parts)].min()
    all_own, all_rivals = (pd.Series(np.repeat(both, len(parts)), least.columns, float) for both in (everything, of_rivals))
    there = np.isfinite(least.min())
    return own[least.columns].clip(upper=all_own) / least.min().where(there, all_rivals), least.idxmin().where(there, "none")


def geometric_mean(values):
    return np.exp(np.log(values).mean())
