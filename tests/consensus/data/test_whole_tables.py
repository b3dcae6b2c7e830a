"""A table keeps its columns, classes, weights, groups and times, from the file to the predictor."""

import contextlib
import io
import pickle

import numpy as np
import pandas as pd
import pytest

import consensus
import topologies
from consensus.data import own
from consensus.datasets import Dataset, folds, load, split

RNG = np.random.default_rng(5)
N = 90
FRAME = pd.DataFrame({"size": RNG.uniform(30, 120, N), "town": RNG.choice(["Oslo", "Rome"], N), "age": RNG.uniform(0, 60, N)})
FRAME["price"] = 3 * FRAME["size"] - FRAME.age + 10 * (FRAME.town == "Rome")
FRAME["kind"] = np.where(FRAME.price > 200, "dear", "cheap")
FRAME["owner"] = np.array(["7", "10", "Bergen"])[np.arange(N) % 3]
FRAME["day"] = pd.date_range("2024-01-01", periods=N).astype(str)[RNG.permutation(N)]
FRAME["w"] = RNG.integers(0, 3, N).astype(float)
HOUSES = FRAME[["size", "town", "age", "price"]]


@pytest.fixture
def path(tmp_path):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def trained(parts, outputs=1, loss=None):
    shards = consensus.partition(parts.X, parts.y, agents=3)
    problem = consensus.Problem(
        consensus.Linear(parts.X.shape[1], outputs), loss or consensus.SquaredLoss(), shards, consensus.L2(1e-6)
    )
    return consensus.solve(problem, topologies.ring(3), rounds=80).predictor(parts.pipeline)


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "unpacked"])
def test_predictors_go_by_names(path, tmp_path, whole):
    data = load(path, target="price", categories=["town"], features=["size", "town", "age"])
    parts = split(data) if whole else split(*data)
    trained(parts).save(tmp_path / "p")
    predictor = consensus.load(tmp_path / "p")
    expected = HOUSES.price.to_numpy()
    for frame in (HOUSES, HOUSES[["age", "price", "town", "size"]], HOUSES.drop(columns="price"), FRAME):
        np.testing.assert_allclose(predictor.predict(frame), expected, rtol=1e-3)
    np.testing.assert_allclose(predictor.predict(path), expected, rtol=1e-3)
    assert predictor.score(path) > 0.999
    with pytest.raises(ValueError, match=r"columns 'size', 'town', 'age'; missing: 'size', 'town'; not known: 'm2'"):
        predictor.predict(pd.DataFrame({"m2": [1.0], "age": [2.0]}))
    with pytest.raises(ValueError, match=r"must be one of 'Oslo', 'Rome'; in row 0 .* it is 'Bonn'"):
        predictor.predict(HOUSES[:1].assign(town="Bonn"))
    HOUSES.to_csv(tmp_path / "semicolons.csv", sep=";", decimal=",", index=False)
    np.testing.assert_allclose(predictor.predict(tmp_path / "semicolons.csv", decimal=","), expected, rtol=1e-3)
    with pytest.raises(TypeError, match="data must be a data frame with the columns"):
        predictor.predict(np.ones((2, 3)))


def test_arrays_are_taken_in_order_with_a_warning(path):
    parts = split(load(path, target="price", features=["size", "age"]))
    predictor = trained(parts)
    with pytest.warns(UserWarning, match="data have no names of columns: taken as 'size', 'age', in this order"):
        found = predictor.predict(FRAME[["size", "age"]].to_numpy())
    np.testing.assert_allclose(found, predictor.predict(FRAME), rtol=1e-14)  # rows in another layout, whose sums BLAS rounds


def test_unseen_categories_may_be_zeros(path):
    data = load(path, target="price", categories=["town"], features=["size", "town"], unknown="zeros")
    np.testing.assert_array_equal(data.columns.transform(pd.DataFrame({"size": [1.0], "town": ["Bonn"]})), [[1, 0, 0]])


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "unpacked"])
def test_text_classes_come_out_as_text(path, whole):
    data = load(path, target="kind", features=["size", "age"])
    parts = split(data) if whole else split(*data)
    assert parts.classes == ("cheap", "dear")
    assert set(parts.y.tolist()) == {0, 1}
    predictor = trained(parts, 1, consensus.LogisticLoss())
    assert (predictor.predict(FRAME) == FRAME.kind).mean() > 0.9
    assert predictor.score(path) > 0.9
    shards = consensus.partition(data, agents=3) if whole else consensus.partition(*data, agents=3)
    assert shards.classes == ("cheap", "dear")
    with pytest.raises(
        ValueError, match=r"SquaredLoss fits numbers, .* codes of the classes 'cheap', 'dear': take LogisticLoss\(\)"
    ):
        consensus.Problem(consensus.Linear(2), consensus.SquaredLoss(), shards)
    with pytest.raises(ValueError, match="classification=False would take their codes for numbers"):
        split(*data, classification=False)


