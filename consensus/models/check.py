"""Whether a model of one's own does what the package expects of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from consensus import _checks
from consensus.models.base import Model
from consensus.models.trial import Trial


@dataclass(frozen=True)
class Report:
    """What :func:`check` found right.

    Attributes
    ----------
    model : str
    parameters, outputs : int
    errors : dict of str to float
        The largest relative error of each comparison.
    """

    model: str
    parameters: int
    outputs: int
    errors: dict[str, float]

    def __str__(self) -> str:
        lines = [f"{self.model}: {self.parameters} parameters, {self.outputs} outputs; all is as it should be"]
        return "\n".join([*lines, *(f"  {name:<42} {error:8.1e}" for name, error in self.errors.items())])

    __repr__ = __str__


def check(
    model: Model,
    features: int | tuple[int, ...] | None = None,
    *,
    samples: int = 5,
    agents: int = 3,
    seed: int = 0,
    dtype: DTypeLike = np.float64,
) -> Report:
    """Try a model on random parameters and features.

    Shapes and dtypes of ``init``, ``predict``, ``jvp`` and ``vjp``; J v against central differences of ``predict``; J' u
    against J v by ``u . J v = J' u . v``; that no agent's numbers have a share in another's, nor a sample's in another's
    outputs, and that no argument is changed; of ``jacobian``, ``gram``, ``linearize`` and its ``diagonal``, where the model has
    them, that they belong to the same J.

    Parameters
    ----------
    model : Model
    features : int or tuple of int, optional
        How many features a sample has, or its shape; by default ``model.features``.
    samples, agents : int
        How many are tried at once; at least two agents.
    seed : int
    dtype : {numpy.float64, numpy.float32}
        Of parameters and features; outputs must have it too.

    Returns
    -------
    Report
        ``print`` shows how exact each comparison was.

    Raises
    ------
    TypeError
        If the model lacks a method, or one returns no array, or one of another dtype.
    ValueError
        If a result is wrong: the message names the method, what it returned and what it should have.

    Examples
    --------
    >>> import consensus
    >>> from consensus.models import check
    >>> report = check(consensus.MLP([4, 3, 2]))
    >>> report.parameters, max(report.errors.values()) < 1e-7
    (23, True)
    """
    if features is not None and hasattr(model, "for_samples"):
        model = model.for_samples(_checks.shape("features", features))
    _checks.model(model)
    if features is None and not hasattr(model, "features"):
        raise ValueError(f"features must be given, as {type(model).__name__} has no attribute features")
    features = _checks.shape("features", getattr(model, "features", None) if features is None else features)
    samples, agents = _checks.count("samples", samples), _checks.count("agents", agents, least=2)
    _checks.choice("dtype", dtype, (np.float64, np.float32, "float64", "float32"))
    trial = Trial(model, (agents, samples, *features), _checks.seed(seed), np.dtype(dtype))
    trial.start(seed)
    trial.products()
    trial.extras()
    return Report(repr(model), trial.P, trial.outputs, trial.errors)
