"""Trained models with what turns tables into their inputs, in one file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax

from consensus import _checks
from consensus.models import Model
from consensus.owners import predictor_file
from consensus.tables.frames import Classes, Columns
from consensus.tables.pipeline import Given, Pipeline
from consensus.tables.readers import ReadingOptions


def probabilities(outputs: np.ndarray) -> np.ndarray:
    """Return the probability of every class (samples, classes), of logits (samples, outputs)."""
    if outputs.shape[1] > 1:
        return np.asarray(softmax(outputs, axis=1))
    return np.concatenate([expit(-outputs), expit(outputs)], axis=1)


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained model that predicts from tables, in original units.

    Parameters
    ----------
    model : Model
        The model.
    w : ndarray (P,)
        Its parameters.
    pipeline : Pipeline
        Columns, categories, scalers and classes.

    Raises
    ------
    TypeError, ValueError
        If they do not fit each other.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, pandas as pd, consensus
    >>> from consensus.data import Columns, Pipeline
    >>> pipeline = Pipeline(Columns(("age",), {}), np.array([40.0]), np.array([10.0]), "days", shift=5.0, spread=2.0)
    >>> predictor = consensus.Predictor(consensus.Linear(1), np.array([1.0, 0.5]), pipeline)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     predictor.save(pathlib.Path(folder, "days.predictor"))
    ...     again = consensus.load(pathlib.Path(folder, "days.predictor"))
    >>> again.predict(pd.DataFrame({"age": [40, 50]}))
    array([6., 8.])
    """

    model: Model
    w: np.ndarray
    pipeline: Pipeline

    def __post_init__(self) -> None:
        if not isinstance(self.pipeline, Pipeline):
            raise TypeError(
                "pipeline must be a Pipeline, such as that of consensus.data.own(...) or consensus.datasets.split(...); "
                f"got {_checks.shown(self.pipeline)}"
            )
        object.__setattr__(self, "model", getattr(self.model, "plain", self.model))
        features = len(self.pipeline.mean)
        for_samples = getattr(self.model, "for_samples", None)  # of models that learn from samples what their outputs are
        object.__setattr__(self, "model", _checks.model(for_samples((features,)) if for_samples else self.model))
        if getattr(self.model, "buffers", None) is not None:
            raise TypeError(
                f"model must have the means and variances of its batch normalisation; got {self.model}: give "
                "model=problem.model.evaluated(problem.buffers(w))"
            )
        w = _checks.floats("w", self.w)
        if w.shape != (self.model.parameters,) or not np.isfinite(w).all():
            raise ValueError(
                f"w must be {self.model.parameters} finite parameters (P,) of {self.model}; got {_checks.shown(self.w)}"
            )
        outputs, classes = self.model.outputs, self.pipeline.classes
        if (wanted := getattr(self.model, "features", None)) not in (None, features, (features,)):
            raise ValueError(f"model must take the {features} features of the pipeline; {self.model} takes {wanted}")
        if classes is not None and outputs != len(classes) and (outputs, len(classes)) != (1, 2):
            raise ValueError(f"model must have an output for each of {len(classes)} classes, or one for 2; got {outputs}")
        object.__setattr__(self, "w", w)

    @property
    def columns(self) -> Columns | None:
        """The columns of a table, and their categories."""
        return self.pipeline.columns

    @property
    def classes(self) -> Classes | None:
        """The classes, None in regression."""
        return self.pipeline.classes

    def outputs(self, data: Given | ArrayLike, **reading: Unpack[ReadingOptions]) -> np.ndarray:
        """Return the model's outputs, such as logits.

        Parameters
        ----------
        data : pandas.DataFrame, path or array_like (samples, features)
            A table with the columns of the training data in any order, or its file; or an array, whose columns are taken in the
            order of training.
        **reading
            How its file is read, if not as that of the training data: ``sep``, ``decimal`` and so on, as by
            :func:`consensus.datasets.load`.

        Returns
        -------
        ndarray (samples, outputs)
            The outputs.

        Raises
        ------
        TypeError, ValueError
            If the table does not have these columns; see :meth:`consensus.data.Pipeline.transform`.
        """
        return np.asarray(self.model.predict(self.w, self.pipeline.transform(data, **reading)))

    def predict(self, data: Given | ArrayLike, **reading: Unpack[ReadingOptions]) -> np.ndarray:
        """Return predictions.

        Parameters
        ----------
        data : pandas.DataFrame, path or array_like (samples, features)
            As for :meth:`outputs`.
        **reading
            As for :meth:`outputs`.

        Returns
        -------
        ndarray (samples,) or (samples, outputs)
            Numbers in original units, or the most probable classes.

        Raises
        ------
        TypeError, ValueError
            As by :meth:`outputs`.
        """
        return self._predicted(self.outputs(data, **reading))

    def _predicted(self, outputs: np.ndarray) -> np.ndarray:
        if self.classes is None:
            return self.pipeline.original(outputs)
        places = (outputs[:, 0] > 0).astype(int) if outputs.shape[1] == 1 else outputs.argmax(axis=1)
        return np.asarray(np.array(self.classes)[places])

    def predict_proba(self, data: Given | ArrayLike, **reading: Unpack[ReadingOptions]) -> np.ndarray:
        """Return the probability of every class, for a model that was trained with ``LogisticLoss`` or ``CrossEntropy``.

        Parameters
        ----------
        data : pandas.DataFrame, path or array_like (samples, features)
            As for :meth:`outputs`.
        **reading
            As for :meth:`outputs`.

        Returns
        -------
        ndarray (samples, classes)
            Probabilities, in the order of ``classes``.

        Raises
        ------
        TypeError, ValueError
            As by :meth:`outputs`; if the target is numbers.
        """
        if self.classes is None:
            raise TypeError("predict_proba needs classes; the target of this predictor is numbers")
        return probabilities(self.outputs(data, **reading))

    def score(self, data: Given, **reading: Unpack[ReadingOptions]) -> float:
        """Return how good predictions are for a table with the target.

        Parameters
        ----------
        data : pandas.DataFrame or path
            The table, or its file.
        **reading
            As for :meth:`outputs`.

        Returns
        -------
        float
            The share of right classes, or the coefficient of determination R^2, as by scikit-learn's ``score``.

        Raises
        ------
        TypeError, ValueError
            As by :meth:`outputs`; if the table lacks the target.
        """
        from sklearn.metrics import r2_score

        inputs, targets = self.pipeline.both(data, **reading)
        predicted = self._predicted(np.asarray(self.model.predict(self.w, inputs)))
        if self.classes is None:
            return float(r2_score(self.pipeline.original(targets), predicted))
        return float((np.array(self.classes)[targets[:, 0].astype(int)] == predicted).mean())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the predictor to a file, for :func:`consensus.load`: NumPy's npz, without pickle, with a checksum.

        Of ``Linear``, ``MLP`` and ``models.ResNet`` the file has the settings. Other models, those of PyTorch and JAX among
        them, are given to ``consensus.load(path, model=model)`` again, because code is not saved.

        Parameters
        ----------
        path : path
            Such as ``"days.predictor"``; nothing is appended to it.

        Raises
        ------
        TypeError
            If a class is neither text, number nor boolean.
        ValueError
            If the path is none of a file.
        """
        file = _checks.path("path", path)
        if not file.name:
            raise ValueError(f"path must be that of a file; got {path!r}")
        predictor_file.write(file, self.model, self.w, self.pipeline)