def test_arrays_know_what_they_are_and_what_is_made_of_them_does_not(path):
    X, y = load(path, target="kind", features=["size", "age"])
    for own_X, own_y in (
        (X, y),
        (X[5:], y[5:]),
        (X[y == 1], y[y == 1]),
        (X.copy(), y.copy()),
        pickle.loads(pickle.dumps((X, y))),
    ):
        assert own_X.about.names == ("size", "age")
        assert own_y.about.classes == ("cheap", "dear")
    plain = (X * 2, X[:, ::-1], X[0], X.T, X + X, X.mean(axis=0), np.log(X), y == 1, y * 2)
    assert all(getattr(made, "about", None) is None for made in plain)
    assert repr(y[:2]).startswith("array(")
    assert consensus.partition(X * 2, y, agents=3).columns is None
    assert consensus.partition(X[::-1], y[::-1], agents=3).columns.names == ("size", "age")


def test_a_test_set_is_coded_as_the_training_set(path):
    X, y = load(path, target="kind", features=["size", "age"])
    problem = consensus.Problem(
        consensus.Linear(2), consensus.LogisticLoss(), consensus.partition(X, y, agents=3), consensus.L2(1.0)
    )
    frame = FRAME[["age", "size"]]
    errors = [
        consensus.solve(problem, topologies.ring(3), rounds=2, test=test).history["test_error"]
        for test in ((X, y), (frame, FRAME.kind), (frame, np.asarray(y)))
    ]
    np.testing.assert_array_equal(errors, [errors[0]] * 3)


def test_several_targets_are_predicted_in_their_units(path, tmp_path):
    frame = HOUSES.assign(rent=HOUSES.price / 10 + HOUSES.age)
    parts = split(load(frame, target=["price", "rent"], categories=["town"]))
    predictor = trained(parts, 2)
    predictor.save(tmp_path / "p")
    np.testing.assert_allclose(consensus.load(tmp_path / "p").predict(frame), frame[["price", "rent"]], rtol=1e-2)
    assert predictor.score(frame) > 0.999
    with contextlib.redirect_stdout(io.StringIO()):
        owned = own([frame[:40], frame[40:]], ["price", "rent"], categories=["town"])
    np.testing.assert_allclose(owned.pipeline.original(owned.shards.targets[0, :40]), frame[["price", "rent"]][:40], rtol=1e-12)
    with pytest.raises(ValueError, match="target must be all numbers"):
        load(FRAME, target=["price", "kind"], features=["size"])


ABOUT = {"target": "price", "features": ["size", "age"]}


def test_weights_and_groups_stay_with_their_rows(path):
    data = load(path, **ABOUT, weights="w", groups="owner")
    with pytest.raises(ValueError, match="a data set with weights and groups loses them when it is unpacked: give it whole"):
        split(*data)
    shards = consensus.partition(data)
    reference = consensus.partition(FRAME[["size", "age"]], FRAME.price, groups=FRAME.owner, sample_weight=FRAME.w)
    for name in ("features", "targets", "weights", "indices"):
        np.testing.assert_array_equal(getattr(shards, name), getattr(reference, name))
    assert shards.total_weight == FRAME.w.sum()
    parts = split(data)
    sizes = np.rint(parts.X_scaler.inverse_transform(parts.X)[:, 0] * 1e6)
    rows = [int(np.argmin(abs(FRAME["size"] * 1e6 - size))) for size in sizes]
    np.testing.assert_array_equal(parts.weights, FRAME.w[rows])
    np.testing.assert_array_equal(parts.groups, FRAME.owner[rows])


def test_a_test_part_of_the_last_days_or_of_whole_groups(path):
    data = load(path, **ABOUT, time="day", groups="owner")
    last = np.sort(FRAME.day)[-18:]
    late = FRAME.day.isin(last).to_numpy()
    parts = split(data)
    np.testing.assert_allclose(parts.y_scaler.inverse_transform(parts.y_test[:, None])[:, 0], FRAME.price[late])
    again = split(FRAME[["size", "age"]], FRAME.price, time=pd.to_datetime(FRAME.day))
    np.testing.assert_array_equal(again.X_test, parts.X_test)
    apart = split(data, by="groups")
    assert not set(apart.groups) & set(apart.groups_test)
    assert len(apart.y) + len(apart.y_test) == N
    with pytest.raises(ValueError, match=r"by='groups' needs groups=, one for each row of X"):
        split(load(path, **ABOUT), by="groups")
    ties = split(np.eye(6), np.arange(6.0), time=[0, 0, 1, 1, 1, 1], test_size=0.3)
    assert len(ties.y_test) == 4


