"""Data frames: names are kept, booleans are numbers, categories become features, and other frames become the same numbers."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import OneHotEncoder

import consensus
import topologies
from consensus.data import Columns, load_shards, save_shards
from consensus.datasets import folds, split

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
NAMES = ("age", "town_Rome", "town_Oslo", "town_Bonn", "town_Lima", "smokes", "band_(0.0, 0.3]", "band_(0.3, 1.0]", "weight")
KIND = pd.Series(pd.Categorical(RNG.choice(["calm", "busy"], 30), categories=["calm", "busy"]), index=FRAME.index)
Y = RNG.standard_normal(30)


def expected(frame):
    """The numbers by scikit-learn's encoder."""
    town, band = (
        OneHotEncoder(categories=[frame[name].cat.categories], sparse_output=False).fit_transform(frame[[name]])
        for name in ("town", "band")
    )
    return np.column_stack([frame.age, town, frame.smokes.astype(float), band, frame.weight])


def test_a_frame_becomes_numbers_and_says_how():
    shards = consensus.partition(FRAME, KIND, 4, "sorted")
    assert shards.columns.features == NAMES
    assert shards.classes == ("calm", "busy")
    real = shards.weights > 0
    np.testing.assert_array_equal(shards.features[real], expected(FRAME)[shards.indices[real]])
    np.testing.assert_array_equal(shards.targets[real][:, 0], KIND.cat.codes.to_numpy()[shards.indices[real]])
    turned = FRAME[["weight", "band", "smokes", "town", "age"]].astype({"town": object})
    np.testing.assert_array_equal(shards.columns.transform(turned), expected(FRAME))


def test_numbers_and_booleans_alone_are_what_they_are_as_an_array():
    plain = FRAME[["age", "smokes", "weight"]]
    shards = consensus.partition(plain, Y, 4)
    np.testing.assert_array_equal(shards.features, consensus.partition(plain.to_numpy(float), Y, 4).features)
    assert shards.columns == Columns(("age", "smokes", "weight"), {})
    assert consensus.partition(plain[["weight"]], Y, 4).features.dtype == np.float32
    assert consensus.partition(FRAME[["town"]], Y, 4).features.shape[2] == 4
    assert consensus.partition(plain.to_numpy(float), Y, 4).columns is None


def test_files_and_blocks_keep_them(tmp_path):
    shards = consensus.partition(FRAME, KIND, 4)
    save_shards(shards, tmp_path)
    found = load_shards(tmp_path, [1, 3])
    assert (found.columns, found.classes) == (shards.columns, shards.classes)
    assert shards.restrict([2]).columns is shards.columns
    index = json.loads((tmp_path / "index.json").read_text())
    for wrong in (
        {"columns": 3},
        {"columns": {"names": ["a"], "categories": {"a": 3}}},
        {"columns": {"names": [1]}},
        {"classes": 2},
    ):
        (tmp_path / "index.json").write_text(json.dumps(index | wrong))
        with pytest.raises(ValueError, match=r"(columns|classes) in .*index\.json must be"):
            load_shards(tmp_path)


def test_a_list_of_frames_is_read_alike():
    parts = [(FRAME[:12], KIND[:12]), (FRAME[12:].iloc[:, ::-1], KIND[12:].astype(str))]
    shards = consensus.Shards.from_list(parts)
    reference = consensus.partition(FRAME, KIND, groups=[0] * 12 + [1] * 18)
    np.testing.assert_array_equal(shards.features, reference.features)
    np.testing.assert_array_equal(shards.targets, reference.targets)
    assert (shards.columns, shards.classes) == (reference.columns, reference.classes)


def test_the_test_set_may_be_a_frame():
    shards = consensus.partition(FRAME.assign(age=FRAME.age / 50, weight=FRAME.weight / 70), KIND, 3)
    problem = consensus.Problem(consensus.Linear(9), consensus.LogisticLoss(), shards, consensus.L2(0.1))
    test = FRAME.assign(age=FRAME.age / 50, weight=FRAME.weight / 70)[::-1]
    numbers = shards.columns.transform(test), KIND[::-1].cat.codes.to_numpy()
    runs = [
        consensus.solve(problem, topologies.ring(3), rounds=2, test=given).history["test_error"]
        for given in ((test, KIND[::-1]), (test, KIND[::-1].to_numpy(str)), numbers)
    ]
    np.testing.assert_array_equal(runs[0], runs[2])
    np.testing.assert_array_equal(runs[1], runs[2])


