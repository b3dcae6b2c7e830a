"""Data frames: names are kept, booleans are numbers, categories become features, and other frames become the same numbers."""

import dataclasses
import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.preprocessing import OneHotEncoder

import consensus
import topologies
from consensus import partition
from consensus.data import Columns, LazyShards, load_shards, own, save_shards
from consensus.datasets import folds, split
from consensus.tables.frames import Labelled, Target, alike, labels

RNG = np.random.default_rng(0)
TOWNS = pd.Categorical(RNG.choice(["Rome", "Oslo", "Bonn"], 30), categories=["Rome", "Oslo", "Bonn", "Lima"])
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(20, 80, 30),
        "town": TOWNS,
        "smokes": RNG.random(30) < 0.4,
        "band": pd.cut(RNG.random(30), [0, 0.3, 1]),
        "weight": RNG.normal(70, 9, 30).astype(np.float32),
    },
    index=range(100, 130),
)
PLAIN = FRAME[["age", "smokes", "weight"]]
NAMES = ("age", "town_Rome", "town_Oslo", "town_Bonn", "town_Lima", "smokes", "band_(0.0, 0.3]", "band_(0.3, 1.0]", "weight")
KIND = pd.Series(pd.Categorical(RNG.choice(["calm", "busy"], 30), categories=["calm", "busy"]), index=FRAME.index)
Y = RNG.standard_normal(30)


def expected(frame):
    """The numbers by scikit-learn's encoder."""
    categories = {
        name: OneHotEncoder(categories=[frame[name].cat.categories], sparse_output=False) for name in ("town", "band")
    }
    town, band = (encoder.fit_transform(frame[[name]]) for name, encoder in categories.items())
    return np.column_stack([frame.age, town, frame.smokes.astype(float), band, frame.weight])


def test_a_frame_becomes_numbers_with_names():
    shards = partition(FRAME, KIND, 4, "sorted")
    assert (shards.columns.features, shards.classes) == (NAMES, ("calm", "busy"))
    real = shards.weights > 0
    np.testing.assert_array_equal(shards.features[real], expected(FRAME)[shards.indices[real]])
    np.testing.assert_array_equal(shards.targets[real][:, 0], KIND.cat.codes.to_numpy()[shards.indices[real]])
    turned = FRAME[["weight", "band", "smokes", "town", "age"]].astype({"town": object})
    np.testing.assert_array_equal(shards.columns.transform(turned), expected(FRAME))


def test_a_frame_of_numbers_and_booleans_is_its_array():
    shards, reference = partition(PLAIN, Y, 4), partition(PLAIN.to_numpy(float), Y, 4)
    np.testing.assert_array_equal(shards.features, reference.features)
    assert (shards.columns, reference.columns) == (Columns(("age", "smokes", "weight"), {}), None)
    assert partition(PLAIN[["weight"]], Y, 4).features.dtype == np.float32
    assert partition(FRAME[["town"]], Y, 4).features.shape[2] == 4


def test_files_and_blocks_keep_names_and_classes(tmp_path):
    shards = partition(FRAME, KIND, 4)
    save_shards(shards, tmp_path)
    found = load_shards(tmp_path, [1, 3])
    assert (found.columns, found.classes) == (shards.columns, shards.classes)
    assert shards.restrict([2]).columns is shards.columns
    index = json.loads((tmp_path / "index.json").read_text())
    one = {"names": ["a"], "categories": {"a": 3}}
    for wrong in ({"columns": 3}, {"columns": one}, {"columns": {"names": [1]}}, {"classes": 2}):
        (tmp_path / "index.json").write_text(json.dumps(index | wrong))
        with pytest.raises(ValueError, match=r"(columns|classes) in .*index\.json must be"):
            load_shards(tmp_path)


def test_shards_from_a_list_of_frames():
    parts = [(FRAME[:12], KIND[:12]), (FRAME[12:].iloc[:, ::-1], KIND[12:].astype(str))]
    shards, reference = consensus.Shards.from_list(parts), partition(FRAME, KIND, groups=[0] * 12 + [1] * 18)
    np.testing.assert_array_equal(shards.features, reference.features)
    np.testing.assert_array_equal(shards.targets, reference.targets)
    assert (shards.columns, shards.classes) == (reference.columns, reference.classes)


