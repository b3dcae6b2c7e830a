"""Generalised linear models and Cox models of owners' tables, with their uncertainty, by sums alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag

from consensus import _checks
from consensus.losses import LogisticLoss, Loss, NegativeBinomialLoss, SquaredLoss
from consensus.models import Linear
from consensus.owners.cox import TIES, CoxLoss
from consensus.owners.cox_fit import Followed, fit_cox
from consensus.owners.designs import (
    STEPS,
    Design,
    Found,
    agreed_grid,
    check_owned,
    checked,
    fitted,
    followed,
    original,
    told_of_weights,
    warn_of_few,
)
from consensus.owners.fitted import KINDS, Fit
from consensus.owners.likelihoods import FAMILIES, Likelihood, Samples, covariance, newton, small_sample, totals
from consensus.owners.log_link import LogLink
from consensus.owners.negative_binomial import MOST, fit_alpha
from consensus.owners.sums import Sums, Terms
from consensus.regularizers import L2

if TYPE_CHECKING:
    import networkx as nx

    from consensus.owners.exchanges import Together
    from consensus.owners.owned import Owned
    from consensus.privacy.fixed_point import SecureSums
    from consensus.tables.pipeline import Pipeline
    from topologies.schedules import ScheduleLike

_FEW = 30  # clusters
_FAR = 0.01  # standard errors from the optimum, from which inference warns


def fit(
    owned: Owned,
    family: str | Loss = "gaussian",
    *,
    network: nx.Graph | ScheduleLike | None = None,
    engine: Together | None = None,
    secure: bool | SecureSums = False,
    offset: str | None = None,
    kind: Literal["model", "robust", "owners"] = "model",
    ties: Literal["efron", "breslow"] = "efron",
    grid: ArrayLike | None = None,
) -> Fit:
    """Fit a generalised linear model or a Cox model to the tables of owners, as to the pooled rows.

    Owners add costs, gradients and Hessians along a tree of their network, and each takes the same Newton steps from the
    totals: the optimum is that of the pooled data, up to rounding. No row is sent. Of each column of categories the first one
    is the reference, and has no coefficient. Coefficients are in the units of the columns.

    Parameters
    ----------
    owned : Owned
        What :func:`consensus.data.own` returned: the rows for training. For Cox models its target is two columns, time and
        event, ``target=["days", "died"]``.
    family : {"gaussian", "logistic", "poisson", "negative binomial", "gamma", "cox"} or Loss
        Links are the identity, the logit, and for counts and gamma the logarithm. Negative binomial regression, of variance
        ``mu + alpha mu^2``, estimates alpha by maximum likelihood with the coefficients, as the last of them;
        ``losses.NegativeBinomialLoss(alpha)`` has a given one.
    network : networkx.Graph or schedule, optional
        Who talks to whom: static, undirected and connected; by default all with the first owner, or that of peers.
    engine : Engine, optional
        That of :func:`consensus.data.own`: the ranks; by default all owners are in this process.
    secure : bool or SecureSums
        Whether masks hide the terms of each owner, so that others learn the totals alone. It needs the extra ``secure``.
    offset : str, optional
        A column of numbers that is added to the linear predictor, with no coefficient, such as a logarithm of exposures.
    kind : {"model", "robust", "owners"}
        The covariance: dispersion times the inverse of the expected information, or of the observed one with an estimated
        alpha and in Cox models; the sandwich of rows' scores between inverse Hessians, HC1; or that of owners' scores, as
        clusters. Sandwiches of Cox models have no factor for small samples, as those of R's ``survival``.
    ties : {"efron", "breslow"}
        How a Cox model treats events at the same time.
    grid : array_like, optional
        Times, in increasing order, of a Cox model with one baseline hazard for all owners: times are rounded up to the next
        one, and rows are followed until the last. By default each owner has a baseline hazard of its own (strata).

    Returns
    -------
    Fit
        Coefficients with their uncertainty.

    Raises
    ------
    ValueError
        If there is no unique finite optimum, as with columns that are constant, that determine each other or separate the
        outcomes: all owners hear which. If targets do not suit the family: where they are; others hear whose they are.
    TypeError
        If an argument has the wrong type.

    Warns
    -----
    UserWarning
        If columns nearly determine each other; if owners have so few rows that the sums, which are not ``secure``, tell them.

    Notes
    -----
    Weights of :func:`consensus.data.own` are prior weights, which multiply costs, as in R and statsmodels' ``var_weights``.
    With a dispersion that is estimated, gaussian and gamma, they are inverse variances up to a factor, and standard errors
    count rows; otherwise ``kind="model"`` takes them as counts of equal rows, and ``kind="robust"`` suits weights of
    sampling. Tests are those of the normal distribution. Missing cells that ``own`` replaced by means are not accounted for
    in standard errors.

    References
    ----------
    McCullagh, Nelder, "Generalized linear models", 1989; White, "A heteroskedasticity-consistent covariance matrix estimator",
    Econometrica 48, 1980; Liang, Zeger, "Longitudinal data analysis using generalized linear models", Biometrika 73, 1986.

    Examples
    --------
    >>> import contextlib, io
    >>> import numpy as np, pandas as pd, consensus
    >>> rng = np.random.default_rng(0)
    >>> tables = [pd.DataFrame({"age": rng.integers(20, 90, rows), "ward": rng.choice(["A", "B"], rows)}) for rows in (40, 90)]
    >>> for table in tables:
    ...     table["falls"] = rng.poisson(np.exp(-1 + 0.02 * table.age + 0.5 * (table.ward == "B")))
    >>> with contextlib.redirect_stdout(io.StringIO()):
    ...     owned = consensus.data.own(tables, "falls", categories=["ward"])
    >>> fitted = consensus.owners.fit(owned, "poisson")
    >>> fitted.names, bool(fitted.summary().loc["age", "p"] < 0.05)
    (('intercept', 'age', 'ward_B'), True)
    """
    check_owned(owned)
    _checks.choice("kind", kind, tuple(KINDS))
    loss, estimated = _loss(family), isinstance(family, str) and family == "negative binomial"
    cox = isinstance(loss, CoxLoss)
    times = None if grid is None else agreed_grid(grid)
    settings = {"family": str(family), "offset": offset, "kind": kind, "ties": ties}
    sums = Sums(owned.shards, network, engine, secure, settings | {"grid": None if times is None else times.tolist()})
    few = check_owners(kind, sums.owners)
    if times is not None and not cox:
        raise ValueError(f"grid is that of times of a Cox model; got family={family!r}")
    design = _design(owned.pipeline, offset, ("intercept", "alpha") if estimated else ("intercept",))
    read = [_read(owned, place, design, loss, family, sums.engine.size > 1) for place in range(owned.shards.agents)]
    sums.reject([error for _, error in read])
    own = [found for found, _ in read if found is not None]
    if cox:
        ties = family.ties if isinstance(family, CoxLoss) else _checks.choice("ties", ties, TIES)
        found = fit_cox(sums, own, design, kind, ties, times, owned.pipeline.scale[design.places])
    else:
        likelihood = Likelihood(FAMILIES["poisson"] if estimated else loss)
        found = _fit_glm(sums, own, design, kind, likelihood, owned.pipeline, estimated)
    found = replace(found, notes=(*found.notes, *few, *owned.notes))
    for entry in sums.revealed().itertuples(index=False):
        owned.revealed.loc[len(owned.revealed)] = list(entry)
    return found


def _fit_glm(
    sums: Sums, own: list[Samples], design: Design, kind: str, likelihood: Likelihood, pipeline: Pipeline, estimated: bool
) -> Fit:
    names = [*design.names, "intercept"]
    first = totals(sums, "products", "rows, products of columns (p, p), and sums of the target and offset", own, _first)
    rows = int(first["rows"])
    notes = checked(rows, first, names, len(design.names))
    warn_of_few(own, len(names), sums)
    start = np.zeros(len(names))
    if isinstance(likelihood.loss, LogLink):
        if not first["target"] > 0:
            raise ValueError("the target must have events somewhere; it is 0 in all rows of all owners")
        start[-1] = np.log(first["target"] / first["exposure"])
    b, at = newton(lambda b: totals(sums, "steps", STEPS, own, likelihood.terms, b), start, names)
    A, shift = units(pipeline, design.places)
    if estimated:
        b, found = fit_alpha(sums, own, b, kind, rows, names)
        names, A, shift = [*names, "alpha"], block_diag(A, 1.0), np.r_[shift, 0.0]
        notes.append("Poisson counts have alpha 0, its bound, of which z is no test: compare the AIC of family='poisson'")
    else:
        found = inferred(sums, own, likelihood, b, at, kind, rows)
    notes += [f"reference: {', '.join(design.references)}"] if design.references else []
    notes += told_of_weights(rows, first, likelihood.dispersed)
    name = "negative binomial" if estimated else likelihood.name
    return fitted(name, names, b, found, A, shift, sums, rows, kind, notes)


def inferred(
    sums: Sums,
    own: list[Samples],
    likelihood: Likelihood,
    b: np.ndarray,
    at: Terms,
    kind: str,
    rows: int,
    penalty: np.ndarray | float = 0.0,
) -> Found:
    """Return what can be said of coefficients b, at which the sums have the terms ``at``."""
    reveals = "information (p, p), and sums of squares and logarithms, at the optimum"
    reveals += {"model": "", "robust": ", and the sum of squared scores (p, p)", "owners": ", and its own score"}[kind]
    terms = totals(sums, "inference", reveals, own, likelihood.at_optimum, b, kind)
    dispersion, p = 1.0, len(b)
    if likelihood.dispersed:
        dispersion = float(terms["squares"]) / (rows - p)
    loglikelihood = np.nan
    if isinstance(likelihood.loss, SquaredLoss):
        squares = float(terms["squares"])
        with np.errstate(divide="ignore"):
            loglikelihood = -rows / 2 * (np.log(2 * np.pi * squares / rows) + 1) + float(terms["logarithms"]) / 2
    elif likelihood.dispersed:
        gamma = totals(sums, "likelihood", "its log-likelihood", own, likelihood.gamma_terms, b, dispersion)
        loglikelihood = float(gamma["loglikelihood"])
    elif likelihood.known:
        loglikelihood = float(terms["constants"] - at["value"])
    bread = (terms["information"] if kind == "model" else at["hessian"]) + np.diag(np.broadcast_to(penalty, p))
    factor = 1.0 if kind == "model" else small_sample(kind, rows, p, sums.owners)
    return Found(covariance(bread, terms, kind, dispersion, factor), dispersion, loglikelihood)


def _first(own: Samples) -> dict[str, Any]:
    return {
        "rows": len(own.y),
        "weights": own.weights.sum(),
        "unequal": (own.weights != 1).sum(),
        "gram": (own.X.T * own.weights) @ own.X,
        "target": own.weights @ own.y,
        "exposure": own.weights @ np.exp(own.offset),
    }


def units(pipeline: Pipeline, places: Sequence[int], spread: float = 1.0, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the linear map of coefficients, the intercept last, to original units, and what is added to them."""
    mean, scale = pipeline.mean[places], pipeline.scale[places]
    A = np.diag(np.r_[spread / scale, spread])
    A[-1, :-1] = -spread * mean / scale
    return A, np.r_[np.zeros(len(places)), shift]


