"""Data sets by name, and their training and test parts."""

import hashlib
import io
import json
import os

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets as bundled
from sklearn.model_selection import KFold, StratifiedKFold

from consensus import datasets
from consensus.data import Columns, Pipeline
from consensus.datasets import folds, split
from consensus.tables.cuts import apart, later

FOLDER = os.environ.get("CONSENSUS_DATA")
needs_folder = pytest.mark.skipif(not FOLDER, reason="CONSENSUS_DATA names no folder of data sets")
BUNDLED = {
    "diabetes": None,
    "breast_cancer": ("malignant", "benign"),
    "digits": tuple(range(10)),
    "iris": ("setosa", "versicolor", "virginica"),
    "wine_cultivars": ("class_0", "class_1", "class_2"),
}


@pytest.mark.parametrize(("name", "classes"), BUNDLED.items())
def test_bundled_sets_are_scikit_learns(name, classes):
    X, y = data = datasets.load(name)
    reference = getattr(bundled, f"load_{name.removesuffix('_cultivars')}")()
    np.testing.assert_array_equal(X, reference.data)
    np.testing.assert_array_equal(y, reference.target)
    assert data.classes == classes
    assert data.classification == (name in datasets.CLASSIFICATION) == (y.dtype.kind == "i")
    assert (X is data.X is data[0], y is data.y is data[1]) == (True, True)
    assert set(datasets.CLASSIFICATION) < set(datasets.NAMES)
    assert len(set(datasets.NAMES)) == len(datasets.NAMES) == 9


@needs_folder
@pytest.mark.parametrize(
    ("name", "file", "samples"), [("boston", "housing", 506), ("kin8nm", "kin8nm", 8192), ("wine", "winequality-white", 4898)]
)
def test_regression_sets_from_the_folder_of_local_copies(name, file, samples):
    X, y = data = datasets.load(name)
    np.testing.assert_array_equal(np.column_stack([X, y]), np.genfromtxt(f"{FOLDER}/{file}.csv", delimiter=","))
    assert len(X) == samples
    assert not data.classification
    assert np.isfinite(X).all()


@needs_folder
def test_digits_from_the_folder_of_local_copies():
    data = datasets.load("mnist")
    assert data.X.shape == (10000, 784)
    assert (data.X.min(), data.X.max()) == (0, 1)
    np.testing.assert_array_equal(np.unique(data.y), data.classes)
    with np.load(f"{FOLDER}/mnist10k.npz") as arrays:
        np.testing.assert_array_equal(data.X[7].reshape(28, 28) * 255, arrays["images"][7])
        np.testing.assert_array_equal(data.y, arrays["labels"])


@pytest.mark.parametrize(("name", "file", "text"), [
    ("boston", "housing.csv", "7,3,6\n6.3,3.3,5\n"),
    ("wine", "winequality-white.csv", '"fixed acidity";"pH";"quality"\n7;3;6\n6.3;3.3;5\n'),  # as it is published
])  # fmt: skip
def test_files_of_ones_own_in_that_folder(monkeypatch, tmp_path, name, file, text):
    monkeypatch.setenv("CONSENSUS_DATA", str(tmp_path))
    (tmp_path / file).write_text(text)
    X, y = datasets.load(name)
    np.testing.assert_array_equal(X, [[7, 3], [6.3, 3.3]])
    np.testing.assert_array_equal(y, [6, 5])
    with pytest.raises(FileNotFoundError, match=r"CONSENSUS_DATA names a folder without kin8nm\.csv"):
        datasets.load("kin8nm")


@pytest.mark.parametrize(("images", "labels"), [(np.ones((3, 2, 2)), np.ones(2)), (np.ones(3), np.ones(3))])
def test_images_and_labels_that_do_not_fit(monkeypatch, tmp_path, images, labels):
    monkeypatch.setenv("CONSENSUS_DATA", str(tmp_path))
    np.savez(tmp_path / "mnist10k.npz", images=images, labels=labels)
    with pytest.raises(ValueError, match=r"mnist10k\.npz must have as many labels \(samples,\) as images; got images \(3,"):
        datasets.load("mnist")


def unreachable(*_, **__):
    raise OSError("no route")


