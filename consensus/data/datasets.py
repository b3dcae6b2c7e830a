"""Data sets by name, and tables of one's own; scikit-learn, which imports slowly, when it is used."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.data import tables
from consensus.data.frames import Classes, Columns

VARIABLE = "CONSENSUS_DATA"


class _Remote(NamedTuple):
    file: str  # in the folder of local copies
    openml: int  # the set's number at OpenML


_BUNDLED = {  # with the names in scikit-learn
    "diabetes": "diabetes",
    "breast_cancer": "breast_cancer",
    "digits": "digits",
    "iris": "iris",
    "wine_cultivars": "wine",
}
_REMOTE = {
    "boston": _Remote("housing.csv", 531),
    "kin8nm": _Remote("kin8nm.csv", 189),
    "wine": _Remote("winequality-white.csv", 287),
    "mnist": _Remote("mnist10k.npz", 554),
}
NAMES = (*_BUNDLED, *_REMOTE)
CLASSIFICATION = ("breast_cancer", "digits", "iris", "wine_cultivars", "mnist")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and target; ``X, y = dataset`` unpacks it.

    Parameters
    ----------
    X : ndarray (samples, features)
        Features.
    y : ndarray (samples,)
        Target: float64 numbers, or int codes 0 .. C - 1 of the classes.
    classes : tuple or None
        The C classes behind the codes; None if the target is numbers.
    columns : Columns or None
        The columns of a table; ``columns.transform(frame)`` makes such features of a data frame.

    Examples
    --------
    >>> import consensus
    >>> iris = consensus.datasets.load("iris")
    >>> X, y = iris
    >>> X.shape, y.dtype.kind, iris.classification, iris.classes
    ((150, 4), 'i', True, ('setosa', 'versicolor', 'virginica'))
    """

    X: np.ndarray
    y: np.ndarray
    classes: Classes | None = None
    columns: Columns | None = None

    @property
    def classification(self) -> bool:
        """Whether the target is classes."""
        return self.classes is not None

    def __getitem__(self, index: int) -> np.ndarray:
        return (self.X, self.y)[index]

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.X, self.y))


