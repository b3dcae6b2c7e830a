"""Coefficients with their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from consensus import _checks

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

KINDS = {
    "model": "from the model: dispersion times the inverse of the information",
    "robust": "robust: of the scores of rows",
    "owners": "robust to clusters: of the scores of owners",
}


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients in the units of the columns, with their covariance: what :func:`fit` and :func:`inference` return.

    Parameters
    ----------
    family : str
        What was fitted.
    names : tuple of str
        Names of the coefficients.
    coefficients : ndarray (p,)
        The coefficients.
    covariance : ndarray (p, p)
        Their covariance.
    kind : {"model", "robust", "owners"}
        How it was computed.
    dispersion : float
        Of a gaussian family the residual variance, of gamma Pearson's estimate, each over ``rows - p``; 1 for others.
    loglikelihood : float
        Of a Cox model the partial one; NaN for a loss that is no likelihood.
    rows, owners : int
        How many rows and owners the sums have.
    notes : tuple of str
        What a reader must know of it: reference categories, penalties, warnings.
    revealed : pandas.DataFrame
        The sums: what each reveals, and how many numbers and bytes all owners sent.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.owners import Fit
    >>> fit = Fit("gaussian", ("intercept", "age"), np.array([1.0, 0.5]), np.diag([0.04, 0.01]), "model", 1.0, -3.0, 20, 4)
    >>> fit.summary().round(3).loc["age"].tolist()
    [0.5, 0.1, 5.0, 0.0, 0.304, 0.696]
    >>> fit.aic
    10.0
    """

    family: str
    names: tuple[str, ...]
    coefficients: np.ndarray
    covariance: np.ndarray
    kind: str
    dispersion: float
    loglikelihood: float
    rows: int
    owners: int
    notes: tuple[str, ...] = ()
    revealed: pandas.DataFrame | None = field(default=None, repr=False)

    @property
    def standard_errors(self) -> np.ndarray:
        """The standard errors (p,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def aic(self) -> float:
        """Akaike's criterion, ``2 p - 2 loglikelihood``; p counts the coefficients alone."""
        return float(2 * len(self.names) - 2 * self.loglikelihood)

    def summary(self, level: float = 0.95) -> pandas.DataFrame:
        """Return coefficients, standard errors, z, p and intervals, a row for each coefficient.

        Parameters
        ----------
        level : float
            Coverage of the intervals, between 0 and 1.

        Returns
        -------
        pandas.DataFrame
            With the columns ``coefficient``, ``standard error``, ``z``, ``p``, ``lower`` and ``upper``. They are those of the
            normal distribution.
        """
        import pandas

        level = _checks.number("level", level, above=0, below=1)
        size, quantile = self.standard_errors, stats.norm.isf((1 - level) / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = self.coefficients / size
        columns = {
            "coefficient": self.coefficients,
            "standard error": size,
            "z": z,
            "p": 2 * stats.norm.sf(np.abs(z)),
            "lower": self.coefficients - quantile * size,
            "upper": self.coefficients + quantile * size,
        }
        return pandas.DataFrame(columns, index=list(self.names))

    def __str__(self) -> str:
        size = f"{self.rows:,} rows of {self.owners} owner{'s' * (self.owners > 1)}"
        numbers = f"dispersion {self.dispersion:.6g}, log-likelihood {self.loglikelihood:.6g}, AIC {self.aic:.6g}"
        lines = [f"{self.family}: {size}; {numbers}", f"covariance {KINDS[self.kind]}"]
        return "\n".join([*lines, self.summary().to_string(float_format="{:.6g}".format), *self.notes])

    def plot(self, *, level: float = 0.95, ax: Axes | None = None) -> Axes:
        """Plot the coefficients of columns and their intervals: a forest plot.

        Parameters
        ----------
        level : float
            Coverage of the intervals, between 0 and 1.
        ax : matplotlib Axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        matplotlib Axes
            The axes.
        """
        from consensus.plotting.runs import COLORS, literal, new_axes

        level = _checks.number("level", level, above=0, below=1)
        table, ax = self.summary(level), _checks.axes(ax)
        others = ["intercept", *["alpha"] * (self.family == "negative binomial")]
        table = table.drop(index=others, errors="ignore")[::-1]
        ax = ax or new_axes((6.4, 1.2 + 0.35 * len(table)))
        at = np.arange(len(table))
        size = np.array([table.coefficient - table.lower, table.upper - table.coefficient])
        ax.errorbar(table.coefficient, at, xerr=size, fmt="s", color=COLORS[0], capsize=3, markersize=5)
        ax.axvline(0, color="0.6", linewidth=1, zorder=0)
        ax.set(yticks=at, xlabel=f"coefficient, with an interval of {level:.0%}", ylim=(-0.6, len(table) - 0.4))
        ax.set_yticklabels([literal(str(name)) for name in table.index])
        return ax