def inference(
    problem: Any,  # noqa: ANN401  # a Problem, of a linear model
    result: Any,  # noqa: ANN401  # a Result, or coefficients
    pipeline: Pipeline | None = None,
    kind: Literal["model", "robust", "owners"] = "model",
    *,
    network: nx.Graph | ScheduleLike | None = None,
    engine: Together | None = None,
    secure: bool | SecureSums = False,
) -> Fit:
    """Return the uncertainty of the coefficients of a linear model that any solver has trained.

    Parameters
    ----------
    problem : Problem
        The problem, of ``Linear`` with one output, without regularizer or with ``L2``, whose weight is part of the Hessian.
    result : Result or array_like (P,)
        What :func:`consensus.solve` returned, whose mean over agents is taken; or the coefficients.
    pipeline : Pipeline, optional
        That of :func:`consensus.data.own` or of a split, by which coefficients have the units of columns; by default they are
        those of the model's inputs.
    kind : {"model", "robust", "owners"}
        The covariance, as for :func:`fit`.
    network : networkx.Graph or schedule, optional
        As for :func:`fit`.
    engine : Engine, optional
        That of :func:`consensus.solve`: the ranks; by default all owners are in this process.
    secure : bool or SecureSums
        As for :func:`fit`.

    Returns
    -------
    Fit
        Coefficients with their uncertainty.

    Raises
    ------
    TypeError
        If the model is not linear with one output, or features are sparse.
    ValueError
        If the regularizer has a kink or is a constraint, as ``L1``: its estimates are not normal, nor unbiased. If columns
        determine each other, which are named, and nothing regularizes them.

    Warns
    -----
    UserWarning
        If coefficients are further than a hundredth of a standard error from the optimum: train for more rounds.

    Examples
    --------
    >>> import consensus, topologies
    >>> data = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    >>> shards = consensus.partition(data.X, data.y, agents=4)
    >>> problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards)
    >>> result = consensus.solve(problem, topologies.ring(4), consensus.solvers.TreeNewton(), rounds=20)
    >>> table = consensus.owners.inference(problem, result, data.pipeline).summary()
    >>> table.loc[table.p < 0.001].index.tolist()
    ['intercept', 'x1', 'x2', 'x3', 'x8']
    """
    _checks.problem(problem)
    _checks.choice("kind", kind, tuple(KINDS))
    model: Any = problem.model
    shards: Any = problem.shards
    if not isinstance(model, Linear) or model.outputs != 1:
        raise TypeError(f"problem must be a consensus.Problem of Linear with one output; got {_checks.shown(problem)}")
    if not isinstance(getattr(shards, "features", None), np.ndarray):
        raise TypeError("problem must have shards of dense features: standard errors of sparse ones are not here")
    if type(problem.regularizer) is not L2 or problem.nonconvex:
        raise ValueError(
            "regularizer must be none or L2, which is part of the Hessian; got "
            f"{problem.nonconvex or problem.regularizer}: at its kinks and bounds estimates are not normal. Train without "
            "it, or with consensus.L2(weight)"
        )
    likelihood = Likelihood(problem.loss)
    if problem.loss.over == "batch" or not problem.loss.convex:
        raise TypeError(f"{problem.loss} has no curvature of each sample: for Cox models there is consensus.owners.fit")
    if kind == "model" and not likelihood.known:
        raise ValueError(f"kind must be 'robust' or 'owners' for {problem.loss}, which is no likelihood; got 'model'")
    sums = Sums(shards, network, engine, secure, {"problem": str(problem.loss), "kind": kind})
    few = check_owners(kind, sums.owners)
    own = [_samples(problem, place) for place in range(shards.agents)]
    names = _names(problem, pipeline)
    first = totals(sums, "products", "rows, weights, and products of columns (p, p)", own, _first)
    rows, total = int(first["rows"]), float(first["weights"])
    if rows <= len(names):
        raise ValueError(
            f"there must be more rows than coefficients; all owners have {rows} rows and {len(names)} coefficients"
        )
    penalty = np.asarray(problem.regularizer.weight, float) * (total if problem.reduction == "mean" else 1.0)
    notes: list[str] = []
    if np.any(penalty):
        notes.append(
            f"{problem.regularizer} is part of the Hessian: coefficients are shrunk, and intervals are about the shrunk ones"
        )
    else:
        notes = checked(rows, first, names, len(names) - 1 if model.bias else None)
    notes += [*few, *(told_of_weights(rows, first, likelihood.dispersed) if likelihood.known else ())]
    b = np.asarray(result.mean if hasattr(result, "history") else result, float).ravel()
    if b.shape != (model.parameters,):
        raise ValueError(f"result must have {model.parameters} parameters, as the model has; got {b.shape}")
    at = totals(sums, "steps", STEPS, own, likelihood.terms, b)
    found = inferred(sums, own, likelihood, b, at, kind, rows, penalty)
    step = np.linalg.solve(at["hessian"] + np.diag(np.broadcast_to(penalty, len(b))), at["gradient"] + penalty * b)
    far = float(np.max(np.abs(step) / np.sqrt(np.diag(found.covariance))))
    if far > _FAR:
        note = f"coefficients are up to {far:.2g} standard errors from the optimum: train for more rounds"
        _checks.warn(note)
        notes.append(note)
    A, shift = np.eye(len(b)), np.zeros(len(b))
    if pipeline is not None:
        spread, moved = (float(np.ravel(part)[0]) for part in (pipeline.spread, pipeline.shift))
        A, shift = units(pipeline, range(len(pipeline.mean)), spread, moved)
        if not model.bias:
            raise ValueError(
                "model must have a bias for coefficients in the pipeline's units: consensus.Linear(features, bias=True)"
            )
        if isinstance(problem.loss, SquaredLoss):
            found = found._replace(
                dispersion=found.dispersion * spread**2, loglikelihood=found.loglikelihood - rows * np.log(spread)
            )
    return fitted(likelihood.name, names, b, found, A, shift, sums, rows, kind, notes)


