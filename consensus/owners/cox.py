"""Cox's partial likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from consensus import _checks
from consensus.losses.arrays import columns_of, scores, shaped
from consensus.losses.base import Loss

TIES = ("efron", "breslow")


class Risk(NamedTuple):
    """Parts of the partial likelihood at some logarithms of risks, a row for each event or sample in the order of times."""

    order: np.ndarray  # (samples,)
    dead: np.ndarray  # (samples,) whether a sample, in that order, has an event
    begin: np.ndarray  # (events,) the first sample at risk
    group: np.ndarray  # (events,) number of its time
    share: np.ndarray  # (events,) of the tied events that are left out
    level: np.ndarray  # (events,) mean weight of the tied events
    upto: np.ndarray  # (samples,) number of times of events until its own
    weights: np.ndarray  # (samples,)
    risks: np.ndarray  # (samples,) weight times exp(f), up to a factor
    sums: np.ndarray  # (events,) of the risks of those at risk, as ties say
    slopes: np.ndarray  # (samples,) factor of the risk in the gradient
    top: float  # logarithm of the factor


def shares(counts: np.ndarray, ties: str) -> np.ndarray:
    """Return for each event, time by time, the share of the tied events that its risk set leaves out."""
    before = np.repeat(np.cumsum(counts) - counts, counts)
    number = np.arange(int(counts.sum())) - before
    return np.asarray(number / np.repeat(counts, counts) if ties == "efron" else np.zeros(len(number)))


def at_risk(f: np.ndarray, time: np.ndarray, event: np.ndarray, ties: str, weights: np.ndarray | None = None) -> Risk:
    """Return the parts of the partial likelihood of samples with logarithms of risks f (samples,)."""
    order = np.argsort(time, kind="stable")
    t, dead = time[order], event[order] > 0
    w = np.ones(len(f)) if weights is None else weights[order]
    top = float(f.max(initial=-np.inf)) if len(f) else 0.0
    risks = w * np.exp(f[order] - top)
    times, group, counts = np.unique(t[dead], return_inverse=True, return_counts=True)
    begin, upto = np.searchsorted(t, times), np.searchsorted(times, t, side="right")
    level = (np.bincount(group, w[dead], len(times)) / counts)[group]
    left = np.cumsum(risks[::-1])[::-1][begin]
    tied, share = np.bincount(group, risks[dead], len(times)), shares(counts, ties)
    sums = left[group] - share * tied[group]
    inverse = np.cumsum(np.bincount(group, level / sums, len(times)))
    slopes = np.r_[0.0, inverse][upto]
    slopes[dead] -= np.bincount(group, level * share / sums, len(times))[group]
    return Risk(order, dead, begin[group], group, share, level, upto, w, risks, sums, slopes, top)


def _means(at: Risk, x: np.ndarray) -> np.ndarray:
    """Return the means (events, p) over risk sets of ordered columns x (samples, p)."""
    weighted = at.risks[:, None] * x
    left = np.cumsum(weighted[::-1], axis=0)[::-1][at.begin]
    tied = _by_group(at.group, weighted[at.dead], int(at.group.max(initial=-1)) + 1)
    return np.asarray((left - at.share[:, None] * tied[at.group]) / at.sums[:, None])


def _by_group(group: np.ndarray, rows: np.ndarray, groups: int) -> np.ndarray:
    """Return the sums (groups, p) of rows (rows, p)."""
    found = np.zeros((groups, rows.shape[1]))
    np.add.at(found, group, rows)
    return found


def partial(
    X: np.ndarray, f: np.ndarray, time: np.ndarray, event: np.ndarray, ties: str, weights: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Return the negative logarithm of the partial likelihood, its gradient and Hessian with respect to coefficients of X."""
    at = at_risk(f, time, event, ties, weights)
    x = X[at.order]
    weighted, means = at.risks[:, None] * x, np.sqrt(at.level)[:, None] * _means(at, x)
    own = at.weights[at.dead]
    value = (at.level * np.log(at.sums)).sum() - (own * (f[at.order][at.dead] - at.top)).sum()
    gradient = weighted.T @ at.slopes - (own[:, None] * x[at.dead]).sum(axis=0)
    return {"value": value, "gradient": gradient, "hessian": (weighted.T * at.slopes) @ x - means.T @ means}


class Events(NamedTuple):
    """Risk sets of all events."""

    means: np.ndarray  # (events, p) of columns
    sums: np.ndarray  # (events,) of risks
    share: np.ndarray  # (events,) of the tied events that are left out
    level: np.ndarray  # (events,) mean weight of the tied events
    group: np.ndarray  # (events,) number of its time
    times: int  # how many


class Rows(NamedTuple):
    """Rows, of which score residuals are wanted."""

    X: np.ndarray  # (rows, p)
    risks: np.ndarray  # (rows,) weight times exp(f), up to the factor of sums
    weights: np.ndarray  # (rows,)
    dead: np.ndarray  # (rows,) whether it has an event
    group: np.ndarray  # (dead rows,) number of its time
    upto: np.ndarray  # (rows,) how many times there are until its own