@pytest.fixture
def openml(monkeypatch, tmp_path):
    """Let scikit-learn fetch and parse a data set that an imitation of OpenML serves; the last column is the target."""

    def serve(number, columns, rows):
        attributes = [f"@attribute {name} {kind}" for name, kind in columns.items()]
        arff = "\n".join(["@relation imitation", *attributes, "@data", *rows, ""]).encode()
        features = [
            {"index": str(index), "name": name, "data_type": "nominal" if kind.startswith("{") else "numeric"}
            | {"is_target": str(index == len(columns) - 1).lower(), "number_of_missing_values": "0"}
            | {"is_ignore": "false", "is_row_identifier": "false"}
            for index, (name, kind) in enumerate(columns.items())
        ]
        description = {"id": str(number), "name": "imitation", "version": "1", "description": "", "format": "ARFF"}
        description |= {"status": "active", "url": "https://openml.test/imitation.arff", "file_id": "1"}
        description["md5_checksum"] = hashlib.md5(arff).hexdigest()
        answers = {
            f"features/{number}": {"data_features": {"feature": features}},
            f"qualities/{number}": {"data_qualities": {"quality": [{"name": "NumberOfInstances", "value": str(len(rows))}]}},
            f"data/{number}": {"data_set_description": description},
        }

        def urlopen(request, *_, **__):
            known = [json.dumps(answer).encode() for end, answer in answers.items() if request.full_url.endswith(end)]
            answer = io.BytesIO(known[0] if known else arff)
            answer.info = dict
            return answer

        monkeypatch.setattr("sklearn.datasets._openml.urlopen", urlopen)

    monkeypatch.delenv("CONSENSUS_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    return serve


def test_openml_gives_numbers_that_it_declares_nominal_as_numbers(openml, monkeypatch):
    columns = {"CRIM": "real", "CHAS": "{0,1}", "RAD": "{1,2,24,3}", "MEDV": "real"}
    openml(531, columns, ["0.1,0,24,20.5", "0.2,1,3,21.5", "0.3,0,1,50"])
    X, y = data = datasets.load("boston")
    np.testing.assert_array_equal(X, [[0.1, 0, 24], [0.2, 1, 3], [0.3, 0, 1]])
    np.testing.assert_array_equal(y, [20.5, 21.5, 50])
    assert not data.classification
    monkeypatch.setattr("sklearn.datasets._openml.urlopen", unreachable)
    np.testing.assert_array_equal(datasets.load("boston").X, X)  # from scikit-learn's copy


def test_openml_digits_are_scaled_and_their_classes_integers(openml):
    openml(554, {"pixel1": "real", "pixel2": "real", "class": "{0,1,2,3,4,5,6,7,8,9}"}, ["0,255,7", "51,102,3"])
    data = datasets.load("mnist")
    np.testing.assert_allclose(data.X, [[0, 1], [0.2, 0.4]], rtol=1e-15)
    np.testing.assert_array_equal(data.y, [7, 3])
    assert (data.y.dtype.kind, data.classes) == ("i", tuple(range(10)))


def test_without_a_network_the_error_names_the_file_to_get(openml, monkeypatch):
    monkeypatch.setattr(bundled, "fetch_openml", unreachable)
    with pytest.raises(ConnectionError, match=r"put kin8nm\.csv in a folder and set CONSENSUS_DATA"):
        datasets.load("kin8nm")


@pytest.mark.parametrize("name", ["tulips", "table.xlsx", "", None, 3])
def test_an_unknown_name_or_suffix_lists_the_known(name):
    words = r"name must be one of 'diabetes'.*'mnist', or a file that ends in .*\.npz, \.svm, \.svmlight, \.libsvm; got "
    with pytest.raises(ValueError, match=words) as info:
        datasets.load(name)
    assert f"; got {name!r}" in str(info.value)


@pytest.mark.parametrize(("settings", "words"), [
    ({"target": "quality"}, "go with a file and with no name; got name='diabetes', target='quality'"),
    ({"classification": True}, "go with a file and with no name; .*, classification=True"),
    ({"categories": ["sex"]}, r"go with a file .*categories=\['sex'\]"),
    ({"classification": "maybe"}, "classification must be one of None, True, False; got 'maybe'"),
])  # fmt: skip
def test_settings_of_files_do_not_go_with_names(settings, words):
    with pytest.raises(ValueError, match=words):
        datasets.load("diabetes", **settings)


# Training and test parts.
CLASSES = np.array([2] * 6 + [7] * 3)


def numbered(samples):
    """Data whose second feature is the sample's number, which standardised features still show."""
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(5, 3, samples), np.arange(samples)]), rng.normal(-2, 7, samples)


def assert_standardised(parts, X, y, train, test):
    """Both parts have the mean and the deviation of the training part removed."""
    mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
    for found, rows in ((parts.X, train), (parts.X_test, test)):
        np.testing.assert_allclose(found, (X[rows] - mean) / deviation, atol=1e-13)
    for found, rows in ((parts.y, train), (parts.y_test, test)):
        np.testing.assert_allclose(found, (y[rows] - y[train].mean(axis=0)) / y[train].std(axis=0), atol=1e-13)


