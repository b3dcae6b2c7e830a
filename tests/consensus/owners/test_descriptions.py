"""Descriptions of owners' columns against pandas, and the coverage of conformal sets."""

import contextlib
import io

import numpy as np
import pandas as pd
import pytest

import consensus
import topologies
from consensus.owners import conformal, describe, histogram, quantiles
from tests.helpers.owners_on_threads import OnThreads
from tests.helpers.ranks_on_threads import together
from tests.helpers.studies_of_owners import owned, tables

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
    whole = ["age", "smokes", "falls", "time", "died"]
    exact = pooled[whole].quantile([0.25, 0.5, 0.75], interpolation="inverted_cdf").T
    np.testing.assert_array_equal(found.loc[whole, ["25%", "50%", "75%"]], exact)
    np.testing.assert_allclose(found.loc["ward_C", "rows"], (pooled.ward == "C").sum())


def test_ranks_have_the_same_and_small_counts_are_not_released():
    small = [FOUND[0].assign(ward=["C"] + ["A"] * 11), FOUND[1]]
    wanted = describe(small, categories=["ward"])
    assert np.isnan(wanted.loc["ward_C", "rows"])
    assert np.isnan(wanted.loc["ward_C", "mean"])
    found = together(2, lambda ranks: describe(small[ranks.me], categories=["ward"], engine=OnThreads(ranks)))
    for own in found:
        pd.testing.assert_frame_equal(own, wanted)


def test_small_counts_are_not_those_that_are_left():
    """Of three categories and the missing cells one small count would be the total less the others."""
    ward = ["C"] * 3 + ["B"] * 20 + ["A"] * 77
    found = [pd.DataFrame({"ward": ward, "age": [np.nan] * 2 + [50.0, 60.0] * 49, "days": 1.0})]
    table = describe(found, categories=["ward"])
    assert table["rows"].isna().tolist() == [False, True, True, True, False]
    assert np.isnan(table.loc["age", "missing"])
    assert table.loc["age", "mean"] == 55
    assert table.loc["ward_A", "mean"] == 0.77


@pytest.mark.parametrize("secure", [False, True])
def test_a_histogram_has_the_counts_of_the_pooled_rows(secure):
    grid, cells = np.arange(20.0, 91.0, 5.0), pd.concat(FOUND).age
    table = histogram(FOUND, "age", grid, secure=secure, network=topologies.ring(4))
    wanted = pd.cut(cells, [-np.inf, *grid, np.inf]).value_counts(sort=False)
    every = table["rows"].repeat((table.upper - table.lower).clip(upper=1).astype(int))
    assert len(every) == len(table) <= len(wanted)
    np.testing.assert_array_equal(table["rows"].cumsum(), [(cells <= upper).sum() for upper in table.upper])
    assert ((table["rows"] >= 5) | (table["rows"] == 0)).all()
    found = quantiles(FOUND, "age", range(15, 96), shares=[0.1, 0.5, 0.9], secure=secure)
    exact = cells.quantile([0.1, 0.5, 0.9], interpolation="inverted_cdf")
    assert ((found.lower < exact) & (exact <= found.upper)).all()
    assert (found["quantile"] - exact).abs().max() <= 1


def test_small_bins_are_joined():
    cells = [0.5] * 2 + [1.5] * 4 + [3.5] * 9 + [5.5] * 3
    table = histogram([pd.DataFrame({"x": cells[::2]}), pd.DataFrame({"x": cells[1::2]})], "x", range(7))
    assert table.values.tolist() == [[-np.inf, 0, 0], [0, 2, 6], [2, 3, 0], [3, np.inf, 12]]
    few = [pd.DataFrame({"x": [1.0, 2.0]})]
    assert np.isnan(histogram(few, "x", [1.5])["rows"]).all()
    with pytest.raises(ValueError, match="quantiles need at least least=5 cells; 'x' has fewer"):
        quantiles(few, "x", [1.5])
    with pytest.raises(ValueError, match="column must be one of the columns of numbers, \\['x'\\]; got 'y'"):
        histogram(few, "y", [1.5])
    with pytest.raises(ValueError, match="shares must be a list of numbers between 0 and 1"):
        quantiles(few, "x", [1.5], shares=[25, 50])
    with pytest.raises(ValueError, match="grid must be finite numbers in increasing order"):
        histogram(few, "x", [2.0, 2.0])
    beyond = quantiles([pd.DataFrame({"x": cells})], "x", [1.0, 2.0])
    assert np.isnan(beyond.loc[0.25, "quantile"])
    assert beyond.loc[0.25, "upper"] == 2


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
