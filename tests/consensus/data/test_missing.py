"""Missing values, as by scikit-learn: columns named at once, rows left out, or means filled in; owners and predictions too."""

import contextlib
import io

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.preprocessing import StandardScaler

import consensus
import topologies
from consensus.data import own
from consensus.datasets import folds, load, split

RNG = np.random.default_rng(8)
N = 120
FRAME = pd.DataFrame({"age": RNG.normal(50, 10, N), "ward": RNG.choice([*"ABC"], N), "size": RNG.normal(1.7, 0.1, N)})
FRAME["days"] = 0.1 * FRAME.age + (FRAME.ward == "A") + FRAME["size"]
HOLES = FRAME.copy()
HOLES.loc[RNG.random(N) < 0.2, "age"] = np.nan
HOLES.loc[RNG.random(N) < 0.1, "ward"] = None
SETTINGS = {"target": "days", "categories": ["ward"]}


def quiet(*arguments, **settings):
    with contextlib.redirect_stdout(io.StringIO()):
        return own(*arguments, **settings)


def numbers(frame):
    """Features by hand: categories as zeros and ones, all NaN where the cell is missing."""
    one_hot = [np.where(frame.ward.isna(), np.nan, frame.ward == town) for town in "ABC"]
    return np.column_stack([frame.age, *one_hot, frame["size"]]).astype(float)


def test_by_default_all_columns_are_named_at_once():
    for call in (lambda: load(HOLES, **SETTINGS), lambda: own(HOLES, **SETTINGS)):
        counts = rf"'age' \({HOLES.age.isna().sum()}\), 'ward' \({HOLES.ward.isna().sum()}\) of {N} rows"
        with pytest.raises(ValueError, match=rf"has missing values in {counts}: .*missing='drop'"):
            call()
    bad = HOLES.assign(days=FRAME.days.where(FRAME.index > 2))
    with pytest.raises(
        ValueError, match=r"has missing values in 'days' \(3\) of 120 rows: .*missing='drop' leaves these rows out$"
    ):
        load(bad, **SETTINGS, missing="mean")
    assert len(load(bad, **SETTINGS, missing="drop").y) == len(bad.dropna())


def test_rows_are_dropped_as_by_pandas(caplog):
    with caplog.at_level("INFO", "consensus"):
        data = load(HOLES, **SETTINGS, missing="drop")
    assert "leaves out" in caplog.text
    np.testing.assert_array_equal(data.X, numbers(HOLES.dropna()))
    np.testing.assert_array_equal(data.y, HOLES.dropna().days)


@pytest.mark.parametrize("indicator", [False, True])
def test_means_are_those_of_the_training_part_as_by_scikit_learn(indicator):
    data = load(HOLES, **SETTINGS, missing="indicator" if indicator else "mean")
    parts = split(data)
    rows, X = np.arange(N), numbers(HOLES)
    train, test = (
        np.array([np.argmin(abs(FRAME.days - y)) for y in parts.y_scaler.inverse_transform(t[:, None])[:, 0]])
        for t in (parts.y, parts.y_test)
    )
    assert sorted([*train, *test]) == rows.tolist()
    imputer = SimpleImputer().fit(X[train])
    full = imputer.transform(X)
    if indicator:
        marks = MissingIndicator().fit_transform(X)[:, :2].astype(float)  # of the age, and the first category
        full = np.column_stack([full[:, 0], marks[:, 0], full[:, 1:4], marks[:, 1], full[:, 4]])
        assert parts.columns.features == ("age", "age_missing", "ward_A", "ward_B", "ward_C", "ward_missing", "size")
    scaler = StandardScaler().fit(full[train])
    np.testing.assert_allclose(parts.X, scaler.transform(full[train]), atol=1e-12)
    np.testing.assert_allclose(parts.X_test, scaler.transform(full[test]), atol=1e-12)
    np.testing.assert_allclose(parts.pipeline.transform(HOLES), scaler.transform(full), atol=1e-12)
    fold = next(folds(data, k=4))
    assert np.isfinite(fold.X).all()
    assert fold.columns.fill != parts.columns.fill


