"""Real data sets by name.

scikit-learn is imported where it is used: it takes longer than all the rest, and workers have no use for it.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from consensus import _checks

VARIABLE = "CONSENSUS_DATA"


class _Remote(NamedTuple):
    file: str  # in the folder of local copies
    openml: int  # the set's id there


_BUNDLED = ("diabetes", "breast_cancer", "digits")
_REMOTE = {
    "boston": _Remote("housing.csv", 531),
    "kin8nm": _Remote("kin8nm.csv", 189),
    "wine": _Remote("winequality-white.csv", 287),
    "mnist": _Remote("mnist10k.npz", 554),
}
NAMES = (*_BUNDLED, *_REMOTE)
CLASSIFICATION = ("breast_cancer", "digits", "mnist")


def load(name):
    """The data set ``name`` as ``(X, y)``: X (samples, features) float64, y (samples,) float64 or integer classes.

    ``diabetes``, ``breast_cancer`` and ``digits`` come with scikit-learn. ``boston``, ``kin8nm``, ``wine`` (quality) and
    ``mnist`` are read from the folder named by the environment variable ``CONSENSUS_DATA`` (``housing.csv``,
    ``kin8nm.csv``, ``winequality-white.csv`` without header, the target last; ``mnist10k.npz`` with ``images`` and
    ``labels``); where that is not set, from OpenML through scikit-learn, which keeps a copy.

    Raises
    ------
    ValueError
        For an unknown name or a file that is not what it should be.
    FileNotFoundError
        If ``CONSENSUS_DATA`` names a folder without the file.
    ConnectionError
        If OpenML cannot be reached.

    Examples
    --------
    >>> X, y = load("diabetes")
    >>> X.shape, y.shape
    ((442, 10), (442,))
    """
    _checks.choice("name", name, NAMES)
    if name in _BUNDLED:
        from sklearn import datasets

        return getattr(datasets, f"load_{name}")(return_X_y=True)
    if not os.environ.get(VARIABLE):
        return _from_openml(name)
    path = Path(os.environ[VARIABLE]) / _REMOTE[name].file
    if not path.is_file():
        raise FileNotFoundError(f"{VARIABLE} names a folder without {path.name}, the file of {name!r}: {path.parent}")
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return arrays["images"].reshape(len(arrays["images"]), -1) / 255.0, arrays["labels"].astype(int)
    table = np.loadtxt(path, delimiter=",", ndmin=2)
    return table[:, :-1], table[:, -1]


def _from_openml(name):
    from sklearn import datasets

    try:
        X, y = datasets.fetch_openml(data_id=_REMOTE[name].openml, return_X_y=True, as_frame=False, parser="auto")
    except OSError as error:
        raise ConnectionError(
            f"{name!r} could not be fetched from OpenML ({error}). Without a network, put {_REMOTE[name].file} in a folder "
            f"and set {VARIABLE} to it"
        ) from error
    if name == "mnist":
        return X / 255.0, y.astype(int)
    return X.astype(float), y.astype(float)


class Split(NamedTuple):
    """A data set in two parts, standardised by the training part."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def split(X, y, *, test_size=0.2, seed=0, classification=False):
    """Split ``(X, y)`` at random into a training and a test part, and standardise.

    Features get mean zero and variance one on the training part (constant ones become zero), and so do the targets unless
    they are classes. In classification the parts keep the proportions of the classes.

    Returns
    -------
    Split

    Examples
    --------
    >>> parts = split(*load("diabetes"))
    >>> parts.X.shape, parts.X_test.shape
    ((353, 10), (89, 10))
    """
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    test_size = _checks.number("test_size", test_size, above=0, below=1)
    stratify = y if classification else None
    X, X_test, y, y_test = train_test_split(X, y, test_size=test_size, random_state=seed, stratify=stratify)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    if not classification:
        scaler = StandardScaler().fit(y[:, None])
        y, y_test = scaler.transform(y[:, None])[:, 0], scaler.transform(y_test[:, None])[:, 0]
    return Split(X, y, X_test, y_test)
