"""Check of the laws of models."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from consensus import _checks
from consensus.models.base import Model
from consensus.testing.laws import Report
from consensus.testing.model_trial import Trial


def check_model(
    model: Model,
    features: int | tuple[int, ...] | None = None,
    *,
    samples: int = 5,
    agents: int = 3,
    seed: int = 0,
    dtype: DTypeLike = np.float64,
) -> Report:
    """Check a model on random parameters and features: its products with the Jacobian J against differences and each other.

    J v is compared with central differences of ``predict``, J' u with J v by ``u . J v = J' u . v``. ``jacobian``, ``gram``,
    ``linearize`` and its ``diagonal`` must belong to the same J, if the model has them. An agent's numbers must not depend on
    the other agents', nor the outputs for a sample on other samples. Shapes and dtypes, unchanged arguments, ``init`` and
    copies by cloudpickle are checked, too.

    Parameters
    ----------
    model : Model
        The model to be checked.
    features : int or tuple of int, optional
        Number of features of a sample, or its shape; by default ``model.features``.
    samples, agents : int
        Size of the blocks; at least two agents.
    seed : int
        Seed of parameters, features and directions.
    dtype : {numpy.float64, numpy.float32}
        Dtype of parameters and features; outputs must have it, too.

    Returns
    -------
    Report
        The laws that hold, with the largest relative error of each.

    Raises
    ------
    AssertionError
        If a law does not hold: the message has the model, the method, what it returned and what it should return.

    Examples
    --------
    >>> import consensus
    >>> from consensus.testing import check_model
    >>> report = check_model(consensus.MLP([4, 3, 2]))
    >>> max(report.errors.values()) < 1e-7
    True
    """
    if features is not None and (for_samples := getattr(model, "for_samples", None)):
        model = for_samples(_checks.shape("features", features))
    _checks.model(model)
    own = getattr(model, "features", None)
    if features is None and own is None:
        raise ValueError(f"features must be given, as {type(model).__name__} has no attribute features")
    features = _checks.shape("features", own if features is None else features)
    samples, agents = _checks.count("samples", samples), _checks.count("agents", agents, least=2)
    _checks.choice("dtype", dtype, (np.float64, np.float32, "float64", "float32"))
    trial = Trial(model, (agents, samples, *features), _checks.seed(seed), np.dtype(dtype))
    trial.start(seed)
    trial.products()
    trial.extras()
    trial.copies()
    return Report(repr(model), trial.errors)