def load(
    name: str | os.PathLike[str],
    *,
    target: str | int | None = None,
    classification: bool | None = None,
    categories: Sequence[str | int] = (),
) -> Dataset:
    r"""Return a data set by its name, or a table from a file.

    Parameters
    ----------
    name : str or path
        ``diabetes``, ``breast_cancer``, ``digits``, ``iris`` and ``wine_cultivars`` (scikit-learn's ``wine``) come with
        scikit-learn. ``boston``, ``kin8nm``, ``wine`` (quality) and ``mnist`` are read from the folder in the environment
        variable ``CONSENSUS_DATA`` (``housing.csv``, ``kin8nm.csv``, ``winequality-white.csv``, the target last;
        ``mnist10k.npz`` with ``images`` and ``labels``); if it is not set, from OpenML through scikit-learn, which keeps a
        copy. OpenML's ``wine`` has the red wines too, its ``mnist`` all 70,000 digits.

        Other names are files. ``.csv`` and ``.tsv``: cells between commas, semicolons or tabs. The first line is a header
        unless all its cells are numbers, or numbers stand in the same places of the second line. ``.parquet``: the index of
        a data frame is no feature; it needs pyarrow (``pip install consensus-opt[parquet]``). ``.npz``: arrays ``X``
        (samples, features) and ``y`` (samples,).
    target : str or int, optional
        For a file: the column to predict, by name or index (negative ones count from the end); all others are features. For
        npz the name of the array ``y``.
    classification : bool, optional
        For a file: whether the target is classes; by default it is if it is text or booleans.
    categories : sequence of str or int
        For a file: columns, by name or index, whose values are categories, as text; each category becomes a feature. Columns
        of pandas' ``category`` dtype in a Parquet file are categories by themselves.

    Returns
    -------
    Dataset
        The data. Features are float64, or float32 if all of them are float32 in the file; codes of classes follow their sorted
        order.

    Raises
    ------
    ValueError
        For an unknown name or suffix, an unknown column, features that are neither numbers nor categories, a target of numbers
        and text, missing (empty, ``?``, ``NA``, ``N/A``, ``NaN``, ``null``) or infinite values, lines of unequal length, no
        rows, or a damaged file.
    FileNotFoundError
        If there is no such file, or ``CONSENSUS_DATA`` names a folder without the one of ``name``.
    ConnectionError
        If OpenML cannot be reached.
    ImportError
        For Parquet without pyarrow.

    Examples
    --------
    >>> from consensus.datasets import load
    >>> X, y = load("diabetes")
    >>> X.shape, y.shape
    ((442, 10), (442,))

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "animals.csv")
    ...     _ = path.write_text("weight,legs,animal\n4.1,4,cat\n0.1,2,bird\n9.5,4,dog\n")
    ...     animals = load(path, target="animal")
    >>> animals.X.shape, animals.y, animals.classes
    ((3, 2), array([1, 0, 2]), ('bird', 'cat', 'dog'))
    >>> animals.columns.features
    ('weight', 'legs')
    """
    _checks.choice("classification", classification, (None, True, False))
    if not isinstance(categories, list | tuple) or not all(isinstance(one, str | Integral) for one in categories):
        raise TypeError(f"categories must be a list of columns, by name or index; got {_checks.shown(categories)}")
    if not isinstance(name, str | os.PathLike) or (name not in NAMES and Path(name).suffix.lower() not in tables.SUFFIXES):
        known, suffixes = ", ".join(map(repr, NAMES)), ", ".join(tables.SUFFIXES)
        raise ValueError(f"name must be one of {known}, or a file that ends in {suffixes}; got {name!r}")
    if name not in NAMES:
        return Dataset(*tables.read(Path(name).expanduser(), target, classification, categories))
    if target is not None or classification is not None or len(categories):
        raise ValueError(
            f"target, classification and categories go with a file and with no name; got name={name!r}, target={target!r}, "
            f"classification={classification!r}, categories={categories!r}"
        )
    if name in _BUNDLED:
        return _from_scikit_learn(name)
    return _from_folder(name) if os.environ.get(VARIABLE) else _from_openml(name)


def _from_scikit_learn(name: str) -> Dataset:
    from sklearn import datasets

    found = getattr(datasets, f"load_{_BUNDLED[name]}")()
    return Dataset(found.data, found.target, tuple(found.target_names.tolist()) if name in CLASSIFICATION else None)


def _from_folder(name: str) -> Dataset:
    path = Path(os.environ[VARIABLE]) / _REMOTE[name].file
    if not path.is_file():
        raise FileNotFoundError(f"{VARIABLE} names a folder without {path.name}, the file of {name!r}: {path.parent}")
    if name == "mnist":
        arrays = tables.npz(path, "images", "labels")
        if arrays["labels"].shape != arrays["images"].shape[:1] or arrays["images"].ndim < 2:
            found = f"images {arrays['images'].shape} and labels {arrays['labels'].shape}"
            raise ValueError(f"{path} must have as many labels (samples,) as images; got {found}")
        return _digits(arrays["images"].reshape(len(arrays["images"]), -1), arrays["labels"])
    return Dataset(*tables.read(path, target=-1, classification=False))


def _from_openml(name: str) -> Dataset:
    from sklearn import datasets

    try:  # scikit-learn's other parser fails on numbers declared nominal
        found = datasets.fetch_openml(data_id=_REMOTE[name].openml, as_frame=True, parser="liac-arff")
    except OSError as error:
        raise ConnectionError(
            f"{name!r} could not be fetched from OpenML ({error}). Without a network, put {_REMOTE[name].file} in a folder "
            f"and set {VARIABLE} to it"
        ) from error
    if name == "mnist":
        return _digits(found.data.to_numpy(), found.target.to_numpy())
    return Dataset(found.data.astype(float).to_numpy(), found.target.to_numpy(float))


def _digits(images: np.ndarray, labels: np.ndarray) -> Dataset:
    return Dataset(images / 255.0, labels.astype(int), tuple(range(10)))