def _samples(problem: Any, place: int) -> Samples:  # noqa: ANN401
    shards, own = problem.shards, problem.shards.weights[place] > 0
    X, y, weights = (part[place][own].astype(float) for part in (shards.features, shards.targets, shards.weights))
    X = problem.model.design(X[None])[0]
    offset = np.zeros(len(y))
    if getattr(problem.loss, "offset", False):
        y, offset = y[:, :1], y[:, 1]
    return Samples(X, y[:, 0], weights, offset)


def _names(problem: Any, pipeline: Pipeline | None) -> list[str]:  # noqa: ANN401
    columns = problem.shards.columns if pipeline is None else pipeline.columns
    names = list(columns.features) if columns is not None else [f"x{place}" for place in range(problem.model.features)]
    if len(names) != problem.model.features:
        raise ValueError(f"pipeline must be that of the model's {problem.model.features} features; it has {len(names)}")
    return [*names, "intercept"] if problem.model.bias else names


def _loss(family: str | Loss) -> Any:  # noqa: ANN401  # a loss
    if isinstance(family, Loss):
        found: Any = family
        if getattr(found, "offset", False):
            raise ValueError(f"family must be a loss without offsets of its own; got {family}: name the column, offset='...'")
        if not isinstance(found, CoxLoss) and not Likelihood(found).known:
            raise TypeError(f"family must be a loss that is a likelihood, of {', '.join(FAMILIES)}; got {family}")
        return found
    losses = FAMILIES | {"negative binomial": NegativeBinomialLoss(1.0), "cox": CoxLoss()}
    return losses[_checks.choice("family", family, tuple(losses))]