def test_split_gives_back_what_it_did():
    parts = split(FRAME, Y, seed=1)
    X, _, X_test, y_test = parts
    assert parts.columns.features == NAMES
    rows = np.argmin(np.abs(parts.y_scaler.inverse_transform(y_test[:, None]) - Y), axis=1)
    np.testing.assert_allclose(Y[rows], parts.y_scaler.inverse_transform(y_test[:, None])[:, 0], rtol=1e-12)
    np.testing.assert_array_equal(parts.X_scaler.transform(parts.columns.transform(FRAME.iloc[rows])), X_test)
    assert (len(parts), parts[0] is X, parts[3] is y_test) == (4, True, True)
    several = split(FRAME, np.column_stack([Y, Y**2]))
    assert several.y_scaler.inverse_transform(several.y).shape == (24, 2)
    fold = next(folds(FRAME, KIND, 3, classification=True))
    assert (fold.y_scaler, fold.classes) == (None, ("calm", "busy"))
    assert set(fold.y) == {0, 1}
    with pytest.raises(ValueError, match=r"y has the categories \('calm', 'busy'\): pass classification=True; got False"):
        split(FRAME, KIND)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (FRAME.drop(columns="age"), r"frame must have the columns 'age', .*; missing: 'age'; not known: none$"),
        (FRAME.assign(more=1), r"missing: none; not known: 'more'$"),
        (FRAME.assign(town="Kyiv"), r"column 'town' of frame must be one of 'Rome', .*; in row 0 .* it is 'Kyiv'"),
        (FRAME.assign(town=[*TOWNS[:7], None, *TOWNS[8:]]), r"column 'town' of frame must be one of .*; in row 7 .* it is"),
        (FRAME.assign(age="old"), r"frame must hold real numbers; not so its columns 'age' \('old'\)"),
        (FRAME.assign(age=pd.Timestamp(0)), r"not so its columns 'age'"),
    ],
)
def test_other_frames_that_do_not_fit_are_refused(frame, words):
    with pytest.raises(ValueError, match=words):
        Columns.of(FRAME).transform(frame)


def test_frames_that_cannot_be_read_are_refused():
    with pytest.raises(ValueError, match=r"columns of X must have names of their own; got more than one of 'age'"):
        consensus.partition(pd.concat([FRAME, FRAME[["age"]]], axis=1), Y, 3)
    with pytest.raises(ValueError, match=r"X must hold real numbers; not so its columns 'town' \('.*'\): encode"):
        consensus.partition(FRAME.astype({"town": str}), Y, 3)
    with pytest.raises(ValueError, match=r"categories of column 'a' of X must differ as text; got '1', '1'"):
        consensus.partition(pd.DataFrame({"a": pd.Categorical([1, "1"])}), [0, 1], 2)
    with pytest.raises(ValueError, match=r"y must be one of 'calm', 'busy'; in row 2 .* it is nan"):
        consensus.partition(FRAME, KIND.where(np.arange(30) != 2), 3)
    with pytest.raises(TypeError, match=r"frame must be a data frame with the columns 'age', .*; got"):
        Columns.of(FRAME).transform(FRAME.to_numpy())


@pytest.mark.parametrize("cut", [split, lambda *data, **options: next(folds(*data, k=4, **options))])
def test_groups_go_with_their_samples(cut):
    owners = np.array(["Rome", "Oslo", "Bonn"])[np.arange(30) % 3]
    marked = np.column_stack([np.arange(30.0), Y])
    parts = cut(marked, Y, groups=pd.Series(owners))
    for X, groups in ((parts.X, parts.groups), (parts.X_test, parts.groups_test)):
        rows = np.rint(parts.X_scaler.inverse_transform(X)[:, 0]).astype(int)
        np.testing.assert_array_equal(groups, owners[rows])
    np.testing.assert_array_equal(parts.X, cut(marked, Y).X)
    assert cut(marked, Y).groups is cut(marked, Y).groups_test is None
    assert consensus.partition(parts.X, parts.y, groups=parts.groups).agents == 3
    with pytest.raises(ValueError, match=r"groups must have shape \(30,\)"):
        cut(marked, Y, groups=owners[:4])
    with pytest.raises(
        ValueError, match=r"every group must have a sample in the training part; 'Lima' has none: take another seed"
    ):
        cut(marked, Y, groups=np.where(np.isin(np.arange(30), rows), "Lima", owners))
