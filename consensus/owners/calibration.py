"""Prediction sets whose coverage is that of all owners' calibration rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from consensus import _checks
from consensus.owners.predictor import Predictor, probabilities
from consensus.owners.sums import Sums
from consensus.tables.pipeline import Given
from consensus.tables.readers import ReadingOptions

if TYPE_CHECKING:
    import networkx as nx

    from consensus.owners.exchanges import Together
    from consensus.owners.owned import Owned
    from consensus.privacy.fixed_point import SecureSums
    from topologies.schedules import ScheduleLike

_BINS = 500


@dataclass(frozen=True, eq=False)
class Conformal:
    """A predictor with sets that have the true target with a given probability: what :func:`conformal` returns.

    Parameters
    ----------
    predictor : Predictor
        The predictor.
    quantile : float
        Of numbers the half width of the intervals, in original units; of classes the largest ``1 - p`` of a class in the set.
    level : float
        The probability.
    rows : int
        Calibration rows of all owners.

    Examples
    --------
    >>> import numpy as np, pandas as pd, consensus
    >>> from consensus.data import Columns, Pipeline
    >>> pipeline = Pipeline(Columns(("age",), {}), np.array([40.0]), np.array([10.0]), "days", shift=5.0, spread=2.0)
    >>> predictor = consensus.Predictor(consensus.Linear(1), np.array([1.0, 0.5]), pipeline)
    >>> consensus.owners.Conformal(predictor, 1.5, 0.9, 200).predict(pd.DataFrame({"age": [40, 50]}))
    array([[4.5, 7.5],
           [6.5, 9.5]])
    """

    predictor: Predictor
    quantile: float
    level: float
    rows: int

    def predict(self, data: Given, **reading: Unpack[ReadingOptions]) -> np.ndarray:
        """Return the set of each row.

        Parameters
        ----------
        data : pandas.DataFrame or path
            A table, as for :meth:`consensus.Predictor.predict`.
        **reading
            How its file is read.

        Returns
        -------
        ndarray (samples, 2), or of bool (samples, classes)
            Ends of intervals; or which classes are in the set, in the order of ``predictor.classes``.
        """
        if self.predictor.classes is None:
            middle = self.predictor.predict(data, **reading)
            return np.stack([middle - self.quantile, middle + self.quantile], axis=1)
        return np.asarray(1 - self.predictor.predict_proba(data, **reading) <= self.quantile)


def conformal(
    predictor: Predictor,
    owned: Owned,
    level: float = 0.9,
    *,
    network: nx.Graph | ScheduleLike | None = None,
    engine: Together | None = None,
    secure: bool | SecureSums = False,
) -> Conformal:
    """Return prediction sets that have the target of a new row of the owners' mixture with a probability of at least ``level``.

    Scores of the owners' test rows, which the model was not trained on, are counted in bins whose edges all agree on, and the
    quantile is the upper edge of the bin of the ``ceil((n + 1) level)``-th smallest one: split conformal prediction.

    Parameters
    ----------
    predictor : Predictor
        What ``result.predictor(owned.pipeline)`` returned, the same at all owners.
    owned : Owned
        What :func:`consensus.data.own` returned with ``test_size``.
    level : float
        The probability, between 0 and 1.
    network : networkx.Graph or schedule, optional
        Who talks to whom: static, undirected and connected; by default all with the first owner, or that of peers.
    engine : Engine, optional
        That of :func:`consensus.data.own`.
    secure : bool or SecureSums
        Whether masks hide the counts of each owner.

    Returns
    -------
    Conformal
        The predictor with its sets.

    Raises
    ------
    ValueError
        If there are no test rows, or too few for ``level``; or several targets.

    References
    ----------
    Lei, G'Sell, Rinaldo, Tibshirani, Wasserman, "Distribution-free predictive inference for regression", JASA 113, 2018.

    Examples
    --------
    >>> import contextlib, io
    >>> import numpy as np, pandas as pd, consensus, topologies
    >>> rng = np.random.default_rng(0)
    >>> tables = [pd.DataFrame({"age": rng.uniform(20, 90, rows)}) for rows in (200, 400)]
    >>> tables = [table.assign(days=0.1 * table.age + rng.normal(size=len(table))) for table in tables]
    >>> with contextlib.redirect_stdout(io.StringIO()):
    ...     owned = consensus.data.own(tables, "days", test_size=0.5)
    >>> problem = consensus.Problem(consensus.Linear(1), consensus.SquaredLoss(), owned.shards)
    >>> result = consensus.solve(problem, topologies.path(2), rounds=50)
    >>> sets = consensus.owners.conformal(result.predictor(owned.pipeline), owned, level=0.9)
    >>> bool(1.4 < sets.quantile < 1.9)  # of normal errors 1.64
    True
    """
    level = _checks.number("level", level, above=0, below=1)
    test = getattr(owned, "test", None)
    if test is None:
        raise ValueError("owned must have test rows, on which sets are calibrated: give consensus.data.own test_size=0.3")
    if not isinstance(predictor, Predictor):
        raise TypeError(f"predictor must be what result.predictor(owned.pipeline) returned; got {_checks.shown(predictor)}")
    sums = Sums(test, network, engine, secure, {"level": level})
    own = [_scores(predictor, test, place) for place in range(test.agents)]
    first = sums("scores", "test rows, and the sum of scores", [{"rows": len(s), "sum": s.sum()} for s in own])
    rows = int(first["rows"])
    wanted = int(np.ceil((rows + 1) * level))
    if wanted > rows:
        raise ValueError(f"level must be at most {rows / (rows + 1):.4g} with the {rows} test rows of all owners; got {level}")
    low, high = 0.0, float(first["sum"]) / (rows + 1 - wanted) * (1 + 1e-9)  # by Markov's inequality no smaller
    for _ in range(2):  # the second time inside the bin of the first
        edges = np.linspace(low, high, _BINS + 1)

        def counts(scores: np.ndarray, edges: np.ndarray = edges) -> dict[str, Any]:
            return {"counts": [np.count_nonzero(scores <= edges[0]), *np.histogram(scores[scores > edges[0]], edges)[0]]}

        total = sums("histogram", f"scores in {_BINS} bins, twice", [counts(scores) for scores in own])["counts"]
        below = np.cumsum(np.rint(total))
        place = int(np.argmax(below >= wanted))
        low, high = (edges[place - 1], edges[place]) if place else (0.0, edges[0])
    for entry in sums.revealed().itertuples(index=False):
        owned.revealed.loc[len(owned.revealed)] = list(entry)
    return Conformal(predictor, float(high), level, rows)


def _scores(predictor: Predictor, test: Any, place: int) -> np.ndarray:  # noqa: ANN401  # shards
    """Return the scores of an owner's test rows: absolute errors in original units, or 1 less the probability of the class."""
    rows = test.weights[place] > 0
    outputs = predictor.model.predict(predictor.w, test.features[place][rows])
    targets = test.targets[place][rows]
    if predictor.classes is not None:
        chances = probabilities(outputs)
        return np.asarray(1 - chances[np.arange(len(chances)), targets[:, 0].astype(int)])
    if targets.shape[1] != 1:
        raise ValueError(f"predictor must have one target for intervals; got {targets.shape[1]}")
    return np.asarray(np.abs(outputs - targets)[:, 0] * predictor.pipeline.spread)
