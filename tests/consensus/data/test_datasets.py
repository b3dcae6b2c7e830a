"""Data sets by name."""

import hashlib
import io
import json
import os

import numpy as np
import pytest
from sklearn import datasets as bundled

from consensus import datasets

FOLDER = os.environ.get("CONSENSUS_DATA")
needs_folder = pytest.mark.skipif(not FOLDER, reason="CONSENSUS_DATA names no folder of data sets")


@pytest.mark.parametrize(
    ("name", "original", "shape", "classes"),
    [
        ("diabetes", "diabetes", (442, 10), None),
        ("breast_cancer", "breast_cancer", (569, 30), ("malignant", "benign")),
        ("digits", "digits", (1797, 64), tuple(range(10))),
        ("iris", "iris", (150, 4), ("setosa", "versicolor", "virginica")),
        ("wine_cultivars", "wine", (178, 13), ("class_0", "class_1", "class_2")),
    ],
)
def test_bundled_sets_are_scikit_learns(name, original, shape, classes):
    data = datasets.load(name)
    reference = getattr(bundled, f"load_{original}")()
    assert data.X.shape == shape
    np.testing.assert_array_equal(data.X, reference.data)
    np.testing.assert_array_equal(data.y, reference.target)
    assert data.classes == classes
    assert data.classification == (name in datasets.CLASSIFICATION) == (data.y.dtype.kind == "i")


def test_a_data_set_unpacks_as_features_and_target():
    data = datasets.load("iris")
    X, y = data
    assert X is data.X
    assert y is data.y
    assert [*data][1] is data[1] is y


def test_every_set_of_classes_is_a_name():
    assert set(datasets.CLASSIFICATION) < set(datasets.NAMES)
    assert len(set(datasets.NAMES)) == len(datasets.NAMES) == 9


@needs_folder
@pytest.mark.parametrize(("name", "file"), [("boston", "housing"), ("kin8nm", "kin8nm"), ("wine", "winequality-white")])
def test_regression_sets_from_the_folder_of_local_copies(name, file):
    X, y = data = datasets.load(name)
    table = np.genfromtxt(f"{FOLDER}/{file}.csv", delimiter=",")
    np.testing.assert_array_equal(X, table[:, :-1])
    np.testing.assert_array_equal(y, table[:, -1])
    assert len(X) == {"boston": 506, "kin8nm": 8192, "wine": 4898}[name]
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


def test_a_folder_without_the_file_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("CONSENSUS_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"CONSENSUS_DATA names a folder without kin8nm\.csv"):
        datasets.load("kin8nm")


def test_a_file_of_ones_own_in_that_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("CONSENSUS_DATA", str(tmp_path))
    table = np.arange(12.0).reshape(3, 4)
    np.savetxt(tmp_path / "housing.csv", table, delimiter=",")
    X, y = datasets.load("boston")
    np.testing.assert_array_equal(X, table[:, :3])
    np.testing.assert_array_equal(y, table[:, 3])


def test_the_original_of_a_set_with_its_header_and_semicolons(monkeypatch, tmp_path):
    monkeypatch.setenv("CONSENSUS_DATA", str(tmp_path))
    (tmp_path / "winequality-white.csv").write_text('"fixed acidity";"pH";"quality"\n7;3;6\n6.3;3.3;5\n')
    X, y = datasets.load("wine")
    np.testing.assert_array_equal(X, [[7, 3], [6.3, 3.3]])
    np.testing.assert_array_equal(y, [6, 5])


def openml(monkeypatch, folder, number, columns, rows):
    """Let scikit-learn fetch and parse a data set that an imitation of OpenML serves; the last column is the target."""
    attributes = [f"@attribute {name} {kind}" for name, kind in columns]
    arff = "\n".join(["@relation imitation", *attributes, "@data", *rows, ""]).encode()
    features = [
        {
            "index": str(index),
            "name": name,
            "data_type": "nominal" if kind.startswith("{") else "numeric",
            "is_target": str(index == len(columns) - 1).lower(),
            "number_of_missing_values": "0",
            "is_ignore": "false",
            "is_row_identifier": "false",
        }
        for index, (name, kind) in enumerate(columns)
    ]
    description = {
        "id": str(number),
        "name": "imitation",
        "version": "1",
        "description": "",
        "format": "ARFF",
        "status": "active",
        "url": "https://openml.test/imitation.arff",
        "file_id": "1",
        "md5_checksum": hashlib.md5(arff).hexdigest(),
    }
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

    monkeypatch.delenv("CONSENSUS_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(folder))
    monkeypatch.setattr("sklearn.datasets._openml.urlopen", urlopen)


def test_openml_gives_numbers_that_it_declares_nominal_as_numbers(monkeypatch, tmp_path):
    columns = [("CRIM", "real"), ("CHAS", "{0,1}"), ("RAD", "{1,2,24,3}"), ("MEDV", "real")]
    openml(monkeypatch, tmp_path, 531, columns, ["0.1,0,24,20.5", "0.2,1,3,21.5", "0.3,0,1,50"])
    X, y = data = datasets.load("boston")
    np.testing.assert_array_equal(X, [[0.1, 0, 24], [0.2, 1, 3], [0.3, 0, 1]])
    np.testing.assert_array_equal(y, [20.5, 21.5, 50])
    assert not data.classification

    def unreachable(*_, **__):
        raise OSError("no route")

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", unreachable)
    np.testing.assert_array_equal(datasets.load("boston").X, X)  # from scikit-learn's copy


def test_openml_digits_are_scaled_and_their_classes_integers(monkeypatch, tmp_path):
    columns = [("pixel1", "real"), ("pixel2", "real"), ("class", "{0,1,2,3,4,5,6,7,8,9}")]
    openml(monkeypatch, tmp_path, 554, columns, ["0,255,7", "51,102,3"])
    data = datasets.load("mnist")
    np.testing.assert_allclose(data.X, [[0, 1], [0.2, 0.4]], rtol=1e-15)
    np.testing.assert_array_equal(data.y, [7, 3])
    assert data.y.dtype.kind == "i"
    assert data.classes == tuple(range(10))


def test_no_network_says_what_to_do(monkeypatch):
    def unreachable(**_):
        raise OSError("no route")

    monkeypatch.delenv("CONSENSUS_DATA", raising=False)
    monkeypatch.setattr(bundled, "fetch_openml", unreachable)
    with pytest.raises(ConnectionError, match=r"put kin8nm\.csv in a folder and set CONSENSUS_DATA"):
        datasets.load("kin8nm")


@pytest.mark.parametrize("name", ["tulips", "table.xlsx", "", None, 3])
def test_an_unknown_name_or_suffix_lists_the_known(name):
    with pytest.raises(
        ValueError, match=r"name must be one of 'diabetes'.*'mnist', or a file that ends in .*\.npz; got "
    ) as info:
        datasets.load(name)
    assert str(info.value).endswith(repr(name))


@pytest.mark.parametrize("setting", [{"target": "quality"}, {"classification": True}, {"categories": ["sex"]}])
def test_settings_of_files_do_not_go_with_names(setting):
    with pytest.raises(
        ValueError, match=r"target, classification and categories go with a file and with no name; got name='diabetes'"
    ):
        datasets.load("diabetes", **setting)


def test_classification_is_yes_no_or_by_the_data():
    with pytest.raises(ValueError, match=r"classification must be one of None, True, False; got 'maybe'"):
        datasets.load("diabetes", classification="maybe")