def test_owners_test_rows_are_their_last_or_whole_groups():
    tables = [FRAME[:40], FRAME[40:]]
    with contextlib.redirect_stdout(io.StringIO()):
        owned = own(tables, **ABOUT, drop=[], time="day", test_size=0.25)
        grouped = own(tables, **ABOUT, groups="owner", test_size=0.3)
        weighted = own(tables, **ABOUT, weights="w")
    for place, table in enumerate(tables):
        prices = owned.pipeline.original(owned.test.targets[place][owned.test.weights[place] > 0])
        count = round(0.25 * len(table))
        np.testing.assert_allclose(np.sort(prices), np.sort(table.sort_values("day").price[-count:]))
        sides = [set(FRAME.owner.iloc[part.indices[place][part.weights[place] > 0]]) for part in (grouped.shards, grouped.test)]
        assert not sides[0] & sides[1]
    assert weighted.shards.total_weight == FRAME.w.sum()
    assert weighted.shards.samples == (FRAME.w > 0).sum()
    with pytest.raises(ValueError, match="groups and time say which rows are for the test: give test_size"):
        own(tables, **ABOUT, time="day")


def test_one_category_however_it_is_written(tmp_path):
    pd.DataFrame({"ward": [1, 2, 1], "y": [1.0, 2, 3]}).to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame({"ward": [1, None, 2], "y": [1.0, 2, 3]}).dropna().to_csv(tmp_path / "b.csv", index=False)
    (tmp_path / "c.csv").write_text('ward,y\n"1",1\n2.50,2\n02,3\n')
    with contextlib.redirect_stdout(io.StringIO()):
        owned = own([tmp_path / f"{name}.csv" for name in "abc"], "y", categories=["ward"])
    assert owned.pipeline.columns.features == ("ward_02", "ward_1", "ward_2", "ward_2.5")
    assert load(pd.DataFrame({"a": [True, False], "y": [1.0, 2]}), target="y", categories=["a"]).columns.features == (
        "a_False",
        "a_True",
    )


def test_one_label_however_it_is_written():
    frames = [
        pd.DataFrame({"x": [1.0, 2, 3], "y": y}) for y in ([True, False, True], [1, 0, 1], ["0", "1", "1"], [0.0, 1.0, 0.0])
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        owned = own(frames, "y", classification=True)
        flags = own([frames[0], frames[0]], "y")
    assert owned.pipeline.classes == (0, 1)
    np.testing.assert_array_equal(owned.shards.targets[:, :, 0], [[1, 0, 1], [1, 0, 1], [0, 1, 1], [0, 1, 0]])
    assert flags.pipeline.classes == (False, True)
    for frame in frames:
        np.testing.assert_array_equal(owned.pipeline.targets(frame)[:, 0], frame.y.map(lambda one: int(float(one))))


def test_frames_with_the_interchange_are_frames():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"size": HOUSES["size"], "age": HOUSES.age})
    shards, reference = (consensus.partition(X, HOUSES.price, agents=3) for X in (table, HOUSES[["size", "age"]]))
    np.testing.assert_array_equal(shards.features, reference.features)
    assert shards.columns == reference.columns
    assert load(table, target="age").columns.names == ("size",)


MASKED = np.ma.masked_values([[1.0, 2.0], [3.0, 1e20], [5.0, 6.0], [7.0, 8.0]], 1e20)
ONES = np.ma.masked_equal([1.0, 2.0, -9.0, 3.0], -9.0)
PROBLEM = consensus.Problem(
    consensus.Linear(2), consensus.SquaredLoss(), consensus.partition(np.eye(4)[:, :2], np.arange(4.0), agents=2)
)
ENTRANCES = {
    "partition": lambda: consensus.partition(MASKED, np.arange(4.0), agents=1),
    "targets": lambda: consensus.partition(MASKED.filled(0), ONES, agents=1),
    "weights": lambda: consensus.partition(np.eye(4), np.arange(4.0), agents=1, sample_weight=ONES),
    "groups": lambda: consensus.partition(np.eye(4), np.arange(4.0), groups=ONES),
    "split": lambda: split(MASKED, np.arange(4.0)),
    "folds": lambda: next(folds(np.eye(4), ONES, 2)),
    "from_list": lambda: consensus.Shards.from_list([(MASKED, np.arange(4.0))]),
    "lazy": lambda: consensus.problems.LazyProblem(
        consensus.Linear(2), consensus.SquaredLoss(), consensus.data.LazyShards.from_list([(MASKED, ONES)])
    ),
    "test": lambda: consensus.solve(PROBLEM, topologies.path(2), rounds=1, test=(MASKED, np.arange(4.0))),
    "start": lambda: consensus.solve(PROBLEM, topologies.path(2), rounds=1, start=np.ma.masked_equal([1.0, 2, 3], 2)),
    "regressor": lambda: consensus.estimators.NetworkRegressor(agents=2, network="path").fit(MASKED, np.arange(4.0)),
    "prediction": lambda: (
        consensus.estimators.NetworkRegressor(agents=2, network="path", max_iter=1)
        .fit(np.eye(4)[:, :2], np.arange(4.0))
        .predict(MASKED)
    ),
}


