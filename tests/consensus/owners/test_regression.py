"""Fits of owners' tables equal those of statsmodels to the pooled rows."""

import re
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import consensus
import topologies
from consensus import losses
from consensus.owners import Fit, fit, inference, negative_binomial
from consensus.owners.likelihoods import Samples
from tests.helpers.owners_on_threads import OnThreads
from tests.helpers.ranks_on_threads import together
from tests.helpers.studies_of_owners import owned, pooled, tables

FOUND = tables()
FAMILIES = {
    "gaussian": ("days", "gaussian", sm.families.Gaussian()),
    "logistic": ("ill", "logistic", sm.families.Binomial()),
    "poisson": ("falls", "poisson", sm.families.Poisson()),
    "gamma": ("cost", "gamma", sm.families.Gamma(sm.families.links.Log())),
    "negative binomial": ("falls", losses.NegativeBinomialLoss(0.3), sm.families.NegativeBinomial(alpha=0.3)),
}
# of GLM statsmodels leaves out the factor N / (N - p) that its OLS has
COVARIANCES = {"model": {}, "robust": {"cov_type": "HC1"}, "owners": {"cov_type": "cluster"}}


def reference(name, kind, weighted=False, offset=False):
    target, _, family = FAMILIES[name]
    frame, design = pooled(FOUND)
    y = frame[target] == "yes" if target == "ill" else frame[target]
    more = {"cov_kwds": {"groups": frame.owner}} if kind == "owners" else {}
    model = sm.GLM(
        y.astype(float),
        design,
        family=family,
        offset=frame.exposure if offset else None,
        var_weights=frame.weight if weighted else None,
    )
    return model.fit(tol=1e-14, maxiter=200, **COVARIANCES[kind], **more)


def assert_equal(found, wanted, rtol=1e-7):
    factor = found.rows / (found.rows - len(found.names)) if found.kind == "robust" else 1.0
    order = [found.names.index(name) for name in wanted.params.index]
    np.testing.assert_allclose(found.coefficients[order], wanted.params, rtol=rtol)
    np.testing.assert_allclose(found.standard_errors[order], factor**0.5 * wanted.bse, rtol=rtol)
    np.testing.assert_allclose(found.covariance[np.ix_(order, order)], factor * wanted.cov_params(), rtol=rtol, atol=1e-12)
    table = found.summary()
    np.testing.assert_allclose(
        table.loc[wanted.params.index, "p"], wanted.pvalues, rtol=1e-2 if factor > 1 else 1e-5, atol=1e-12
    )
    half = (table.upper - table.lower)[wanted.params.index] / 2
    np.testing.assert_allclose(half, 1.959963984540054 * factor**0.5 * wanted.bse, rtol=rtol)
    assert found.loglikelihood == pytest.approx(wanted.llf, rel=rtol)
    assert found.dispersion == pytest.approx(wanted.scale, rel=rtol)
    assert found.aic == pytest.approx(wanted.aic, rel=rtol)


