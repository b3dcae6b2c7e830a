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
    risks: np.ndarray  # (samples,) exp(f), up to a factor
    sums: np.ndarray  # (events,) of the risks of those at risk, as ties say
    slopes: np.ndarray  # (samples,) factor of the risk in the gradient
    top: float  # logarithm of the factor


def shares(counts: np.ndarray, ties: str) -> np.ndarray:
    """Return for each event, time by time, the share of the tied events that its risk set leaves out."""
    before = np.repeat(np.cumsum(counts) - counts, counts)
    number = np.arange(int(counts.sum())) - before
    return np.asarray(number / np.repeat(counts, counts) if ties == "efron" else np.zeros(len(number)))


def at_risk(f: np.ndarray, time: np.ndarray, event: np.ndarray, ties: str) -> Risk:
    """Return the parts of the partial likelihood of samples with logarithms of risks f (samples,)."""
    order = np.argsort(time, kind="stable")
    t, dead = time[order], event[order] > 0
    top = float(f.max(initial=-np.inf)) if len(f) else 0.0
    risks = np.exp(f[order] - top)
    times, group, counts = np.unique(t[dead], return_inverse=True, return_counts=True)
    begin = np.searchsorted(t, times)
    left = np.cumsum(risks[::-1])[::-1][begin]
    tied, share = np.bincount(group, risks[dead], len(times)), shares(counts, ties)
    sums = left[group] - share * tied[group]
    inverse = np.cumsum(np.bincount(group, 1 / sums, len(times)))
    slopes = np.r_[0.0, inverse][np.searchsorted(times, t, side="right")]
    slopes[dead] -= np.bincount(group, share / sums, len(times))[group]
    return Risk(order, dead, begin[group], group, share, risks, sums, slopes, top)


def partial(X: np.ndarray, f: np.ndarray, time: np.ndarray, event: np.ndarray, ties: str) -> dict[str, np.ndarray]:
    """Return the negative logarithm of the partial likelihood, its gradient and Hessian with respect to coefficients of X."""
    at = at_risk(f, time, event, ties)
    x, weighted = X[at.order], at.risks[:, None] * X[at.order]
    value = np.log(at.sums).sum() - (f[at.order][at.dead] - at.top).sum()
    gradient = weighted.T @ at.slopes - x[at.dead].sum(axis=0)
    left = np.cumsum(weighted[::-1], axis=0)[::-1][at.begin]
    tied = np.zeros((int(at.group.max(initial=-1)) + 1, X.shape[1]))
    np.add.at(tied, at.group, weighted[at.dead])
    means = (left - at.share[:, None] * tied[at.group]) / at.sums[:, None]
    return {"value": value, "gradient": gradient, "hessian": (weighted.T * at.slopes) @ x - means.T @ means}


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
