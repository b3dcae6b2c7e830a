"""A model together with its derivatives along directions in the features."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.deep.convolutional import Convolutional
from consensus.deep.resnet import ResNet
from consensus.deep.tangent_pass import TangentPass
from consensus.models.layers import Layered
from consensus.models.layout import NamedArray
from consensus.models.mlp import MLP

Directions: TypeAlias = Callable[[np.ndarray], np.ndarray]  # x (agents, samples, ...) -> (agents, samples, directions, ...)


class WithTangents:
    """The outputs f(w, x) of a model, and its derivatives D f(w, x) v_t in the features along directions v_t(x).

    A sample has ``outputs = (1 + T) K`` outputs, for T directions and K outputs of the model itself: f, then each D f v_t. Any
    loss can ask for both, as :class:`consensus.TangentPropagation` does, which penalises derivatives along directions in which
    outputs should not change. With a = h W + b and its derivative t = k W, where k is that of h, a layer goes on with s(a) and
    s'(a) t, and backwards from cotangents p of the first and q of the second,

        a^ = s'(a) p + s''(a) t q,     t^ = s'(a) q,     W^ = h' a^ + k' t^,     b^ = a^,     h^ = a^ W',     k^ = t^ W' .

    Parameters
    ----------
    model : MLP, Convolutional or ResNet
        The model.
    directions : callable, or array_like (T, ...)
        Function of features x (agents, samples, ...) that returns the directions (agents, samples, T, ...) of each sample, such
        as derivatives of rotated images; or T directions of the shape of a sample, the same for all.

    Attributes
    ----------
    model : Model
        The model itself, which predicts: ``result.mean`` are its parameters.
    count : int
        T.

    Raises
    ------
    TypeError
        If ``model`` is another one; a module of PyTorch can return both itself, by ``torch.func.jvp`` in its ``forward``.
    ValueError
        If ``directions`` have another shape.

    References
    ----------
    Caterini, Chang, "A geometric framework for convolutional neural networks", arXiv 1608.04374, 2016; Simard, Victorri, LeCun,
    Denker, "Tangent Prop - a formalism for specifying selected invariances in an adaptive network", NIPS 1991.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.models import WithTangents
    >>> model = WithTangents(consensus.MLP([2, 3, 1], "quadratic"), directions=[[1.0, 0.0]])
    >>> w, x, step = np.ones((1, 13)), np.array([[[1.0, 2.0]]]), np.array([1e-6, 0.0])
    >>> f, derivative = model.predict(w, x)[0, 0].tolist()
    >>> f, derivative, round((model.model.predict(w, x + step).item() - f) / 1e-6, 4)
    (49.0, 24.0, 24.0)
    """

    def __init__(self, model: MLP | Convolutional | ResNet, directions: Directions | ArrayLike) -> None:
        if not isinstance(model, MLP | Convolutional | ResNet) or type(model).linearize is not Layered.linearize:
            raise TypeError(
                "model must be a consensus.MLP, models.Convolutional or models.ResNet, whose layers have second derivatives; "
                f"got {_checks.shown(model)}"
            )
        self.model = model
        self.directions = directions if callable(directions) else _Constant(_checks.floats("directions", directions))
        shape = model.features if isinstance(model.features, tuple) else (model.features,)
        found = np.asarray(self.directions(np.zeros((1, 1, *shape))))
        if found.ndim < 4 or found.shape[:2] != (1, 1) or found.shape[3:] != shape or not found.shape[2]:
            wanted = f"(T, {', '.join(map(str, shape))})"
            raise ValueError(f"directions must have shape {wanted} for each sample of {model}; got {found.shape[2:]}")
        self.count = found.shape[2]
        self.parameters, self.outputs = model.parameters, (1 + self.count) * model.outputs
        self.features = model.features
        self.widths = tuple((1 + self.count) * width for width in model.widths)

    def __repr__(self) -> str:
        return f"WithTangents({self.model}, {getattr(self.directions, '__qualname__', self.directions)})"

    @property
    def layout(self) -> tuple[NamedArray, ...]:
        """Names, places and shapes of the model's parameters."""
        return self.model.layout

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """Return the model's start.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        ndarray (P,)
            Parameters.
        """
        return self.model.init(rng)

    def predict(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return outputs and derivatives.

        Parameters
        ----------
        w : ndarray (agents, P)
            Parameters, or (P,) of one point.
        x : ndarray (agents, samples, ...)
            Features, or (samples, ...) for one point.

        Returns
        -------
        ndarray (agents, samples, outputs)
            The outputs f, then each D f v_t, or (samples, outputs) of one point.
        """
        w, x = _checks.floats("w", w), _checks.floats("x", x)
        return self.linearize(w[None], x[None])[0][0] if w.ndim == 1 else self.linearize(w, x)[0]

    def vjp(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return J' u, with the Jacobian J of outputs and derivatives in w.

        Parameters
        ----------
        w : ndarray (agents, P)
            Parameters.
        x : ndarray (agents, samples, ...)
            Features.
        u : ndarray (agents, samples, outputs)
            Cotangents.

        Returns
        -------
        ndarray (agents, P)
            The product of each agent.
        """
        return self.linearize(w, x)[1].vjp(u)

    def jvp(self, w: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return J v.

        Parameters
        ----------
        w : ndarray (agents, P)
            Parameters.
        x : ndarray (agents, samples, ...)
            Features.
        v : ndarray (agents, P)
            Tangents.

        Returns
        -------
        ndarray (agents, samples, outputs)
            The product of each agent.
        """
        return self.linearize(w, x)[1].jvp(v)

    def linearize(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, TangentPass]:
        """Return outputs and derivatives, and products with their Jacobian.

        Parameters
        ----------
        w : ndarray (agents, P)
            Parameters.
        x : ndarray (agents, samples, ...)
            Features.

        Returns
        -------
        outputs : ndarray (agents, samples, outputs)
            The outputs f, then each D f v_t.
        linearization : Linearization
            Products with J, by one pass.
        """
        w, x = self.model._check(w, x)
        directions = np.asarray(self.directions(x), w.dtype)
        if directions.shape != (wanted := (*x.shape[:2], self.count, *x.shape[2:])):
            raise ValueError(f"directions must return shape {wanted} for x {x.shape}; got {directions.shape}")
        passed = TangentPass(self, w, x, np.moveaxis(directions, 2, 1))
        return passed.outputs, passed


class _Constant:
    """The same directions (T, ...) for all samples."""

    def __init__(self, directions: np.ndarray) -> None:
        self.directions = directions

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.broadcast_to(self.directions, (*x.shape[:2], *self.directions.shape))

    def __repr__(self) -> str:
        return f"directions={_checks.shown(self.directions)}"