def test_split_standardises_by_the_training_part_alone():
    X, y = numbered(50)
    parts, again, other = (split(X, y, test_size=0.3, seed=seed) for seed in (3, 3, 4))
    # The order of the second feature in both parts together gives the rows.
    order = np.argsort(np.argsort(np.concatenate([parts.X[:, 1], parts.X_test[:, 1]])))
    assert len(parts.X_test) == 15
    assert_standardised(parts, X, y, order[:35], order[35:])
    np.testing.assert_array_equal(parts.X, again.X)
    assert not np.array_equal(parts.X, other.X)


def test_classes_keep_their_labels_and_proportions():
    X, y = datasets.load("digits")
    parts = split(X, y, seed=0, classification=True)
    assert set(np.unique(parts.y)) == set(range(10))
    share, whole = np.bincount(parts.y_test) / len(parts.y_test), np.bincount(y) / len(y)
    np.testing.assert_allclose(share, whole, atol=2 / len(parts.y_test))
    assert np.isfinite(parts.X).all()  # digits has constant features


def test_several_outputs_and_single_precision():
    X, y = numbered(40)
    parts = split(X.astype(np.float32), np.column_stack([y, y**2]))
    assert parts.X.dtype == parts.X_test.dtype == np.float32
    assert parts.y.shape == (32, 2)
    np.testing.assert_allclose(parts.y.std(axis=0), 1, rtol=1e-12)


