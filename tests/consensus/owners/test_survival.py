"""Curves and Cox models of owners' rows equal those of lifelines to the pooled rows."""

import json

import numpy as np
import pandas as pd
import pytest

import consensus
import topologies
from consensus.losses import CoxLoss
from consensus.owners import Curves, fit, kaplan_meier
from consensus.owners.cox import partial, score_residuals
from tests.helpers.engine_harness import HERE, started
from tests.helpers.studies_of_owners import owned, pooled, tables

FOUND = tables((12, 300, 700, 200))
GRID = np.arange(10, 121, 10.0)


def rounded():
    frame = pooled(FOUND)[0]
    place = np.searchsorted(GRID, frame.time)
    return frame.assign(time=np.r_[GRID, 130.0][place], died=frame.died * (place < len(GRID)))


@pytest.mark.parametrize("secure", [pytest.param(False, marks=pytest.mark.slow), True])
def test_it_is_that_of_the_pooled_rows(secure):
    from lifelines import KaplanMeierFitter

    found = kaplan_meier(owned(FOUND, ["time", "died"]), GRID, secure=secure, network=topologies.ring(4), least=1)
    frame = rounded()
    wanted = KaplanMeierFitter().fit(frame.time, frame.died)
    at = found.table.time.to_numpy()
    np.testing.assert_array_equal(at, GRID)
    np.testing.assert_allclose(found.table.survival, wanted.survival_function_.loc[at, "KM_estimate"], rtol=1e-12)
    np.testing.assert_allclose(found.table[["lower", "upper"]], wanted.confidence_interval_.loc[at], rtol=1e-9)
    np.testing.assert_array_equal(found.table["at risk"], wanted.event_table.loc[at, "at_risk"])
    assert found.medians["all"] == wanted.median_survival_time_
    assert found.log_rank is None


def test_the_log_rank_test():
    from lifelines.statistics import multivariate_logrank_test

    found, frame = kaplan_meier(owned(FOUND, ["time", "died"]), GRID, by="ward"), rounded()
    wanted = multivariate_logrank_test(frame.time, frame.ward, frame.died)
    assert found.log_rank.statistic == pytest.approx(wanted.test_statistic, rel=1e-9)
    assert found.log_rank.p == pytest.approx(wanted.p_value, rel=1e-9)
    assert found.log_rank.freedom == 2


def test_small_counts_are_not_released():
    agreed = owned(FOUND, ["time", "died"])
    every, some = (kaplan_meier(agreed, GRID, by="ward", least=least).table for least in (1, 5))
    assert ((some["events"] == 0) | (some["events"] >= 5)).all()
    assert (some["at risk"] >= 5).all()
    assert len(some) < len(every)
    both = some.merge(every, on=["group", "time"])
    np.testing.assert_array_equal(both.survival_x, both.survival_y)


def test_refusals_of_curves():
    agreed = owned(FOUND, ["time", "died"])
    with pytest.raises(ValueError, match=r"by must be one of the columns of categories, \['ward'\]; got 'age'"):
        kaplan_meier(agreed, GRID, by="age")
    with pytest.raises(ValueError, match="owner 0: survival curves take no weights of rows: give own no weights="):
        kaplan_meier(owned(FOUND, ["time", "died"], keep=("weight",), weights="weight"), GRID)
    with pytest.raises(ValueError, match="curves need events until the last time of the grid"):
        kaplan_meier(agreed, [0.0, 0.5])
    gone = pd.DataFrame({"ward": ["A", "B", None, "A"], "time": [1.0, 2, 3, 4], "died": [1, 1, 0, 1]})
    with pytest.raises(ValueError, match="owner 0: 'ward' must have no missing cells"):
        kaplan_meier(owned([gone, gone], ["time", "died"], drop=[]), GRID, by="ward")


