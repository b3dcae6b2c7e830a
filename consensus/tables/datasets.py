"""Data sets by name, and tables of one's own; scikit-learn, which imports slowly, when it is used."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from consensus import _checks
from consensus.tables import readers, svmlight, tables
from consensus.tables.dataset import Dataset
from consensus.tables.frames import Reading, as_frame, is_frame
from consensus.tables.tables import Roles

if TYPE_CHECKING:
    import pandas

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
_READERS = {  # of files that have no form of their own here
    ".arff": "scipy.io.arff.loadarff", ".dta": "pandas.read_stata", ".h5": "pandas.read_hdf", ".html": "pandas.read_html",
    ".json": "pandas.read_json", ".mat": "scipy.io.loadmat", ".npy": "numpy.load", ".ods": "pandas.read_excel",
    ".orc": "pandas.read_orc", ".pkl": "pandas.read_pickle", ".sas7bdat": "pandas.read_sas", ".sav": "pandas.read_spss",
    ".xls": "pandas.read_excel", ".xlsx": "pandas.read_excel", ".xml": "pandas.read_xml",
}  # fmt: skip
CLASSIFICATION = ("breast_cancer", "digits", "iris", "wine_cultivars", "mnist")


def load(
    name: str | os.PathLike[str] | pandas.DataFrame,
    *,
    target: str | int | Sequence[str | int] | None = None,
    classification: bool | None = None,
    categories: Sequence[str | int] = (),
    features: Sequence[str | int] | int | None = None,
    drop: Sequence[str | int] = (),
    weights: str | int | None = None,
    groups: str | int | None = None,
    time: str | int | None = None,
    missing: Literal["error", "drop", "mean", "indicator"] = "error",
    unknown: Literal["error", "zeros"] = "error",
    sep: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    encoding: str | None = None,
    comment: str | None = None,
    header: bool | Sequence[str] | None = None,
    index: bool | str | int | None = None,
    na_values: Sequence[str | float] = (),
) -> Dataset:
    r"""Return a data set by its name, or a table from a file or data frame.

    Parameters
    ----------
    name : str, path or pandas.DataFrame
        ``diabetes``, ``breast_cancer``, ``digits``, ``iris`` and ``wine_cultivars`` (scikit-learn's ``wine``) come with
        scikit-learn. ``boston``, ``kin8nm``, ``wine`` (quality) and ``mnist`` are read from the folder in the environment
        variable ``CONSENSUS_DATA`` (``housing.csv``, ``kin8nm.csv``, ``winequality-white.csv``, the target last;
        ``mnist10k.npz`` with ``images`` and ``labels``); if it is not set, from OpenML through scikit-learn, which keeps a
        copy. OpenML's ``wine`` has the red wines too, its ``mnist`` all 70,000 digits.

        Other names are files: text in ``.csv``, ``.tsv``, ``.txt`` or ``.data``, compressed with ``.gz``, ``.bz2`` or ``.xz``
        after it; ``.parquet`` and ``.feather`` (``pip install 'consensus-opt[parquet]'``); ``.npz`` with arrays ``X`` (samples,
        features) and ``y`` (samples,); ``.svm``, ``.svmlight`` or ``.libsvm``, maybe compressed, whose features are a CSR
        array and stay sparse, and whose target is numbers unless ``classification=True``.
    target : str or int, or a list of them
        For a table: the column to predict, by name or index (negative ones count from the end); several must be numbers. For
        npz the name of the array ``y``.
    classification : bool, optional
        Whether the target is classes; by default it is if it is text or booleans.
    categories : sequence of str or int
        Columns, by name or index, whose values are categories, as text; each category becomes a feature. Columns of pandas'
        ``category`` dtype are categories by themselves.
    features, drop : sequence of str or int
        The columns that are features, by default all that have no other part; columns to leave out. For svmlight ``features``
        is how many there are, if that is more than the largest index in the file, as in that of a test set.
    weights, groups, time : str or int, optional
        Columns that are no features: weights of rows, their groups, such as owners or patients, and times, numbers or dates.
    missing : {"error", "drop", "mean", "indicator"}
        Missing cells of features: an error with all columns that have some; their rows are left out; they stay NaN, and become
        means of the training part in :func:`split` and :func:`folds`, of all samples in :func:`consensus.partition`; with
        ``indicator`` their columns get one more feature that says where. Predictors do the same.
    unknown : {"error", "zeros"}
        Categories in predictions that are not in this table: an error, or zero for each category.
    sep : str, optional
        What stands between cells; by default semicolons, tabs, ``|``, commas or blanks, whichever cut all lines alike.
    decimal, thousands : str
        The decimal point, and what stands between thousands.
    encoding : str, optional
        By default UTF-8, or UTF-16 if a file begins with its mark.
    comment : str, optional
        The character that begins comments.
    header : bool or sequence of str, optional
        Whether the first line is a header; or the names of columns, for a file without one. By default the first line is
        compared with the others, and a warning says so if that does not decide it.
    index : bool or str or int, optional
        Whether the first column is an index, which is no feature; or the column that is. By default it is if it has no name, as
        pandas and R write it.
    na_values : sequence of str or float
        Further cells that are missing.

    Returns
    -------
    Dataset
        The data. Features are float64, or float32 if all of them are float32 in the file; codes of classes follow their sorted
        order.

    Raises
    ------
    ValueError
        For an unknown name or suffix, an unknown column, features that are neither numbers nor categories, a target of numbers
        and text or of numbers written otherwise (with decimal commas, percent signs, as dates, ...), missing (empty, ``?``,
        ``NA``, ``N/A``, ``NaN``, ``null``, ``na_values``) or infinite values, lines of unequal length, no rows, a damaged file.
    FileNotFoundError
        If there is no such file, or ``CONSENSUS_DATA`` names a folder without the one of ``name``.
    ConnectionError
        If OpenML cannot be reached.
    ImportError
        For Parquet and Feather without pyarrow.

    Warns
    -----
    UserWarning
        If it is a guess whether the first line is a header, or the first column an index; it names the argument to give.

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
    roles = Roles(target, classification, categories, features, drop, weights, groups, time, missing, unknown)
    reading = Reading(sep, decimal, thousands, encoding, comment, header, index, na_values)
    if svmlight.is_svmlight(name):
        return Dataset(*svmlight.table(_checks.path("name", name), roles, reading)[:-1])
    frame = as_frame(name)
    if is_frame(frame):
        if reading != Reading():
            raise ValueError("sep, decimal and the like say how a file is read, and go with no data frame")
        return Dataset(*tables.read(frame, roles, reading)[:-1])
    if not isinstance(name, str | os.PathLike) or (name not in NAMES and readers.kind_of(Path(name)) not in tables.SUFFIXES):
        known, suffixes = ", ".join(map(repr, NAMES)), ", ".join((*tables.SUFFIXES, *svmlight.SUFFIXES))
        reader = _READERS.get(readers.kind_of(Path(name))) if isinstance(name, str | os.PathLike) else None
        raise ValueError(
            f"name must be one of {known}, or a file that ends in {suffixes}; got {_checks.shown(name)}"
            + (f": {reader} reads it, and load, split and partition take data frames and arrays" if reader else "")
        )
    if name not in NAMES:
        return Dataset(*tables.read(_checks.path("name", name), roles, reading)[:-1])
    if given := tables.given(roles, reading):
        said = ", ".join(f"{key}={value!r}" for key, value in given.items())
        raise ValueError(f"target, header and the like go with a file and with no name; got name={name!r}, {said}")
    if name in _BUNDLED:
        return _from_scikit_learn(name)
    return _from_folder(name) if os.environ.get(VARIABLE) else _from_openml(name)


def _from_scikit_learn(name: str) -> Dataset:
    from sklearn import datasets

    found = getattr(datasets, f"load_{_BUNDLED[name]}")()
    return Dataset(found.data, found.target, tuple(found.target_names.tolist()) if name in CLASSIFICATION else None)


def _from_folder(name: str) -> Dataset:
    path = _checks.path(VARIABLE, os.environ[VARIABLE]) / _REMOTE[name].file
    if not path.is_file():
        raise FileNotFoundError(f"{VARIABLE} names a folder without {path.name}, the file of {name!r}: {path.parent}")
    if name == "mnist":
        arrays = tables.npz(path, "images", "labels")
        if arrays["labels"].shape != arrays["images"].shape[:1] or arrays["images"].ndim < 2:
            found = f"images {arrays['images'].shape} and labels {arrays['labels'].shape}"
            raise ValueError(f"{path} must have as many labels (samples,) as images; got {found}")
        return _digits(arrays["images"].reshape(len(arrays["images"]), -1), arrays["labels"])
    table = tables.read(path, Roles(-1, classification=False), Reading())
    return Dataset(table.X, table.y)


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