@pytest.mark.parametrize("k", [2, 5, 23])
def test_folds_are_scikit_learns_standardised_by_their_own_training_part(k):
    X, y = numbered(23)
    reference = KFold(k, shuffle=True, random_state=4).split(X)
    for fold, (train, test) in zip(folds(X, y, k, seed=4), reference, strict=True):
        assert_standardised(fold, X, y, train, test)
    first, again, other = (next(folds(X, y, k, seed=seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.X_test, again.X_test)
    assert not np.array_equal(first.X_test, other.X_test)


def test_folds_of_classes_keep_labels_and_proportions():
    X, y = datasets.load("wine_cultivars")
    reference = StratifiedKFold(6, shuffle=True, random_state=2).split(X, y)
    for fold, (train, test) in zip(folds(X, y, 6, seed=2, classification=True), reference, strict=True):
        np.testing.assert_array_equal(fold.y, y[train])
        np.testing.assert_array_equal(fold.y_test, y[test])
    assert len(list(folds(np.eye(9), CLASSES, 3, classification=True))) == 3


K, SHAPES = "k must be a whole number >= 2; got ", r"X must have shape \(samples, features\), and y .*; got \("


@pytest.mark.parametrize(
    ("make", "match"),
    [
        *((lambda size=size: split(np.eye(4), np.arange(4.0), test_size=size), "test_size must be a finite number > 0 and < 1")
          for size in (0, 1, -0.1, "half")),
        *((lambda k=k: folds(*numbered(9), k), K) for k in (1, 0, -3, 2.5, True, "five")),
        (lambda: folds(*numbered(9), 10), "k must be at most 9, the number of samples; got 10"),
        (lambda: folds(np.eye(9), CLASSES, 4, classification=True), "at most 3, .* samples of class 7, the smallest; got 4"),
        *((lambda cut=cut, X=X, y=y: cut(X, y), SHAPES)
          for cut in (split, lambda X, y: folds(X, y, 2))
          for X, y in ((np.eye(4), np.arange(3.0)), (np.arange(4.0), np.arange(4.0)), (np.eye(4), 1.0))),
    ],
)  # fmt: skip
def test_bad_arguments(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize(("share", "tested"), [(0.01, [3]), (0.5, [1, 3]), (0.99, [0, 1, 3])])
def test_the_last_rows_are_tested_and_one_at_least(share, tested):
    train, test = later(np.array([20, 30, 10, 40]), share)
    assert (test.tolist(), sorted([*train, *test])) == (tested, [0, 1, 2, 3])
    assert later(np.array([1, 2, 2, 2]), 0.25)[1].tolist() == [1, 2, 3]  # a moment is not cut


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("seed", range(5))
def test_groups_are_whole_and_the_test_has_its_share_of_rows_at_least(share, seed):
    groups = np.repeat(list("abcde"), [1, 2, 3, 4, 10])
    train, test = apart(groups, share, np.random.default_rng(seed))
    assert sorted([*train, *test]) == list(range(20))
    assert not set(groups[train]) & set(groups[test])
    assert 1 <= len(set(groups[test])) <= 4
    order = [list("abcde")[k] for k in np.random.default_rng(seed).permutation(5)]
    own = sum(len(groups[groups == name]) for name in order[: len(set(groups[test]))])
    assert len(test) == own
    last = (groups == order[len(set(groups[test])) - 1]).sum()
    assert len(test) - last < share * 20  # without the last one there would be too few
    assert len(test) >= share * 20 or len(set(groups[test])) == 4


# Pipelines: their settings are checked; arrays and tables in, original units out. Tables of owners are in test_owned.py.


@pytest.mark.parametrize(("settings", "error"), [
    ({"mean": np.zeros(2)}, "mean must be finite numbers, one for each feature"),
    ({"scale": np.array([1.0, 0.0, 1.0])}, "scale must be finite numbers above 0, one for each feature"),
    ({"spread": -1.0}, "spread must be finite numbers above 0, one for each output"),
    ({"classes": ("a",)}, "classes must be a tuple of at least 2 classes, or None"),
    ({"columns": ["a"]}, "columns must be Columns, as Columns.of"),
    ({"target": 3}, "target must be the name of a column, a tuple of names, or None; got 3"),
])  # fmt: skip
def test_pipelines_are_checked(settings, error):
    good = {"columns": Columns(("a", "b", "c"), {}), "mean": np.zeros(3), "scale": np.ones(3)}
    with pytest.raises((ValueError, TypeError), match=error):
        Pipeline(**good | settings)


def test_arrays_need_no_columns():
    pipeline = Pipeline(
        None, np.array([1.0, 2.0]), np.array([2.0, 4.0]), shift=np.array([1.0, 2.0]), spread=np.array([3.0, 5.0])
    )
    np.testing.assert_array_equal(pipeline.transform([[3, 6], [1, 2]]), [[1.0, 1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(pipeline.original([[1, 1], [0, 2]]), [[4.0, 7.0], [1.0, 12.0]])
    for data, error in (
        ([[1.0]], r"data must have shape \(samples, 2\); got \(1, 1\)"),
        ([[1.0, np.nan]], "feature 1 is nan in row 0"),
    ):
        with pytest.raises(ValueError, match=error):
            pipeline.transform(data)
    with pytest.raises(ValueError, match=r"outputs must have shape \(samples, 2\); got \(1, 3\)"):
        pipeline.original([[1, 2, 3]])
    with pytest.raises(ValueError, match="target must be the name of a column, so that it is found; this pipeline has none"):
        pipeline.targets(pd.DataFrame({"days": [1.0]}))


def test_numbers_and_categories_of_files_are_those_of_frames(tmp_path):
    frame = pd.DataFrame({"ward": ["1", "2", "2"], "age": [30, 40, 50], "kind": ["b", "a", "b"]})
    columns = Columns(("age", "ward"), {"ward": ("1", "2")})
    pipeline = Pipeline(columns, np.zeros(3), np.ones(3), "kind", classes=("a", "b"))
    for suffix in (".csv", ".tsv", ".parquet"):
        path = tmp_path / f"new{suffix}"
        if suffix == ".parquet":
            pytest.importorskip("pyarrow")
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
        for data in (frame, path, str(path)):
            np.testing.assert_array_equal(pipeline.transform(data), [[30, 1, 0], [40, 0, 1], [50, 0, 1]])
            np.testing.assert_array_equal(pipeline.targets(data)[:, 0], [1, 0, 1])


def test_a_file_of_another_kind_is_named_with_what_reads_it(tmp_path):
    table = pd.DataFrame({"a": [1.0, 2.0, 4.0], "y": [1.0, 3.0, 2.0]})
    table.to_json(tmp_path / "t.json")
    with pytest.raises(ValueError, match=r"got .*: pandas\.read_json reads it, and load, split and partition take data"):
        datasets.load(tmp_path / "t.json", target="y")
    assert datasets.load(pd.read_json(tmp_path / "t.json"), target="y").y.tolist() == [1, 3, 2]


def test_a_comment_after_the_table_is_named_with_what_leaves_it_out(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,3\n2,3,5\n4,1,2\n# end\n")
    with pytest.raises(ValueError, match=r"line 5 has 1 cells between ',', not 3: '# end'; comment='#' leaves it out"):
        datasets.load(tmp_path / "t.csv", target="y")
    assert datasets.load(tmp_path / "t.csv", target="y", comment="#").X.shape == (3, 2)