def check_owners(kind: str, owners: int) -> tuple[str, ...]:
    """Check that there are several owners for a covariance of clusters; return, and give, a warning of few."""
    if kind != "owners" or owners >= _FEW:
        return ()
    if owners < 2:
        raise ValueError(f"kind='owners' needs at least 2 owners, which are the clusters; got {owners}")
    note = f"{owners} owners are few clusters: standard errors of kind 'owners' are too small with fewer than some {_FEW}"
    _checks.warn(note)
    return (note,)


def _design(pipeline: Pipeline, offset: str | None, others: tuple[str, ...]) -> Design:
    columns = pipeline.columns
    assert columns is not None, "checked"
    features, names, references, place_of = columns.features, [], [], None
    skipped = set()
    for label, texts in columns.categories.items():
        skipped.add(f"{label}_{texts[0]}")
        references.append(f"{label}_{texts[0]}")
    if offset is not None:
        numbers = [name for name in columns.names if name not in columns.categories]
        if offset not in numbers:
            raise ValueError(f"offset must be one of the columns of numbers, {numbers}; got {offset!r}")
        if offset in columns.indicators:
            raise ValueError(f"offset must have no missing cells; {offset!r} has some: give own missing='drop'")
        place_of = features.index(offset)
        skipped.add(offset)
    places = [place for place, name in enumerate(features) if name not in skipped]
    names = [features[place] for place in places]
    if not places:
        raise ValueError("a fit needs a column beside the offset and the target; got none")
    if taken := set(names) & set(others):
        shown = ", ".join(map(repr, sorted(taken)))
        raise ValueError(f"columns must not have the name of another coefficient; got {shown}: rename them in the tables")
    return Design(places, names, references, place_of)