def test_a_partition_fills_in_the_means_of_all():
    shards = consensus.partition(load(HOLES, **SETTINGS, missing="mean"), agents=3)
    real = shards.weights > 0
    expected = SimpleImputer().fit_transform(numbers(HOLES))
    np.testing.assert_allclose(shards.features[real], expected[shards.indices[real]], rtol=1e-13)
    np.testing.assert_allclose(shards.columns.transform(HOLES), expected, rtol=1e-13)


@pytest.mark.parametrize("missing", ["mean", "indicator", "drop"])
def test_owners_fill_in_the_means_of_all_owners(missing, tmp_path):
    owners = [HOLES[:30], HOLES[30:35].assign(age=50.0, ward="A"), HOLES[35:]]
    owned = quiet(owners, **SETTINGS, missing=missing)
    whole = (
        consensus.partition(
            load(pd.concat(owners), **SETTINGS, missing=missing), agents=1, scheme="sizes", sizes=[sum(map(len, owners))]
        )
        if missing != "drop"
        else None
    )
    kept = pd.concat(owners) if missing != "drop" else pd.concat(owners).dropna()
    X = numbers(kept)
    full = SimpleImputer().fit_transform(X)
    if missing == "indicator":
        marks = np.isnan(X).astype(float)
        full = np.column_stack([full[:, 0], marks[:, 0], full[:, 1:4], marks[:, 1], full[:, 4]])
        assert whole.columns.features == owned.pipeline.columns.features
    scaled = StandardScaler().fit_transform(full)
    real = owned.shards.weights > 0
    np.testing.assert_allclose(owned.shards.features[real], scaled, atol=1e-12)
    counted = owned.revealed.exchange.tolist()
    assert ("counts of features" in counted) == (missing != "drop")
    for place, table in enumerate(owners):
        table.to_csv(tmp_path / f"{place}.csv", index=False)
    files = quiet([tmp_path / f"{place}.csv" for place in range(3)], **SETTINGS, missing=missing)
    np.testing.assert_array_equal(files.shards.features, owned.shards.features)
    if missing != "drop":
        np.testing.assert_array_equal(owned.pipeline.transform(kept), owned.shards.features[real])


def test_predictors_fill_in_means_and_say_what_is_missing_if_none_was(tmp_path):
    parts = split(load(HOLES, **SETTINGS, missing="mean"))
    problem = consensus.Problem(
        consensus.Linear(5), consensus.SquaredLoss(), consensus.partition(parts.X, parts.y, agents=3), consensus.L2(1e-3)
    )
    result = consensus.solve(problem, topologies.ring(3), rounds=40)
    result.predictor(parts.pipeline).save(tmp_path / "p")
    predictor = consensus.load(tmp_path / "p")
    HOLES.to_csv(tmp_path / "new.csv", index=False)
    one = pd.DataFrame({"age": [np.nan], "ward": ["A"], "size": [1.7]})
    by_hand = one.fillna({"age": float(parts.columns.fill[0])})
    np.testing.assert_allclose(predictor.predict(one), predictor.predict(by_hand), rtol=1e-12)
    np.testing.assert_allclose(predictor.predict(tmp_path / "new.csv"), predictor.predict(HOLES), rtol=1e-12)
    assert predictor.score(tmp_path / "new.csv") > 0.6
    strict = split(load(FRAME, **SETTINGS)).pipeline
    with pytest.raises(ValueError, match=r"data has missing values in 'age' \(1\) of 1 rows"):
        strict.transform(one)


