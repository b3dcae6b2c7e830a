"""Curves of owners' rows equal those of lifelines to the pooled rows."""

import json

import numpy as np
import pandas as pd
import pytest

import consensus
import topologies
from consensus.owners import Curves, fit, kaplan_meier
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


def test_refusals():
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