def test_the_test_set_may_be_a_frame():
    scaled = FRAME.assign(age=FRAME.age / 50, weight=FRAME.weight / 70)
    shards, test, kind = partition(scaled, KIND, 3), scaled[::-1], KIND[::-1]
    problem = consensus.Problem(consensus.Linear(9), consensus.LogisticLoss(), shards, consensus.L2(0.1))
    given = [(test, kind), (test, kind.to_numpy(str)), (shards.columns.transform(test), kind.cat.codes.to_numpy())]
    runs = [consensus.solve(problem, topologies.ring(3), rounds=2, test=pair).history["test_error"] for pair in given]
    np.testing.assert_array_equal(runs, [runs[2]] * 3)


def test_a_split_has_the_columns_and_scalers_that_made_it():
    X, _, X_test, y_test = parts = split(FRAME, Y, seed=1)
    assert parts.columns.features == NAMES
    back = parts.y_scaler.inverse_transform(y_test[:, None])
    rows = np.argmin(np.abs(back - Y), axis=1)
    np.testing.assert_allclose(Y[rows], back[:, 0], rtol=1e-12)
    np.testing.assert_array_equal(parts.X_scaler.transform(parts.columns.transform(FRAME.iloc[rows])), X_test)
    assert (len(parts), parts[0] is X, parts[3] is y_test) == (4, True, True)
    several = split(FRAME, np.column_stack([Y, Y**2]))
    assert several.y_scaler.inverse_transform(several.y).shape == (24, 2)
    fold = next(folds(FRAME, KIND, 3, classification=True))
    assert (fold.y_scaler, fold.classes, set(fold.y)) == (None, ("calm", "busy"), {0, 1})


OWNERS = np.array(["Rome", "Oslo", "Bonn"])[np.arange(30) % 3]
MARKED = np.column_stack([np.arange(30.0), Y])


@pytest.mark.parametrize("cut", [split, lambda *data, **options: next(folds(*data, k=4, **options))])
def test_groups_go_with_their_samples(cut):
    parts = cut(MARKED, Y, groups=pd.Series(OWNERS))
    for X, groups in ((parts.X, parts.groups), (parts.X_test, parts.groups_test)):
        rows = np.rint(parts.X_scaler.inverse_transform(X)[:, 0]).astype(int)
        np.testing.assert_array_equal(groups, OWNERS[rows])
    np.testing.assert_array_equal(parts.X, cut(MARKED, Y).X)
    assert cut(MARKED, Y).groups is cut(MARKED, Y).groups_test is None
    assert partition(parts.X, parts.y, groups=parts.groups).agents == 3
    with pytest.raises(ValueError, match=r"groups must have shape \(30,\)"):
        cut(MARKED, Y, groups=OWNERS[:4])
    with pytest.raises(ValueError, match=r"every group must have .* the training part; 'Lima' has none: take another seed"):
        cut(MARKED, Y, groups=np.where(np.isin(np.arange(30), rows), "Lima", OWNERS))


COLUMNS, HALF = Columns.of(FRAME), [*TOWNS[:7], None, *TOWNS[8:]]
TWICE, EQUAL = pd.concat([FRAME, FRAME[["age"]]], axis=1), pd.DataFrame({"a": pd.Categorical([*range(29), "1"])})


@pytest.mark.parametrize(("frame", "words"), [
    (FRAME.drop(columns="age"), r"frame must have the columns 'age', .*; missing: 'age'; not known: none$"),
    (FRAME.assign(more=1), r"missing: none; not known: 'more'$"),
    (FRAME.assign(town="Kyiv"), r"column 'town' of frame must be one of 'Rome', .*; in row 0 .* it is 'Kyiv'"),
    (FRAME.assign(town=HALF), r"frame has missing values in 'town' \(1\) of 30 rows"),
    (FRAME.assign(age="old"), r"these columns of frame are not: 'age' \('old' in row 0"),
    (FRAME.assign(age=pd.Timestamp(0)), r"'age' .*: dates, for which frame\['age'\] = frame\['age'\].dt.dayofyear"),
])  # fmt: skip
def test_frames_with_other_columns_are_rejected(frame, words):
    with pytest.raises(ValueError, match=words):
        COLUMNS.transform(frame)
    with pytest.raises(TypeError, match=r"frame must be a data frame with the columns 'age', .*; got"):
        COLUMNS.transform(FRAME.to_numpy())