def test_cells_that_are_missing_by_another_name(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n-999,-,1\n3,x,2\n5,x,3\n#N/A,y,4\n")
    data = load(tmp_path / "t.csv", target="y", categories=["b"], na_values=[-999, "-"], missing="mean")
    np.testing.assert_array_equal(data.X, [[np.nan, np.nan, np.nan], [3, 1, 0], [5, 1, 0], [np.nan, 0, 1]])


def test_a_column_without_values_is_refused():
    with pytest.raises(ValueError, match=r"no values at all in the column 'age': drop=\['age'\]"):
        load(FRAME.assign(age=np.nan), **SETTINGS, missing="mean")
    late = FRAME.assign(age=FRAME.age.where(FRAME.index > N - 2), t=range(N))
    with pytest.raises(ValueError, match=r"feature 'age' has no value in the training part"):
        split(load(late, **SETTINGS, time="t", missing="mean"))


@pytest.mark.parametrize(("cells", "number"), [
    ([1.0, -999.0, 3.0], -999),
    ([1, 2, 3, -9], -9),
    ([2.5, -200.0, -200.0, 7.0, np.nan], -200),
    ([1.0, -200.0, 3.0], None),  # an outlier, perhaps
    ([-99.0, -98.0, 3.0, 4.0], None),
    ([-99.5, 3.0, 4.0], None),
    ([-1, 1, -1, 1], None),
    ([-10, 0, 30, -10, 0, 30], None),
    ([-99.0, -99.0, -99.0, 1.0], None),
    ([1.0, 2.0], None),
])  # fmt: skip
def test_numbers_that_seem_to_stand_for_missing_ones_are_named_with_what_makes_them_missing(tmp_path, recwarn, cells, number):
    frame = pd.DataFrame({"size": cells, "y": np.arange(len(cells)) + 0.5}).dropna()
    frame.to_csv(path := tmp_path / "a.csv", index=False)
    for given in (frame, path):
        kept = load(given, target="y")
        said = [str(warning.message) for warning in recwarn.list if "may stand for missing ones" in str(warning.message)]
        assert len(said) == (number is not None)
        np.testing.assert_array_equal(kept.X[:, 0], frame["size"])
        recwarn.clear()
        if number is None:
            continue
        assert f"takes them as they are: {number} in 'size'; " in said[0]
        remedy = said[0].partition("; ")[2].removesuffix(" makes them missing")
        if given is frame:
            data = load(eval(remedy, {"frame": frame, "numpy": np}), target="y", missing="drop")
        else:
            data = eval(f"load(path, target='y', missing='drop', {remedy})", {"load": load, "path": path})
        assert data.X[:, 0].tolist() == [cell for cell in frame["size"] if cell != number]


def test_the_remedy_leaves_the_same_number_of_other_columns(tmp_path, recwarn):
    frame = pd.DataFrame({"size": [1.0, -99.0, 3.0], "depth": [-99.0, -98.0, 2.0], "y": [1.0, 2.0, 3.0]})
    frame.to_csv(path := tmp_path / "a.csv", index=False)
    for given, what in ((frame, ""), (path, " of what pandas.read_csv returns")):
        load(given, target="y")
        remedy = str(recwarn.pop(UserWarning).message).partition("; ")[2]
        assert remedy == f"frame.replace({{'size': -99}}, numpy.nan){what} makes them missing"
    kept = load(eval(remedy.partition(" of what")[0], {"frame": frame, "numpy": np}), target="y", missing="drop")
    assert kept.X.tolist() == [[1.0, -99.0], [3.0, 2.0]]


def test_a_target_with_a_number_for_missing_ones_is_named(recwarn):
    load(pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [5.0, -9999.0, 6.0]}), target="y")
    assert "-9999 in 'y'" in str(recwarn.list[0].message)


