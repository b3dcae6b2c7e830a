"""Descriptions of owners' columns against pandas, and the coverage of conformal sets."""

import contextlib
import io

import numpy as np
import pandas as pd
import pytest
from owners_on_threads import OnThreads
from ranks_on_threads import together
from studies_of_owners import owned, tables

import consensus
import topologies
from consensus.owners import conformal, describe

FOUND = [table.drop(columns=["ill"]) for table in tables((12, 300, 700, 200))]


@pytest.mark.parametrize("secure", [pytest.param(False, marks=pytest.mark.slow), True])
def test_columns_are_described_as_pandas_describes_the_pooled_rows(secure):
    pooled = pd.concat(FOUND)
    found, wanted = describe(FOUND, categories=["ward"], secure=secure), pooled.describe().T
    numbers = list(wanted.index)
    np.testing.assert_allclose(found.loc[numbers, "rows"], wanted["count"])
    np.testing.assert_allclose(found.loc[numbers, "missing"], pooled[numbers].isna().mean())
    np.testing.assert_allclose(found.loc[numbers, "mean"], wanted["mean"], rtol=1e-9)
    np.testing.assert_allclose(found.loc[numbers, "deviation"], wanted["std"], rtol=1e-9)
    close = [
        name for name in numbers if pooled[name].nunique() > 50 and name != "cost"
    ]  # those of counts lie between two of them
    for share in ("25%", "50%", "75%"):
        np.testing.assert_allclose(
            found.loc[close, share], wanted.loc[close, share], atol=0.05 * wanted.loc[close, "std"].max()
        )
    np.testing.assert_allclose(found.loc["ward_C", "rows"], (pooled.ward == "C").sum())


def test_ranks_have_the_same_and_small_counts_are_not_released():
    small = [FOUND[0].assign(ward=["C"] + ["A"] * 11), FOUND[1]]
    wanted = describe(small, categories=["ward"])
    assert np.isnan(wanted.loc["ward_C", "rows"])
    assert np.isnan(wanted.loc["ward_C", "mean"])
    found = together(2, lambda ranks: describe(small[ranks.me], categories=["ward"], engine=OnThreads(ranks)))
    for own in found:
        pd.testing.assert_frame_equal(own, wanted)


def test_refusals():
    with pytest.raises(ValueError, match="'age' is numbers at owner 0, missing at owner 1"):
        describe([pd.DataFrame({"age": [1.0]}), pd.DataFrame({"years": [1.0]})])
    with pytest.raises(ValueError, match="'age' is numbers at owner 0, text at owner 1"):
        describe([pd.DataFrame({"age": [1.0]}), pd.DataFrame({"age": ["old"]})])
    with pytest.raises(ValueError, match="categories must be columns of data"):
        describe([pd.DataFrame({"age": [1.0]})], categories=["ward"])
    for wrong in ("ward", None, [3]):
        with pytest.raises(TypeError, match="categories must be a list of names of columns"):
            describe(FOUND, categories=wrong)
    with pytest.raises(FileNotFoundError):
        describe(["absent.csv"])


@pytest.mark.parametrize("target", ["days", "ill"])
@pytest.mark.parametrize("secure", [pytest.param(False, marks=pytest.mark.slow), True])
def test_conformal_sets_cover(target, secure):
    found = [own[["age", "smokes", target]] for own in tables((60, 300, 1000, 700))]
    with contextlib.redirect_stdout(io.StringIO()):
        agreed = consensus.data.own(found, target, test_size=0.5)
    loss = consensus.SquaredLoss() if target == "days" else consensus.LogisticLoss()
    problem = consensus.Problem(consensus.Linear(2), loss, agreed.shards)
    result = consensus.solve(problem, topologies.ring(4), consensus.solvers.GradientTracking(0.3), rounds=40)
    sets = conformal(result.predictor(agreed.pipeline), agreed, 0.9, secure=secure)
    new = pd.concat(own[["age", "smokes", target]] for own in tables((60, 300, 1000, 700), seed=1))
    said = sets.predict(new.drop(columns=target))
    if target == "days":
        covered = (said[:, 0] <= new.days) & (new.days <= said[:, 1])
    else:
        covered = said[np.arange(len(new)), (new.ill == "yes").astype(int)]
    assert 0.87 < covered.mean() < 0.93
    assert sets.rows == 1030


def test_the_quantile_is_that_of_the_pooled_scores():
    found = [own[["age", "days"]] for own in tables((60, 300))]
    with contextlib.redirect_stdout(io.StringIO()):
        agreed = consensus.data.own(found, "days", test_size=0.5)
    predictor = consensus.Predictor(consensus.Linear(1), np.array([0.3, 0.1]), agreed.pipeline)
    test, spread = agreed.test, agreed.pipeline.spread
    scores = np.sort(np.abs(0.3 * test.features[..., 0] + 0.1 - test.targets[..., 0])[test.weights > 0] * spread)
    wanted = scores[int(np.ceil(181 * 0.8)) - 1]
    got = conformal(predictor, agreed, 0.8).quantile
    assert wanted <= got < wanted + 1e-4 * scores.mean()
    with pytest.raises(ValueError, match=r"level must be at most 0.9945 with the 180 test rows"):
        conformal(predictor, agreed, 0.999)
    with pytest.raises(ValueError, match="owned must have test rows"):
        conformal(predictor, owned(found, "days", categories=[], drop=[]))