@pytest.mark.parametrize(("frame", "y", "words"), [
    (TWICE, Y, r"columns of X must have names of their own; got more than one of 'age'"),
    (FRAME.astype({"town": str}), Y,
     r"these columns of X are not: 'town' \('.*' in row 0: frame.astype\({'town': 'category'}\)"),
    (EQUAL, Y, r"categories of column 'a' must differ as text; got 0, 1"),
    (FRAME, KIND.where(np.arange(30) != 2), r"y has 1 missing of 30 values, the first in row 2"),
])  # fmt: skip
def test_frames_that_are_no_data_are_rejected(frame, y, words):
    with pytest.raises(ValueError, match=words):
        partition(frame, y, 3)
    assert split(FRAME, KIND).classes == ("calm", "busy")
    with pytest.raises(ValueError, match=r"y has the classes \('calm', 'busy'\): classification=False would take their codes"):
        split(FRAME, KIND, classification=False)


FLAGS = pd.DataFrame({"a": RNG.standard_normal(30), "flag": RNG.random(30) < 0.5, "b": RNG.standard_normal(30)})


def test_codes_of_other_classes_become_those_of_training():
    own = Labelled.of(np.array([0, 1, 1]), Target(("grade",), ("a", "c")))
    found, classes = labels("y", own, ("a", "b", "c"))
    assert (found.tolist(), classes) == ([0, 2, 2], ("a", "b", "c"))
    assert labels("y", own)[1] == ("a", "c")
    assert labels("y", own, ("a", "c"))[0].tolist() == [0, 1, 1]
    with pytest.raises(ValueError, match="y must be one of 'a', 'b'; in row 1 "):
        labels("y", own, ("a", "b"))


def test_features_of_as_many_columns_with_other_names_are_rejected():
    frames = [pd.DataFrame({name: [1.0, 2.0], "age": [3.0, 4.0]}) for name in ("days", "cost")]
    days, cost = (Columns.of(frame) for frame in frames)
    X = Labelled.of(days.transform(frames[0]), days)
    np.testing.assert_array_equal(alike("X", X, days), X)
    with pytest.raises(ValueError, match="X must have the features 'cost', 'age'; got 'days', 'age'"):
        alike("X", X, cost)


def test_frames_with_booleans_are_numbers_everywhere():
    plain = np.column_stack([FLAGS.a, FLAGS.flag, FLAGS.b])
    labels = pd.Series([bool(flag) for flag in FLAGS.flag], dtype=object)
    one, other = partition(FLAGS, labels, 3), partition(plain, FLAGS.flag, 3)
    for name in ("features", "targets", "weights", "indices"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for cut in (split, lambda X, y: next(folds(X, y, 3))):
        for ours, theirs in zip(cut(FLAGS, Y), cut(plain, Y), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def solve(test):
    problem = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), partition(np.eye(30, 3), Y, 4))
    return consensus.solve(problem, topologies.ring(4), rounds=1, test=test)


ENTRANCES = {
    "partition": ("X", lambda table: partition(table, Y, 3)),
    "split": ("X", lambda table: split(table, Y)),
    "folds": ("X", lambda table: folds(table, Y, 3)),
    "solve": ("X of test", lambda table: solve((table, Y))),
}


@pytest.mark.parametrize(("name", "take"), ENTRANCES.values(), ids=ENTRANCES)
def test_text_is_rejected_everywhere(name, take):
    words = {"X": r"columns of X are not: 'colour' \('red' .*; 'size' \('x'"}.get(
        name, r"X of test must hold real .*'colour' \('red'\)"
    )
    with pytest.raises(ValueError, match=words):
        take(FLAGS.assign(colour="red", size="x"))


@pytest.mark.parametrize("test", [3, "ab", (FLAGS,), (FLAGS, Y, Y), [], object()], ids=lambda t: type(t).__name__)
def test_a_test_set_is_a_pair(test):
    with pytest.raises((TypeError, ValueError), match=r"^(test must be a pair \(X, y\)|X of test must)"):
        solve(test)