def residuals(rows: Rows, events: Events) -> np.ndarray:
    """Return the score residuals (rows, p): a row's weight times the derivative of the score by this weight."""
    factor = events.level / events.sums

    def through(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums until each time, and by time what ties leave out."""
        every, left_out = (
            _by_group(events.group, part[:, None] * values, events.times) for part in (factor, events.share * factor)
        )
        return np.r_[np.zeros((1, values.shape[1])), np.cumsum(every, axis=0)], left_out

    (hazard, tied), (drift, tied_drift) = through(np.ones((len(factor), 1))), through(events.means)
    number = np.maximum(np.bincount(events.group, minlength=events.times), 1)[:, None]
    middle = _by_group(events.group, events.means, events.times) / number
    found = rows.risks[:, None] * (drift[rows.upto] - rows.X * hazard[rows.upto])
    x, group = rows.X[rows.dead], rows.group
    found[rows.dead] += rows.risks[rows.dead][:, None] * (x * tied[group] - tied_drift[group])
    found[rows.dead] += rows.weights[rows.dead][:, None] * (x - middle[group])
    return np.asarray(found)


def score_residuals(
    X: np.ndarray, f: np.ndarray, time: np.ndarray, event: np.ndarray, ties: str, weights: np.ndarray
) -> np.ndarray:
    """Return the score residuals (samples, p), in the order of times."""
    at = at_risk(f, time, event, ties, weights)
    x, times = X[at.order], int(at.group.max(initial=-1)) + 1
    rows = Rows(x, at.risks, at.weights, at.dead, at.group, at.upto)
    return residuals(rows, Events(_means(at, x), at.sums, at.share, at.level, at.group, times))


@dataclass(frozen=True)
class CoxLoss(Loss):
    """Cox's negative partial log-likelihood of one agent's samples, whose targets are a time and 1 for an event, 0 if censored.

    ``sum_{m: event} [log sum_{n: t_n >= t_m} exp(f_n) - f_m]``: a sum over agents stratifies by them, as each has a baseline
    hazard of its own. It is a loss of all samples of an agent together: solvers that use gradients take it, and minibatches
    have the risk sets of their own samples. :func:`consensus.owners.fit` reaches its optimum, with standard errors.

    Parameters
    ----------
    ties : {"efron", "breslow"}
        How events at the same time are treated.

    References
    ----------
    Cox, "Regression models and life-tables", JRSS B 34(2), 1972; Efron, "The efficiency of Cox's likelihood function for
    censored data", JASA 72, 1977.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.losses import CoxLoss
    >>> CoxLoss().value(np.zeros((2, 1)), np.array([[5.0, 1.0], [8.0, 0.0]])).round(4)
    array([0.6931, 0.    ])
    """

    ties: Literal["efron", "breslow"] = "efron"

    separable = False
    convex = False  # a curvature is that of all samples, which no solver asks for
    regression = True
    over = "batch"
    reduction = "sum"
    least = 1

    def __post_init__(self) -> None:
        _checks.choice("ties", self.ties, TIES)

    def value(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs = scores(outputs)
        f, time, event = self._parts(outputs, targets)
        at, found = at_risk(f, time, event, self.ties), np.zeros(len(f))
        found[at.order[at.dead]] = np.log(at.sums) - (f[at.order][at.dead] - at.top)
        return found.astype(outputs.dtype).reshape(outputs.shape[:-1])

    def gradient(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs = scores(outputs)
        f, time, event = self._parts(outputs, targets)
        at, found = at_risk(f, time, event, self.ties), np.zeros(len(f))
        found[at.order] = at.risks * at.slopes - at.dead
        return found.astype(outputs.dtype).reshape(outputs.shape)

    def curvature(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        raise TypeError(f"{self} has no curvature of each sample: consensus.owners.fit takes that of all of them")

    def error(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self.value(outputs, targets)

    def check(self, targets: np.ndarray, outputs: int) -> None:
        if outputs != 1 or columns_of(targets) != 2:
            raise ValueError(
                f"{self} takes two columns of targets, times and events, and a model with one output; got "
                f"{columns_of(targets)} columns and {outputs} outputs"
            )
        wrong = ~np.isin(targets[:, 1], (0, 1))
        if wrong.any():
            raise ValueError(
                f"{self} takes events that are 0 or 1, in the second column of targets; got {targets[wrong, 1][0]:g}: "
                "standardised targets are neither"
            )

    def _parts(self, outputs: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        f = outputs.ravel()
        if outputs.shape[-2:] != (len(f), 1):
            raise ValueError(f"outputs must have shape (samples, 1), of one agent; got {outputs.shape}")
        d = shaped(targets, (*outputs.shape[:-1], 2)).astype(float, copy=False).reshape(-1, 2)
        return f.astype(float, copy=False), d[:, 0], d[:, 1]