@pytest.mark.parametrize("call", ENTRANCES.values(), ids=ENTRANCES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_masked_entries_are_refused_everywhere(call):
    with pytest.raises(ValueError, match=r" has 1 masked entries, at \[\d(, \d)?\]: pass "):
        call()


def test_a_masked_array_without_masked_entries_is_an_array():
    whole = np.ma.array(np.eye(4))
    np.testing.assert_array_equal(
        consensus.partition(whole, np.arange(4.0), agents=1, seed=0).features,
        consensus.partition(np.eye(4), np.arange(4.0), agents=1, seed=0).features,
    )


def test_a_data_set_by_hand():
    data = Dataset(np.eye(4), np.array([0, 1, 1, 0]), classes=("a", "b"))
    assert split(data, test_size=0.5).classes == ("a", "b")
    with pytest.raises(TypeError, match="y must be left out if a whole data set is given"):
        consensus.partition(data, 2)
    with pytest.raises(TypeError, match="y must be given, or a whole data set"):
        consensus.partition(np.eye(4), agents=2)


def test_weights_may_be_zero_and_times_have_zones(tmp_path):
    path = tmp_path / "t.csv"
    hours = ["2024-01-01T02:00+02:00", "2024-01-01T01:00+00:00", "2023-12-31T23:30-01:00", "2024-01-01T02:00+00:00"]
    path.write_text("a,w,at,b\n" + "".join(f"{k},{k},{hour},{k}\n" for k, hour in enumerate(hours)))
    data = load(path, target="b", weights="w", time="at")
    assert data.weights.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert np.argsort(data.time).tolist() == [0, 2, 1, 3]  # at 0:00, 0:30, 1:00 and 2:00 in UTC
    path.write_text("a,w,b\n1,-1,2\n2,1,3\n")
    with pytest.raises(ValueError, match="weights must be finite numbers >= 0; column 'w'"):
        load(path, target="b", weights="w")


def test_lists_of_masked_rows_are_refused_by_place():
    rows, targets = list(np.ma.masked_array([[1.0], [-999.0], [3.0]], mask=[[0], [1], [0]])), np.arange(3.0)
    with pytest.raises(
        ValueError, match=r"X must have no masked entries; item 1 has some\. .*numpy\.ma\.filled\(item, value\)"
    ):
        consensus.partition(rows, targets, agents=1)
    filled = consensus.partition([np.ma.filled(row, 2.0) for row in rows], targets, agents=1)
    assert sorted(filled.features.ravel().tolist()) == [1, 2, 3]


def test_what_is_given_instead_of_arrays_has_a_remedy(tmp_path):
    torch = pytest.importorskip("torch")
    pairs = torch.utils.data.TensorDataset(torch.randn(30, 4), torch.randn(30, 1))
    parts = torch.utils.data.random_split(pairs, [10, 20])
    FRAME.to_csv(path := tmp_path / "a.csv", index=False)
    for given, remedy in (
        (pairs, "give X, y = dataset.tensors"),
        (torch.utils.data.DataLoader(pairs), "give its dataset's arrays X and y, as .* consensus.Minibatches"),
        (parts[0], "consensus.data.LazyShards.from_list takes such data sets, one for each agent"),
        (path, "consensus.datasets.load\\('.*a.csv', target=...\\) returns one"),
    ):
        with pytest.raises(TypeError, match=rf"y must be given.*: {remedy}"):
            consensus.partition(given, agents=3)
    assert consensus.partition(*pairs.tensors, agents=3).sizes.tolist() == [10, 10, 10]
    assert consensus.data.LazyShards.from_list(parts).sizes.tolist() == [10, 20]
    data = load(str(path), target="price", features=["size"])
    assert consensus.partition(data, agents=3).sizes.sum() == N
