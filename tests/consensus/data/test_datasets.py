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


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("boston", "housing.csv", "7,3,6\n6.3,3.3,5\n"),
        ("wine", "winequality-white.csv", '"fixed acidity";"pH";"quality"\n7;3;6\n6.3;3.3;5\n'),  # as it is published
    ],
)
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
    assert str(info.value).endswith(repr(name))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"target": "quality"}, "go with a file and with no name; got name='diabetes', target='quality'"),
        ({"classification": True}, "go with a file and with no name; .*, classification=True"),
        ({"categories": ["sex"]}, r"go with a file .*categories=\['sex'\]"),
        ({"classification": "maybe"}, "classification must be one of None, True, False; got 'maybe'"),
    ],
)
def test_settings_of_files_do_not_go_with_names(settings, words):
    with pytest.raises(ValueError, match=words):
        datasets.load("diabetes", **settings)
