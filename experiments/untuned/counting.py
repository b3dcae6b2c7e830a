"""Exchanges and bytes until an objective is low: a run without warnings, levels, and what it takes to reach them."""

import warnings
from typing import NamedTuple

import numpy as np

import consensus
from consensus.errors import RunError


class Outcome(NamedTuple):
    """Exchanges and bytes to each level, infinite where it was not reached; the lowest objective; all bytes, if run in full."""

    exchanges: np.ndarray
    bytes: np.ndarray
    lowest: float
    sent: float


def quiet(problem, network, solver, **options):
    """The history of ``consensus.solve`` and the solver that ran, without warnings; of a run that diverged, up to there."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # solvers for convex costs warn of others
        try:
            result = consensus.solve(problem, network, solver, **options)
        except RunError as error:
            return error.history, solver
    return result.history, result.solver


def exchanging(problem, network, solver, start, most, stop):
    """As :func:`quiet`, of ``most`` exchanges from a start, with every round recorded, until ``stop(seen)`` gives a reason."""
    options = {"rounds": most, "exchanges": most, "record_every": 1, "start": start.astype(problem.dtype)}
    return quiet(problem, network, solver, callbacks=[stop], **options)


def levels(first, least, parts):
    """The objectives where these ``parts`` are left of the gap between the ``first`` and the ``least``."""
    return [least + part * (first - least) for part in parts]


def measured(history, levels, most=np.inf, *, stays=False):
    """The :class:`Outcome` of a history in its first ``most`` exchanges; ``stays``: where it is at a level from then on."""
    inside = history["exchanges"] <= most
    objective = np.where(np.isfinite(history["objective"]), history["objective"], np.inf)[inside]
    there = objective <= np.asarray(levels)[:, None]
    there = np.logical_and.accumulate(there[:, ::-1], axis=1)[:, ::-1] if stays else there
    row = there.argmax(axis=1)
    counts = [np.where(there.any(axis=1), history[name][inside][row], np.inf) for name in ("exchanges", "bytes")]
    sent = history["bytes"][inside][-1] if history["exchanges"][-1] >= most else np.inf
    return Outcome(*counts, float(objective.min()), float(sent))