def _read(
    owned: Owned,
    place: int,
    design: Design,
    loss: Any,  # noqa: ANN401
    family: str | Loss,
    discreet: bool,
) -> tuple[Any, Exception | None]:
    """Return the rows of the owner at a place, or the error that tells it what is wrong, without cells if ``discreet``."""
    shards, pipeline = owned.shards, owned.pipeline
    owner = int(shards.rows[place])
    X, y, weights = original(owned, place)
    o = np.zeros(len(X))
    if design.offset is not None:
        o = pipeline.mean[design.offset] + pipeline.scale[design.offset] * X[:, design.offset]
    try:
        if design.offset is not None and pipeline.columns is not None and pipeline.columns.fill is not None:
            filled = X[:, design.offset] == 0  # to the bit: the mean of all owners
            if filled.any() and not filled.all():
                raise ValueError(
                    f"the offset must have no missing cells; {filled.sum()} rows have the mean, which own(missing='mean') "
                    "puts there: give missing='drop'"
                )
        if pipeline.classes is not None and (not isinstance(loss, LogisticLoss) or len(pipeline.classes) > 2):
            suits = f"family 'logistic', not {loss}" if len(pipeline.classes) == 2 else "no family; 'logistic' takes 2 classes"
            raise ValueError(f"a target of {len(pipeline.classes)} classes suits {suits}")
        if isinstance(loss, CoxLoss):
            X, time, event, weights = followed(owned, place)
            return Followed(X[:, design.places], time, event, weights, o), None
        if y.shape[1] != 1:
            raise ValueError(f"a fit needs one column as target; got {y.shape[1]}")
        loss.check(y, 1)
        if family == "negative binomial" and y.max(initial=0) > MOST:
            raise ValueError(f"counts must be at most {MOST:,} where alpha is estimated: give NegativeBinomialLoss(alpha) one")
    except ValueError as error:
        told = str(error).partition("; got")[0] if discreet else str(error)
        told = told.replace(str(loss), f"family {family!r}") if isinstance(family, str) else told
        return None, ValueError(told if told.startswith("owner ") else f"owner {owner}: {told}")
    return Samples(np.c_[X[:, design.places], np.ones(len(X))], y[:, 0], weights, o), None
