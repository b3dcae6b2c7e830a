"""The angles between the directions of direct feedback alignment and the gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from consensus import _checks
from consensus.observe.measure import Metric
from consensus.problems import Problem


def alignment(problem: Problem) -> dict[str, Metric]:
    """Return metrics: for each layer of a model with feedback the angle between its direction and its gradient, in degrees.

    At a point w the direction of layer l is that of all agents' samples together, ``sum_i problem.gradient(w)_i``, in the
    layer's parameters, and the gradient is that of the model itself. A direction descends if the angle is below 90 degrees; the
    angle of the last layer is 0. Both take a pass over all samples for each row of the history.

    Parameters
    ----------
    problem : Problem
        A problem whose model is a :class:`consensus.models.DirectFeedback`.

    Returns
    -------
    dict of str to callable
        Functions of the agents' mean (P,) by the names ``angle_0`` (the first layer), ``angle_1``, ...: for
        ``solve(..., metrics=)``.

    Raises
    ------
    TypeError
        If the model has gradients.

    References
    ----------
    Launay, Poli, Krzakala, "Principled training of neural networks with direct feedback alignment", arXiv 1906.04554, 2019, who
    take the angles of the errors of single samples.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.observe import alignment
    >>> model = consensus.models.DirectFeedback(consensus.MLP([3, 5, 1]))
    >>> shards = consensus.partition(np.eye(3), np.ones(3), agents=3)
    >>> angles = alignment(consensus.Problem(model, consensus.SquaredLoss(), shards))
    >>> list(angles), angles["angle_1"](model.init(np.random.default_rng(0)))
    (['angle_0', 'angle_1'], 0.0)
    """
    _checks.problem(problem)
    layers = getattr(problem.model, "layers", None)
    if layers is None:
        raise TypeError(f"problem must have a consensus.models.DirectFeedback as its model; got {problem}")
    angles = _Angles(problem, layers)
    return {f"angle_{layer}": partial(angles.at, layer) for layer in range(len(layers))}


class _Angles:
    """The angles of all layers, remembered at one point."""

    def __init__(self, problem: Problem, layers: tuple[slice, ...]) -> None:
        self._problem, self._exact, self._layers = problem, problem.true_gradients(), layers
        self._point: np.ndarray | None = None
        self._found: list[float] = []

    def at(self, layer: int, mean: np.ndarray) -> float:
        if self._point is None or not np.array_equal(self._point, mean):
            everywhere = np.broadcast_to(mean.astype(self._problem.dtype), (self._problem.agents, len(mean)))
            totals = [problem.gradient(everywhere).sum(axis=0, dtype=float) for problem in (self._problem, self._exact)]
            self._found = [angle(*(total[part] for total in totals)) for part in self._layers]
            self._point = mean.copy()
        return self._found[layer]


def angle(a: np.ndarray, b: np.ndarray) -> float:
    """Return the angle between two vectors in degrees, 0 if they are equal and 90 if one of them is zero.

    It is twice the arctangent of |a' - b'| / |a' + b'|, with unit vectors a' and b', which loses no digits at small angles.
    """
    one, other = (_unit(vector) for vector in (a, b))
    return float(np.degrees(2 * np.arctan2(np.linalg.norm(one - other), np.linalg.norm(one + other))))


def _unit(vector: np.ndarray) -> Any:  # noqa: ANN401  # NumPy's division has no narrower type
    length = np.linalg.norm(vector)
    return vector / length if length > 0 else vector