@pytest.mark.parametrize("name", ["y", "groups", "sample_weight"])
def test_columns_in_another_order_of_the_index_are_joined_by_place_with_a_warning(recwarn, name):
    X = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}, index=[3, 5, 7, 9])
    given = {"y": pd.Series([1.0, 2.0, 3.0, 4.0], X.index), "groups": pd.Series([*"aabb"], X.index)}
    given["sample_weight"] = given["y"]
    consensus.partition(X, **given)
    consensus.partition(X, **given | {name: given[name].reset_index(drop=True)})
    assert not recwarn.list
    shuffled = given | {name: given[name][::-1]}
    found = consensus.partition(X, **shuffled)
    assert f"{name} has the index of X in another order" in str(recwarn.list[0].message)
    for remedy in (f"{name}.loc[X.index]", f"{name}.to_numpy()"):
        assert remedy in str(recwarn.list[0].message)
        recwarn.clear()
        other = consensus.partition(X, **given | {name: eval(remedy, {"X": X, name: shuffled[name]})})
        same = [np.array_equal(getattr(other, part), getattr(found, part)) for part in ("targets", "indices", "weights")]
        assert all(same) is ("numpy" in remedy)
        assert not recwarn.list
        consensus.partition(X, **shuffled)


def test_targets_of_a_test_set_and_of_parts_in_another_order_of_the_index_are_named(recwarn):
    X = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}, index=[3, 5, 7, 9])
    y = pd.Series([1.0, 2.0, 3.0, 4.0], X.index)
    problem = consensus.Problem(consensus.Linear(1), consensus.SquaredLoss(), consensus.partition(X, y, agents=2))
    problem.test_set((X, y))
    consensus.Shards.from_list([(X, y), (X, y.to_numpy())])
    assert not recwarn.list
    for call, what in (
        (lambda: problem.test_set((X, y[::-1])), "y of test"),
        (lambda: consensus.Shards.from_list([(X, y), (X, y[::-1])]), "y of parts[1]"),
    ):
        call()
        assert str(recwarn.pop(UserWarning).message).startswith(f"{what} has the index of X in another order, and its rows are")


@pytest.mark.parametrize(("text", "look", "X"), [
    ("size,price\n01234,2\n98765,4\n", "'01234' looks like a code: categories=['size']", [[1, 0], [0, 1]]),
    ("q,size,price\n1,007,2\n3,123,4\n", "'007' looks like a code: categories=['size']", [[1, 1, 0], [3, 0, 1]]),
    ("size;price\n1.234;2\n3.000;4\n500;3\n", "'1.234' looks like a number with a point before", [[1234], [3000], [500]]),
])  # fmt: skip
def test_numbers_that_look_like_codes_or_have_points_before_thousands_are_named(tmp_path, recwarn, text, look, X):
    (tmp_path / "a.csv").write_text(text)
    load(tmp_path / "a.csv", target="price")
    message = str(recwarn.pop(UserWarning).message)
    assert look in message
    assert not recwarn.list
    remedy = message.partition(": ")[2].partition(" keeps")[0]
    assert eval(f"load(path, target='price', {remedy})", {"load": load, "path": tmp_path / "a.csv"}).X.tolist() == X
    if "drop=" in message and "q" in text:
        assert load(tmp_path / "a.csv", target="price", drop=["size"]).X.tolist() == [[1], [3]]
    assert not recwarn.list


@pytest.mark.parametrize(
    "text", ["m,y\n01,2\n12,4\n", "x,y\n1.234,2\n3.000,4\n", "x;y\n0.076;2\n1.000;4\n", "x;y\n1.234;2\n3.5;4\n"]
)
def test_other_numbers_are_not(tmp_path, recwarn, text):
    (tmp_path / "a.csv").write_text(text)
    load(tmp_path / "a.csv", target="y")
    assert not recwarn.list


def test_a_comment_over_two_columns_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("# made by hand\nsize,price\n1,2\n3,4\n")
    with pytest.raises(
        ValueError, match=r"its first line has 1 cells, '# made by hand', and others 2: comment='#' leaves it out"
    ):
        load(tmp_path / "a.csv", target="price")
    assert load(tmp_path / "a.csv", target="price", comment="#").X.tolist() == [[1.0], [3.0]]


def test_a_name_that_begins_with_a_sign_of_comments_is_one_of_rows_with_names(tmp_path):
    (tmp_path / "a.txt").write_text('"%growth" "price"\n"1" 1 2\n"2" 3 4\n')  # as R writes it
    assert load(tmp_path / "a.txt", target="price").X.tolist() == [[1.0], [3.0]]