def test_indices_that_differ_in_some_rows_or_repeat_are_named():
    frame, y = pd.DataFrame(np.eye(30, 3)), pd.Series(Y)
    with pytest.warns(
        UserWarning, match="y has the index of X for some rows only, .*: leave out the same rows of both, and y.to"
    ):
        partition(frame.drop([3, 5]), y.drop([4, 6]), 2)
    repeated = [0, 1] * 15
    with pytest.warns(
        UserWarning, match=r"y has the index of X in another order, .*: reset_index\(drop=True\) of the whole table comes first"
    ):
        partition(frame.set_axis(repeated), y.set_axis(repeated[::-1]), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        partition(frame.drop([3, 5]), y.drop([3, 5]).reset_index(drop=True), 2)  # its index counts places
        partition(frame.set_axis(repeated), y.set_axis(repeated), 2)


def test_cells_that_are_no_plain_text_have_remedies_of_their_own():
    mixed = pd.DataFrame({"a": [1, "2"] * 15})
    with pytest.raises(ValueError, match=r"'a' \('2' in row 1, text that reads as a number: frame\['a'\] = pandas.to_numeric"):
        partition(mixed, Y, 2)
    assert partition(mixed.apply(pd.to_numeric), Y, 2).features.max() == 2
    lists = pd.DataFrame({"a": [[1.0, 2.0]] * 30})
    with pytest.raises(ValueError, match=r"in row 0: numpy.stack\(frame\['a'\]\) makes an array of all"):
        partition(lists, Y, 2)
    assert partition(np.stack(lists["a"]), Y, 2).features.shape == (2, 15, 2)
    with pytest.raises(ValueError, match="y has 15 missing of 30 values, the first in row 1"):
        partition(np.eye(30, 3), pd.array([True, None] * 15, "boolean"), 2)


def test_numbers_without_a_square_are_not_standardised():
    for given in ((1e200 * np.eye(30, 3), Y), (np.eye(30, 3), 1e200 * Y), (sparse.csr_array(1e200 * np.eye(30, 3)), Y)):
        with pytest.raises(ValueError, match=r"must have numbers whose squares are finite; it has .*e\+200: take another unit"):
            split(*given)


# Names of agents, from owners and groups to shards and their files.

CITIES = ("Wien", "Oslo", "Rome")


def towns(count=3):
    """Return a pair (X, y) for each of some towns."""
    return {name: (np.full((k + 1, 2), k), np.arange(k + 1.0)) for k, name in enumerate(CITIES[:count])}


def test_groups_name_their_agents_in_sorted_order():
    shards = consensus.partition(np.eye(5), np.arange(5.0), groups=["Rome", "Oslo", "Rome", "Bonn", "Rome"])
    assert shards.labels == ("Bonn", "Oslo", "Rome")
    assert shards.restrict([2]).labels == shards.labels  # of the whole network, as its size
    assert consensus.partition(np.eye(5), np.arange(5.0), agents=2, groups=list("abcab")).labels is None
    assert consensus.partition(np.eye(5), np.arange(5.0), agents=5).labels is None


def test_groups_without_weight_have_no_agent():
    groups, weights = ["c", "a", "b", "a", "c"], [1.0, 2.0, 0.0, 1.0, 1.0]
    shards = consensus.partition(np.eye(5), np.arange(5.0), groups=groups, sample_weight=weights)
    assert shards.labels == ("a", "c")
    np.testing.assert_array_equal(shards.indices, [[1, 3], [0, 4]])


@pytest.mark.parametrize(("sort", "said"), [(str, True), (int, False), (float, False), (lambda k: f"{k:02}", False)])
def test_groups_of_digits_are_sorted_as_numbers_and_the_log_says_so(sort, said, caplog):
    ids = [sort(k) for k in (12, 3, 10, 1, 2)]
    with caplog.at_level("INFO", "consensus"):
        shards = consensus.partition(np.eye(5), np.arange(5.0), groups=pd.Series(ids))
    assert shards.labels == tuple(sort(k) for k in (1, 2, 3, 10, 12))
    np.testing.assert_array_equal(shards.indices[:, 0], [3, 4, 1, 2, 0])
    assert ["groups are ordered as numbers" in message for message in caplog.messages] == [True] * said


def test_parts_are_named_by_keys_or_labels():
    parts = towns()
    for shards in (consensus.Shards.from_list(parts), consensus.Shards.from_list(list(parts.values()), labels=CITIES)):
        assert shards.labels == CITIES
        np.testing.assert_array_equal(shards.sizes, [1, 2, 3])
    for shards in (LazyShards.from_list(parts), LazyShards.from_list([*parts.values()], labels=list(CITIES))):
        assert shards.labels == shards.restrict([0, 2]).labels == CITIES
    assert LazyShards.split((np.eye(4), np.ones(4)), {"b": [0, 1], "a": [3]}).labels == ("b", "a")
    assert consensus.Shards.from_list(list(parts.values())).labels is None


@pytest.mark.parametrize("make", [consensus.Shards.from_list, LazyShards.from_list])
def test_names_that_do_not_name_each_agent_are_rejected(make):
    parts = list(towns().values())
    with pytest.raises(ValueError, match="labels must name each of the 3 agents, got 2"):
        make(parts, labels=["a", "b"])
    with pytest.raises(ValueError, match="must differ from each other; some agents share one: 1 and '1'"):
        make(parts, labels=[1, "b", "1"])
    with pytest.raises(ValueError, match=r"the keys of .* are the names already"):
        make(towns(), labels=CITIES)
    with pytest.raises(TypeError, match="labels must be a sequence"):
        make(parts, labels=3)


@pytest.mark.parametrize("labels", [CITIES, (10, "20", 2.5), None])
def test_folders_keep_names(labels, tmp_path):
    shards = consensus.Shards.from_list(list(towns().values()), labels=labels)
    save_shards(shards, tmp_path)
    assert load_shards(tmp_path).labels == load_shards(tmp_path, agents=[1]).labels == labels


def test_owners_who_each_save_their_own_agents_give_names_or_none(tmp_path):
    for first, (name, part) in enumerate(towns().items()):
        save_shards(consensus.Shards.from_list({name: part}), tmp_path, first=first)
    assert load_shards(tmp_path).labels == CITIES
    save_shards(consensus.Shards.from_list([part]), tmp_path, first=3)
    with pytest.raises(ValueError, match="all or none give them"):
        load_shards(tmp_path)


def tables():
    rng = np.random.default_rng(0)
    return {name: pd.DataFrame({"a": rng.normal(size=6), "y": rng.normal(size=6)}) for name in CITIES}


def test_owners_are_named_by_the_keys_of_their_tables(capsys):
    owned = own(tables(), "y", test_size=0.3)
    assert owned.shards.labels == owned.test.labels == CITIES
    assert "names       names of owners: 'Wien', 'Oslo', 'Rome'" in capsys.readouterr().out
    assert owned.revealed.exchange[0] == "names"
    nameless = own([*tables().values()], "y", test_size=0.3)
    assert nameless.shards.labels is None
    assert list(nameless.revealed.exchange) == list(owned.revealed.exchange[1:])
    np.testing.assert_array_equal(nameless.shards.features, owned.shards.features)


def test_test_sets_of_owners_in_another_order_are_rejected():
    owned = own(tables(), "y", test_size=0.3)
    problem = consensus.Problem(consensus.Linear(1), consensus.SquaredLoss(), owned.shards)
    other = dataclasses.replace(owned.test, labels=CITIES[::-1])
    with pytest.raises(ValueError, match="test must have the agents of the problem in the same order"):
        consensus.solve(problem, topologies.ring(3), rounds=1, test=other)


def test_summaries_and_matrices_of_columns_are_no_samples(tmp_path):
    table = pd.DataFrame(np.random.default_rng(0).standard_normal((50, 3)), columns=["age", "bmi", "y"])
    for made, what in ((table.describe(), "statistics"), (table.describe().T, "statistics"), (table.corr(), "columns, as")):
        made.to_csv(tmp_path / "made.csv")
        target = made.columns[-1]
        with pytest.warns(UserWarning, match=f"the rows of .*made.csv seem to be {what} .*no samples: give the table"):
            consensus.datasets.load(tmp_path / "made.csv", target=target)
        with pytest.warns(UserWarning, match=f"the rows of X seem to be {what} "):
            consensus.partition(made, made[target], agents=2)
    named = table.set_index(pd.Index([f"patient {row}" for row in range(50)]))
    named.to_csv(tmp_path / "named.csv")
    with warnings.catch_warnings(action="error"):
        consensus.datasets.load(tmp_path / "named.csv", target="y")
        consensus.partition(named[["age", "bmi"]], named["y"], agents=2)
        consensus.partition(pd.DataFrame(np.eye(6)[:, :4]), np.arange(6.0), agents=2)