def few(names, fast):
    """Parameters, of which all but some are slow."""
    return [pytest.param(name, marks=() if name in fast else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("kind", few(COVARIANCES, ["robust"]))
@pytest.mark.parametrize("name", few(FAMILIES, ["poisson", "gamma"]))
@pytest.mark.filterwarnings("ignore")
def test_it_is_that_of_the_pooled_rows(name, kind):
    target, family, _ = FAMILIES[name]
    assert_equal(fit(owned(FOUND, target), family, kind=kind), reference(name, kind))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_robust_one_is_that_of_least_squares():
    frame, design = pooled(FOUND)
    wanted = sm.OLS(frame.days, design).fit(cov_type="HC1")
    found = fit(owned(FOUND, "days"), kind="robust")
    np.testing.assert_allclose(found.summary().loc[design.columns, "standard error"], wanted.bse, rtol=1e-7)
    assert found.loglikelihood == pytest.approx(wanted.llf, rel=1e-10)


@pytest.mark.parametrize("name", few(["poisson", "gamma", "gaussian", "logistic"], ["gamma"]))
@pytest.mark.filterwarnings("ignore")
def test_offsets_weights_and_secret_sums(name):
    target, family, _ = FAMILIES[name]
    offset = name != "gaussian"
    agreed = owned(FOUND, target, keep=("exposure", "weight") if offset else ("weight",), weights="weight")
    ring = topologies.ring(4)
    for kind in ("model", "robust"):
        found = fit(agreed, family, network=ring, secure=True, kind=kind, offset="exposure" if offset else None)
        assert_equal(found, reference(name, kind, weighted=True, offset=offset))
        assert "prior weights" in str(found)


OVERDISPERSED = [
    own.assign(falls=np.random.default_rng(owner).poisson(own.falls * np.random.default_rng(9).gamma(2.0, 0.5, len(own))))
    for owner, own in enumerate(FOUND)
]


@pytest.mark.parametrize("kind", few(COVARIANCES, ["robust"]))
@pytest.mark.filterwarnings("ignore")
def test_alpha_is_estimated_with_the_coefficients(kind):
    from statsmodels.discrete.discrete_model import NegativeBinomial

    offset = "exposure" if kind == "robust" else None
    frame, design = pooled(OVERDISPERSED)
    agreed = owned(OVERDISPERSED, "falls", keep=("exposure",) if offset else ())
    found = fit(agreed, "negative binomial", kind=kind, offset=offset, secure=True, network=topologies.ring(4))
    model = NegativeBinomial(frame.falls, design, offset=frame.exposure if offset else None)
    more = {"cov_kwds": {"groups": frame.owner}} if kind == "owners" else {}
    order = [found.names.index(name) for name in (*design.columns, "alpha")]
    start = 1.001 * found.coefficients[order]
    wanted = model.fit(start, method="newton", disp=0, tol=1e-14, **COVARIANCES[kind], **more)
    factor = found.rows / (found.rows - len(found.names)) if kind == "robust" else 1.0
    np.testing.assert_allclose(found.coefficients[order], wanted.params, rtol=1e-7)
    np.testing.assert_allclose(found.covariance[np.ix_(order, order)], factor * wanted.cov_params(), rtol=1e-7, atol=1e-12)
    assert found.loglikelihood == pytest.approx(wanted.llf, rel=1e-10)
    assert found.aic == pytest.approx(wanted.aic, rel=1e-10)
    assert found.names[0] == "intercept"
    assert found.names[-1] == "alpha"


def test_alpha_has_the_optimum_of_weighted_rows():
    """That of SciPy's distribution; on two ranks the same bits."""
    from scipy.optimize import minimize
    from scipy.stats import nbinom

    rng, parts = np.random.default_rng(0), []
    for size in (40, 60):
        age, weight = rng.uniform(2, 9, size), rng.uniform(0.5, 2, size)
        parts.append(pd.DataFrame({"age": age, "weight": weight, "falls": rng.poisson(rng.gamma(0.5, age))}))
    frame = pd.concat(parts)

    def cost(point):
        mean, size = np.exp(point[0] + point[1] * frame.age), np.exp(-point[2])
        return -(frame.weight * nbinom.logpmf(frame.falls, size, size / (size + mean))).sum()

    wanted = minimize(cost, [0.0, 0.0, 0.0], method="BFGS", options={"gtol": 1e-7})
    found = fit(agreed_of(parts, "falls", weights="weight"), "negative binomial")
    np.testing.assert_allclose(found.coefficients, [*wanted.x[:2], np.exp(wanted.x[2])], rtol=1e-5)
    assert found.loglikelihood == pytest.approx(-wanted.fun, rel=1e-9)

    def one(ranks):
        engine = OnThreads(ranks)
        return fit(agreed_of(parts[ranks.me], "falls", weights="weight", engine=engine), "negative binomial", engine=engine)

    for own in together(2, one):
        np.testing.assert_array_equal(own.covariance, found.covariance)


@pytest.mark.parametrize("alpha", [1e-3, 30.0])
def test_slopes_of_the_cost_are_differences(alpha):
    rng = np.random.default_rng(0)
    own = Samples(rng.normal(size=(20, 2)), rng.poisson(3.0, 20).astype(float), rng.uniform(1, 2, 20), np.zeros(20))
    at, point = negative_binomial._terms, np.array([0.3, -0.2, np.log(alpha)])
    steps = 1e-5 * np.eye(3)
    for value, slope in (("value", "gradient"), ("gradient", "hessian")):
        wanted = [(at(own, point + step)[value] - at(own, point - step)[value]) / 2e-5 for step in steps]
        np.testing.assert_allclose(at(own, point)[slope], wanted, rtol=1e-6, atol=1e-5)


def test_counts_that_vary_no_more_than_poisson_have_no_alpha():
    found = small(falls=lambda rng, frame: 1 + (frame.age > 50).astype(int))
    with pytest.raises(ValueError, match=r"these do not, and alpha would be 0: fit family='poisson', with kind='robust'"):
        fit(agreed_of(found, "falls"), "negative binomial")
    assert fit(agreed_of(found, "falls"), "poisson", kind="robust").rows == 100
    named = [own.rename(columns={"age": "alpha"}) for own in found]
    with pytest.raises(ValueError, match="must not have the name of another coefficient; got 'alpha'"):
        fit(agreed_of(named, "falls"), "negative binomial")


@pytest.mark.parametrize(("missing", "note"), [
    ("mean", r"missing cells are means over all owners, in 100 rows 2 of 'age', 3 of 'ward': standard errors take them as"),
    ("indicator", "in 100 rows 2 of 'age', 3 of 'ward'"),
    ("drop", "complete cases: rows with missing cells were left out"),
])  # fmt: skip
def test_missing_cells_are_in_the_output(missing, note):
    found = small(
        ward=lambda rng, frame: rng.choice(["A", "B"], len(frame)), days=lambda rng, frame: rng.normal(size=len(frame))
    )
    found[0].loc[[3, 5], "age"], found[1].loc[[1, 2, 4], "ward"] = np.nan, None
    agreed = owned(found, "days", categories=["ward"], drop=[], missing=missing)
    assert re.search(note, str(fit(agreed)))


def test_settings_must_be_the_same_on_all_ranks():
    def one(engine, here):
        agreed = consensus.data.own([own[["age", "falls"]] for own in here], "falls", engine=engine)
        with pytest.raises(ValueError, match="kind must be the same at all owners; got 'model' and 'robust'"):
            fit(agreed, "poisson", engine=engine, kind="robust" if engine.ranks.me else "model", secure=True)

    on_two_ranks(one)


def on_two_ranks(function):
    """``function(engine, tables here)`` on each of two ranks, of which each has two owners."""
    return together(2, lambda ranks: function(OnThreads(ranks), FOUND[2 * ranks.me : 2 * ranks.me + 2]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("secure", few([False, True], [True]))
def test_ranks_have_the_bits_of_one_process(secure):
    def one(engine, here):
        agreed = consensus.data.own(here, "falls", engine=engine, **settings)
        return fit(agreed, "poisson", engine=engine, network=topologies.path(4), secure=secure, kind="robust")

    settings = {
        "categories": ["ward"],
        "missing": "mean",
        "drop": ["cost", "days", "ill", "time", "died", "exposure", "weight"],
    }
    wanted = fit(owned(FOUND, "falls"), "poisson", network=topologies.path(4), secure=secure, kind="robust")
    for found in on_two_ranks(one):
        np.testing.assert_array_equal(found.covariance, wanted.covariance)
        np.testing.assert_array_equal(found.coefficients, wanted.coefficients)
        assert found.loglikelihood == wanted.loglikelihood


def test_what_is_sent_is_written_down():
    agreed = owned(FOUND, "falls")
    before = len(agreed.revealed)
    with pytest.warns(UserWarning, match="4 owners are few clusters"):
        found = fit(agreed, "poisson", secure=True, kind="owners")
    assert agreed.revealed.exchange[before:].tolist() == found.revealed.exchange.tolist() == ["products", "steps", "inference"]
    assert found.revealed.reveals.str.contains("of the total alone").all()
    assert "reference: ward_A" in str(found)


def test_owners_with_fewer_rows_than_coefficients_are_warned():
    small = [FOUND[0][:4], *FOUND[1:]]
    with pytest.warns(UserWarning, match="has 4 rows and the model 6 coefficients, so that others can compute its rows"):
        fit(owned(small, "days"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(owned(small, "days"), secure=True)


def small(seed=0, **columns):
    """Tables of two owners, of which each column is made by a function of a generator and a size."""
    rng, found = np.random.default_rng(seed), []
    for size in (40, 60):
        frame = pd.DataFrame({"age": rng.integers(20, 90, size).astype(float), "dose": rng.normal(0, 1, size)})
        for name, make in columns.items():
            frame[name] = make(rng, frame)
        found.append(frame)
    return found


def agreed_of(found, target, **settings):
    return owned(found, target, categories=[], drop=[], **settings)


def test_separation_names_the_columns():
    found = small(ill=lambda rng, frame: np.where(frame.age > 50, "yes", "no"))
    with pytest.raises(ValueError, match=r"no finite coefficients are the optimum: those of 'age'.* grow without bound"):
        fit(agreed_of(found, "ill"), "logistic")


def test_a_category_without_events_is_named():
    """Quasi-separation: the others have finite coefficients."""
    found = small(
        treated=lambda rng, frame: (rng.random(len(frame)) < 0.1).astype(int),
        falls=lambda rng, frame: rng.poisson(np.exp(0.01 * frame.age)) * (frame.treated == 0),
    )
    with pytest.raises(ValueError, match=r"those of 'treated'.* grow without bound"):
        fit(agreed_of(found, "falls"), "poisson")


def test_no_events_at_all():
    found = small(falls=lambda rng, frame: 0 * (frame.age > 0))
    with pytest.raises(ValueError, match="the target must have events somewhere; it is 0 in all rows of all owners"):
        fit(agreed_of(found, "falls"), "poisson")


def test_columns_that_are_constant_or_determine_each_other():
    site = small(site=lambda rng, frame: 3 + 0 * frame.age, days=lambda rng, frame: rng.normal(size=len(frame)))
    with pytest.raises(ValueError, match="constant in all rows that count: 'site'"):
        fit(agreed_of(site, "days"))
    months = small(months=lambda rng, frame: 12 * frame.age + 1, days=lambda rng, frame: rng.normal(size=len(frame)))
    with pytest.raises(ValueError, match="these do: 'age', 'months'"):
        fit(agreed_of(months, "days"))
    nearly = small(
        months=lambda rng, frame: 12 * frame.age + 0.01 * rng.normal(size=len(frame)),
        days=lambda rng, frame: rng.normal(size=len(frame)),
    )
    with pytest.warns(UserWarning, match="nearly determine each other: 'age', 'months'"):
        fit(agreed_of(nearly, "days"))


def test_offsets_are_not_made_up():
    found = [table.copy() for table in FOUND]
    found[1].loc[7, "exposure"] = np.nan
    with pytest.raises(ValueError, match="owner 1: the offset must have no missing cells; 1 rows have the mean"):
        fit(owned(found, "falls", keep=("exposure",)), "poisson", offset="exposure")


def test_too_few_rows():
    with pytest.raises(ValueError, match="all owners have 2 rows, and 2 coefficients"):
        fit(agreed_of([pd.DataFrame({"age": [age], "days": [age + 1.0]}) for age in (20.0, 30.0)], "days"))


def test_a_wrong_target_is_told_its_owner_alone():
    def one(engine, here):
        here[-1].loc[5, "falls"] = -1 if engine.ranks.me else 2
        agreed = consensus.data.own([table[["age", "falls"]] for table in here], "falls", engine=engine)
        try:
            fit(agreed, "poisson", engine=engine)
        except ValueError as error:
            return str(error)

    theirs, own = on_two_ranks(lambda engine, here: one(engine, [table.copy() for table in here]))
    assert theirs == "the data of owner 3 are rejected there: its own process says why"
    assert "owner 3: family 'poisson' takes numbers of at least 0" in own
    assert "got" not in own, "others may read what a rank prints"


@pytest.mark.parametrize(("settings", "message"), [
    ({"family": "probit"}, "family must be"),
    ({"family": np.zeros(0)}, "family must be"),
    ({"family": "negative binomial"}, "owner 0: family 'negative binomial' takes counts 0, 1, 2"),
    ({"family": losses.PoissonLoss(offset=True)}, "name the column, offset="),
    ({"kind": "HC3"}, "kind must be"),
    ({"offset": "dosis"}, "offset must be one of the columns of numbers"),
    ({"network": topologies.ring(3)}, "the network has 3 agents, and there are 2 owners"),
    ({"grid": [1.0, 2.0]}, "grid is that of times of a Cox model"),
    ({"secure": 40}, "secure must be True, False or a SecureSums"),
])  # fmt: skip
def test_refusals(settings, message):
    agreed = agreed_of(small(days=lambda rng, frame: rng.normal(size=len(frame))), "days")
    with pytest.raises((ValueError, TypeError), match=message):
        fit(agreed, **settings)


def trained(regularizer=None, rounds=600):
    agreed = agreed_of(small(days=lambda rng, frame: 0.1 * frame.age + rng.normal(size=len(frame))), "days")
    problem = consensus.Problem(consensus.Linear(2), consensus.SquaredLoss(), agreed.shards, regularizer)
    return agreed, problem, consensus.solve(problem, topologies.path(2), consensus.solvers.EXTRA(), rounds=rounds)


@pytest.mark.parametrize("kind", ["model", "robust"])
def test_any_solver_has_the_same_inference(kind):
    agreed, problem, result = trained()
    found, wanted = inference(problem, result, agreed.pipeline, kind), fit(agreed, kind=kind)
    np.testing.assert_allclose(found.coefficients, wanted.coefficients, rtol=1e-7)
    np.testing.assert_allclose(found.covariance, wanted.covariance, rtol=1e-7, atol=1e-12)
    assert found.loglikelihood == pytest.approx(wanted.loglikelihood)
    assert found.dispersion == pytest.approx(wanted.dispersion)


def test_short_runs_are_warned_of():
    agreed, problem, _ = trained()
    with pytest.warns(UserWarning, match="standard errors from the optimum: train for more rounds"):
        inference(problem, np.zeros(3), agreed.pipeline)


def test_penalties():
    agreed, problem, result = trained(consensus.L2(0.1))
    found = inference(problem, result, agreed.pipeline)
    assert "L2(weight=0.1) is part of the Hessian" in str(found)
    X = np.c_[problem.shards.features[0][:40], np.ones(40)], np.c_[problem.shards.features[1], np.ones(60)]
    H = sum(x.T @ x for x in X) + 10 * np.eye(3)
    b = np.linalg.solve(H, sum(x.T @ d[: len(x), 0] for x, d in zip(X, problem.shards.targets, strict=True)))
    np.testing.assert_allclose(inference(problem, b).coefficients[[1, 2, 0]], b)
    np.testing.assert_allclose(result.mean, b, rtol=1e-6, atol=1e-12)
    lasso = consensus.Problem(consensus.Linear(2), consensus.SquaredLoss(), agreed.shards, consensus.L1(0.1))
    with pytest.raises(ValueError, match=r"regularizer must be none or L2.*; got L1\(weight=0.1\)"):
        inference(lasso, b)


@pytest.mark.slow
def test_a_loss_that_is_no_likelihood_has_a_robust_covariance():
    agreed, _, _ = trained()
    problem = consensus.Problem(consensus.Linear(2), consensus.Huber(1.0), agreed.shards)
    result = consensus.solve(problem, topologies.path(2), consensus.solvers.TreeNewton(), rounds=60)
    with pytest.raises(ValueError, match="kind must be 'robust' or 'owners'"):
        inference(problem, result)
    assert np.isfinite(inference(problem, result, agreed.pipeline, "robust").standard_errors).all()


@pytest.mark.slow
def test_a_forest_plot():
    agreed, _, _ = trained()
    ax = fit(agreed).plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["dose", "age"]


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say():
    """Of 1,000 studies of four owners with 300 rows, between 94 and 96 percent of the intervals have the true coefficient."""
    rng, found = np.random.default_rng(0), []
    for size in (12, 50, 88, 150):
        frame = pd.DataFrame({"age": rng.uniform(20, 90, size), "dose": rng.normal(0, 1, size)})
        found.append(frame.assign(falls=1 + (frame.dose > 0)))
    agreed, truth, covered = agreed_of(found, "falls"), np.array([-0.5, 0.02, -0.3]), []
    network = topologies.Static(topologies.ring(4))
    for _ in range(1000):
        targets = np.zeros_like(agreed.shards.targets)
        for own, frame in zip(targets, found, strict=True):
            own[: len(frame), 0] = rng.poisson(np.exp(-0.5 + 0.02 * frame.age - 0.3 * frame.dose))
        shards = replace(agreed.shards, targets=(targets - agreed.pipeline.shift) / agreed.pipeline.spread)
        own = fit(replace(agreed, shards=shards, revealed=agreed.revealed[:0]), "poisson", network=network)
        covered.append(np.abs(own.coefficients - truth)[1:] < 1.959963984540054 * own.standard_errors[1:])
    share = np.mean(covered)
    assert 0.94 < share < 0.96, share


@pytest.mark.slow
def test_a_level_may_be_any_real_number():
    found = Fit("gaussian", ("intercept", "age"), np.ones(2), np.eye(2), "model", 1.0, -3.0, 20, 4)
    half = found.summary(Fraction(1, 2))
    assert half.equals(found.summary(0.5))
    assert found.plot(level=Fraction(1, 2)).get_xlabel().endswith("50%")