@pytest.mark.slow
def test_the_figure():
    ax = kaplan_meier(owned(FOUND, ["time", "died"]), GRID, by="ward").plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["A", "B", "C"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_ranks_of_torchrun_have_the_bits_of_one_process():
    pytest.importorskip("torch")
    done = started("torch", 2, HERE / "studies_of_owners.py")
    assert done.returncode == 0, done.stderr
    found = tables((12, 300, 1000, 500))
    counts = owned(found, "falls")
    poisson = fit(counts, "poisson", secure=True, kind="robust")
    binomial = fit(counts, "negative binomial", secure=True)
    followed = owned(found, ["time", "died"])
    cox, curves = (
        fit(followed, "cox", secure=True, kind="robust"),
        kaplan_meier(followed, range(10, 121, 10), by="ward", secure=True),
    )
    wanted = [part.tolist() for fitted in (poisson, binomial, cox) for part in (fitted.coefficients, fitted.covariance)]
    said = json.loads(done.stdout)
    assert said == [*wanted, list(curves.log_rank), curves.table.survival.tolist()]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_peers_have_the_bits_of_one_process(tmp_path):
    pytest.importorskip("grpc")
    from tests.helpers.loopback import NAMES, RING, network_of, together, written

    found = tables((12, 300, 400, 200))
    wanted = fit(owned(found, "falls"), "negative binomial", network=network_of(NAMES, RING), secure=True)

    def run(peers):
        agreed = consensus.data.own(found[peers.rank], "falls", engine=peers, **settings)
        return fit(agreed, "negative binomial", engine=peers, secure=True)

    settings = {
        "categories": ["ward"],
        "missing": "mean",
        "drop": ["cost", "days", "ill", "time", "died", "exposure", "weight"],
    }
    for own in together(written(tmp_path, edges=RING), run).values():
        np.testing.assert_array_equal(own.covariance, wanted.covariance)
        np.testing.assert_array_equal(own.coefficients, wanted.coefficients)


def test_worker_processes_are_one_process():
    agreed = owned(FOUND, ["time", "died"])
    one, other = (kaplan_meier(agreed, GRID, engine=engine) for engine in (None, consensus.engines.Processes(2)))
    pd.testing.assert_frame_equal(one.table, other.table)
    with pytest.raises(TypeError, match="engine must be an engine"):
        kaplan_meier(agreed, GRID, engine="torch")


def test_a_table_that_cannot_be_drawn_is_refused():
    with pytest.raises(TypeError, match="table must be a data frame"):
        Curves(None, {}, None, 0.95)
    curves = Curves(pd.DataFrame({"group": ["all"], "time": [30.0], "survival": [0.8]}), {"all": 70.0}, None, 0.95)
    with pytest.raises(ValueError, match="table must have intervals to be drawn; it has no column lower, upper"):
        curves.plot()


# Cox models of owners' tables equal those of lifelines to the pooled rows.


def reference(columns, strata=None, **settings):
    """lifelines takes Efron's ties; Breslow's are those of statsmodels."""
    from lifelines import CoxPHFitter

    frame, design = pooled(FOUND)
    frame = design[columns].assign(time=frame.time, died=frame.died, owner=frame.owner)
    kept = frame if strata or "cluster_col" in settings else frame.drop(columns="owner")
    options = {"fit_options": {"precision": 1e-11, "step_size": 1.0}, "strata": strata} | settings
    return CoxPHFitter().fit(kept, "time", "died", **options)


def assert_equal(found, wanted):
    table = found.summary().loc[wanted.params_.index]
    np.testing.assert_allclose(table.coefficient, wanted.params_, rtol=1e-7)
    np.testing.assert_allclose(table["standard error"], wanted.standard_errors_, rtol=1e-7)
    assert found.loglikelihood == pytest.approx(wanted.log_likelihood_, rel=1e-10)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("secure", [pytest.param(False, marks=pytest.mark.slow), True])
def test_each_owner_is_a_stratum(secure):
    found = fit(owned(FOUND, ["time", "died"]), "cox", network=topologies.ring(4), secure=secure)
    assert_equal(found, reference(["age", "pressure", "ward_B", "ward_C", "smokes"], strata=["owner"]))
    assert "each owner is a stratum" in str(found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_ties_by_breslow():
    from statsmodels.duration.hazard_regression import PHReg

    frame, design = pooled(FOUND)
    names = ["age", "pressure", "ward_B", "ward_C", "smokes"]
    model = PHReg(frame.time, design[names], frame.died, strata=frame.owner, ties="breslow")
    wanted = model.fit(method="newton", maxiter=50, disp=0, gtol=1e-12, tol=1e-14)
    for family, ties in (("cox", "breslow"), (CoxLoss("breslow"), "efron")):
        table = fit(owned(FOUND, ["time", "died"]), family, ties=ties).summary().loc[names]
        np.testing.assert_allclose(table.coefficient, wanted.params, rtol=1e-7)
        np.testing.assert_allclose(table["standard error"], wanted.bse, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_one_baseline_hazard_on_a_grid():
    from lifelines import CoxPHFitter

    frame, design = pooled(FOUND)
    place = np.searchsorted(GRID, frame.time)
    rounded = design.drop(columns="intercept").assign(time=np.r_[GRID, 130.0][place], died=frame.died * (place < len(GRID)))
    wanted = CoxPHFitter().fit(rounded, "time", "died", fit_options={"precision": 1e-11, "step_size": 1.0})
    assert_equal(fit(owned(FOUND, ["time", "died"]), "cox", grid=GRID, secure=True), wanted)


def weighted(found, keep, strata, **settings):
    """lifelines' fit of the pooled rows with weights."""
    from lifelines import CoxPHFitter

    frame, design = pooled(found)
    kept = design.drop(columns="intercept").assign(time=frame.time, died=frame.died, weight=frame.weight)
    for name in keep:
        kept[name] = frame.owner
    options = {"fit_options": {"precision": 1e-11, "step_size": 1.0}, "weights_col": "weight", "strata": strata}
    return CoxPHFitter().fit(kept, "time", "died", **options | settings)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@pytest.mark.parametrize("strata", [True, False])
@pytest.mark.parametrize("kind", ["robust", "owners"])
def test_scores_of_rows_and_clusters_with_weights(strata, kind):
    """Without ties, of which lifelines' scores are approximate; the grid has all times."""
    rng = np.random.default_rng(1)
    found = [own.assign(time=own.time + rng.random(len(own))) for own in FOUND]
    agreed = owned(found, ["time", "died"], keep=("weight",), weights="weight")
    keep = ["owner"] * strata + ["cluster"] * (kind == "owners")
    settings = {"cluster_col": "cluster"} if kind == "owners" else {"robust": True}
    grid = None if strata else np.sort(pooled(found)[0].time.unique())
    fitted = fit(agreed, "cox", kind=kind, grid=grid, secure=True)
    assert_equal(fitted, weighted(found, keep, ["owner"] if strata else None, **settings))


@pytest.mark.filterwarnings("ignore")
def test_weights_multiply_terms_of_tied_events_by_their_mean():
    agreed = owned(FOUND, ["time", "died"], keep=("weight",), weights="weight")
    found = fit(agreed, "cox")
    assert_equal(found, weighted(FOUND, ["owner"], ["owner"]))
    assert "which multiply likelihoods: kind='model' suits counts of equal rows, kind='robust'" in str(found)


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_residuals_are_derivatives_by_weights(ties):
    rng = np.random.default_rng(0)
    X, time, event, weights = rng.normal(size=(40, 2)), rng.integers(1, 9, 40), rng.integers(0, 2, 40), rng.uniform(1, 2, 40)
    f = X @ [0.4, -0.3]

    def score(weights):
        return -partial(X, f, time, event, ties, weights)["gradient"]

    slopes = np.array([(score(weights + step) - score(weights - step)) / 2e-5 for step in 1e-5 * np.eye(40)])
    found = score_residuals(X, f, time, event, ties, weights)
    np.testing.assert_allclose(found, (weights[:, None] * slopes)[np.argsort(time, kind="stable")], atol=1e-8)


@pytest.mark.filterwarnings("ignore")
def test_times_on_a_grid_stay_where_they_are():
    """Standardising moves a time of half a day by a rounding error."""
    rng = np.random.default_rng(0)
    found = [
        pd.DataFrame({"age": rng.normal(size=n), "time": rng.integers(1, 30, n) * 0.1, "died": rng.integers(0, 2, n)})
        for n in (60, 90)
    ]
    grid, parts = np.arange(1, 30) * 0.1, [own.assign(time=np.rint(10 * own.time)) for own in found]
    by_tenths, by_days = (owned(own, ["time", "died"], categories=[], drop=[]) for own in (parts, found))
    wanted = fit(by_tenths, "cox", grid=range(1, 30))
    assert fit(by_days, "cox", grid=grid).loglikelihood == pytest.approx(wanted.loglikelihood, rel=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_offsets():
    agreed = owned(FOUND, ["time", "died"], keep=("exposure",))
    plain, moved = fit(agreed, "cox"), fit(agreed, "cox", offset="exposure")
    assert "exposure" in plain.names
    assert "exposure" not in moved.names


def by_definition(f, time, event, breslow):
    """Breslow's and Efron's partial likelihoods, event by event."""
    value = 0.0
    for t in np.unique(time[event > 0]):
        tied = (time == t) & (event > 0)
        for number in range(tied.sum()):
            value += np.log(np.exp(f[time >= t]).sum() - (0 if breslow else number / tied.sum()) * np.exp(f[tied]).sum())
        value -= f[tied].sum()
    return value


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_the_loss_is_the_definition_and_trains_by_any_solver(ties):
    rng, loss = np.random.default_rng(0), CoxLoss(ties)
    f, time, event = rng.normal(size=40), rng.integers(1, 9, 40).astype(float), rng.integers(0, 2, 40).astype(float)
    d = np.c_[time, event]
    assert loss.value(f[:, None], d).sum() == pytest.approx(by_definition(f, time, event, ties == "breslow"), rel=1e-12)
    slopes = [(loss.value((f + e)[:, None], d).sum() - loss.value((f - e)[:, None], d).sum()) / 2e-6 for e in 1e-6 * np.eye(40)]
    np.testing.assert_allclose(loss.gradient(f[:, None], d)[:, 0], slopes, atol=1e-7)


@pytest.mark.slow
def test_a_problem_takes_the_loss():
    rng, parts, tables = np.random.default_rng(0), [], []
    for size in (30, 50):
        X = rng.normal(size=(size, 2))
        time, died = np.ceil(10 * rng.exponential(np.exp(-X[:, 0]))), (rng.random(size) < 0.7).astype(float)
        parts.append((X, np.c_[time, died]))
        tables.append(pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "time": time, "died": died}))
    model = consensus.Linear(2, bias=False)
    problem = consensus.Problem(model, CoxLoss(), consensus.Shards.from_list(parts))
    result = consensus.solve(problem, topologies.path(2), consensus.solvers.GradientTracking(0.5), rounds=500)
    wanted = fit(owned(tables, ["time", "died"], categories=[], drop=[]), "cox")
    np.testing.assert_allclose(result.mean, wanted.coefficients, rtol=1e-6)


@pytest.mark.parametrize(("column", "values", "message"), [
    ("died", 0, "a Cox model needs events; the second column of the target is 0 in all rows of all owners"),
    ("died", 2, "owner 0: survival needs times of at least 0, and events that are 0 or 1"),
    ("time", -1.0, "owner 0: survival needs times of at least 0"),
])  # fmt: skip
def test_wrong_targets(column, values, message):
    found = [table[["age", "time", "died"]].assign(**{column: values}) for table in FOUND]
    with pytest.raises(ValueError, match=message):
        fit(owned(found, ["time", "died"], categories=[], drop=[]), "cox")


def test_refusals_of_cox():
    found = [table[["age", "time", "died"]] for table in FOUND]
    agreed = owned(found, ["time", "died"], categories=[], drop=[])
    with pytest.raises(ValueError, match="is 0 in all rows of all owners until the last time of the grid"):
        fit(agreed, "cox", grid=[0.5])
    arms = [table.assign(arm=np.arange(len(table)) % 2, died=table.died * (np.arange(len(table)) % 2)) for table in found]
    with pytest.raises(ValueError, match=r"those of 'arm' grow without bound.*merge the category with another$"):
        fit(owned(arms, ["time", "died"], categories=[], drop=[]), "cox")
    with pytest.raises(ValueError, match="grid must be finite numbers in increasing order"):
        fit(agreed, "cox", grid=[3.0, 2.0])
    with pytest.raises(ValueError, match=r"two columns, target=\['time', 'event'\]"):
        fit(owned(found, "time", categories=[], drop=[]), "cox")


def test_samples_of_several_agents_are_not_one_risk_set():
    outputs, targets = np.zeros((2, 3, 1)), np.array([[[5.0, 1.0], [8.0, 0.0], [9.0, 1.0]]] * 2)
    for method in (CoxLoss().value, CoxLoss().gradient, CoxLoss().error):
        with pytest.raises(ValueError, match=r"outputs must have shape \(samples, 1\), of one agent; got \(2, 3, 1\)"):
            method(outputs, targets)
        with pytest.raises(ValueError, match=r"targets must have shape \(3, 2\) for these outputs; got \(6, 1\)"):
            method(outputs[0], targets[0].reshape(6, 1))
