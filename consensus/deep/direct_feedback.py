"""Direct feedback alignment: the outputs' errors reach every layer at once, by fixed random matrices."""

from __future__ import annotations

import itertools
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import DTypeLike

from consensus import _checks
from consensus.deep import feedback_layers
from consensus.frameworks.torch import Torch
from consensus.models.linearization import Linearization
from consensus.models.mlp import MLP


class DirectFeedback:
    """A model trained by direct feedback alignment: a layer's error is a random projection of the outputs' error.

    Backpropagation passes the error e, the loss's derivative in the outputs, down through the transposed weights of one layer
    after the other. Here every hidden layer l gets it at once, by a fixed random matrix B_l instead,

        d_l = (e B_l) * s'(a_l),      dW_l = h_{l-1}' d_l,      db_l = sum of d_l over samples,      a_l = h_{l-1} W_l + b_l,

    and the last layer has its true gradient, d_L = e. :meth:`vjp` returns these directions in place of J' u, so that gradients
    of problems are made of them, and any solver that takes gradients alone trains the model. Outputs, objectives, stationarity
    and test errors are those of the model itself. :func:`consensus.observe.alignment` has the angles between these directions
    and the gradients, layer by layer, as metrics.

    Parameters
    ----------
    model : MLP or Torch
        The model, with two layers or more. A PyTorch module is a ``torch.nn.Sequential``: a layer begins at each child with a
        trainable matrix or kernel, and errors reach it after the last child before the next one.
    seed : int
        Seed of the matrices, the same for all agents; at least 0.

    Attributes
    ----------
    exact : MLP or Torch
        The model itself.

    Raises
    ------
    TypeError
        If ``model`` is another one, or its module is no ``Sequential``.
    ValueError
        If it has a single layer, whose gradient needs no feedback; once shapes are known, if a sample's outputs are more
        than one row.

    Notes
    -----
    The practices of [1]_ and of its authors' code are the defaults: all layers share one matrix, of the widest layer, so that
    the error is multiplied once and a layer takes the first columns of the product; entries are normal with variance
    1 / (outputs width), so that a layer's feedback does not grow with its width; activations are tanh, as by default in an MLP.
    Alignment needs wide layers: behind a narrow one the directions cannot turn towards the gradients (the bottleneck of [1]_).

    Directions are no derivatives of the objective: solvers that compare its values along a step, or take Jacobians, as those
    that linearise the model inside the loss, are refused, and step sizes have to be given.

    References
    ----------
    .. [1] Launay, Poli, Krzakala, "Principled training of neural networks with direct feedback alignment", arXiv 1906.04554,
       2019.
    .. [2] Nokland, "Direct feedback alignment provides learning in deep neural networks", NeurIPS 2016.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.models import DirectFeedback
    >>> from consensus.solvers import GradientTracking
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> shards = consensus.partition(X, np.sin(X[:, 0]), agents=5)
    >>> model = DirectFeedback(consensus.MLP([4, 30, 30, 1]))
    >>> problem = consensus.Problem(model, consensus.SquaredLoss(), shards)
    >>> result = consensus.solve(problem, topologies.ring(5), GradientTracking(0.02), rounds=300)
    >>> bool(result.history["objective"][-1] < 0.3 * result.history["objective"][0])
    True
    """

    def __init__(self, model: MLP | Torch, seed: int = 0) -> None:
        self.seed = _checks.count("seed of DirectFeedback", seed, least=0)
        self.exact = model
        self._backward: MLP | Torch | None = None  # of a module it depends on the shape of samples
        if isinstance(model, MLP) and type(model).linearize is MLP.linearize:  # others do not pass errors on in this process
            starts = [start for start, *_ in model.matrices]
        elif isinstance(model, Torch):
            starts = _starts(model)
        else:
            raise TypeError(f"model must be a consensus.MLP or a consensus.models.Torch(module); got {_checks.shown(model)}")
        if len(starts) < 2:
            raise ValueError(f"model must have two layers or more, as one layer's gradient needs no feedback; got {model}")
        #: Places of the layers' parameters in the parameter vector.
        self.layers = tuple(slice(*ends) for ends in itertools.pairwise([*starts, model.parameters]))
        if isinstance(model, MLP):
            self._backward = feedback_layers.with_feedback(model, self.seed)

    def __repr__(self) -> str:
        return f"DirectFeedback({self.exact}, seed={self.seed})"

    def for_samples(self, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> Self:
        """Return this model for samples of a shape: see :meth:`consensus.models.Torch.for_samples`.

        Parameters
        ----------
        shape : tuple of int
            Shape of a sample.
        dtype : dtype
            Dtype of the features.

        Returns
        -------
        DirectFeedback
            The model, with ``features`` and ``outputs``.
        """
        if isinstance(self.exact, MLP):
            return self
        from consensus.deep.feedback_torch import with_feedback

        model = object.__new__(type(self))
        exact = self.exact.for_samples(shape, dtype)
        model.__dict__ |= self.__dict__ | {"exact": exact, "_backward": with_feedback(exact, self.seed)}
        return model

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
        return self.exact.init(rng)

    def predict(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the model's outputs.

        Parameters
        ----------
        w : ndarray (agents, P)
            Parameters, or (P,) of one point.
        x : ndarray (agents, samples, ...)
            Features, or (samples, ...) for one point.

        Returns
        -------
        ndarray (agents, samples, outputs)
            Outputs, or (samples, outputs) of one point.
        """
        return self.exact.predict(w, x)

    def vjp(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return the directions for the outputs' errors u.

        Parameters
        ----------
        w : ndarray (agents, P)
            Parameters.
        x : ndarray (agents, samples, ...)
            Features.
        u : ndarray (agents, samples, outputs)
            Errors.

        Returns
        -------
        ndarray (agents, P)
            The direction of each agent.
        """
        return self.linearize(w, x)[1].vjp(u)

    def jvp(self, w: np.ndarray, x: np.ndarray, v: np.ndarray) -> NoReturn:
        """Raise ``TypeError``: there is no Jacobian whose transpose gives the directions.

        Parameters
        ----------
        w, x, v : ndarray
            As of any model.
        """
        _no_jacobian(self)

    def linearize(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, Linearization]:
        """Return the outputs, and an object whose ``vjp`` has the directions for any errors.

        Parameters
        ----------
        w : ndarray (agents, P)
            Parameters.
        x : ndarray (agents, samples, ...)
            Features.

        Returns
        -------
        outputs : ndarray (agents, samples, outputs)
            The outputs f(w, x).
        linearization : Linearization
            The directions; its ``jvp`` raises ``TypeError``.
        """
        model = self if self._backward is not None else self.for_samples(np.shape(x)[2:], np.asarray(x).dtype)
        assert model._backward is not None, "shapes are known"
        outputs, passed = model._backward.linearize(w, x)
        return outputs, _Directions(self, passed)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # the optional members of a model
        if name in ("jacobian", "gram", "exact", "_backward"):  # the last two before they are set
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.exact if self._backward is None else self._backward, name)


class _Directions:
    """Directions at fixed parameters and features."""

    def __init__(self, model: DirectFeedback, passed: Any) -> None:  # noqa: ANN401  # of a perceptron, or of a framework
        self._model, self._passed = model, passed

    def vjp(self, u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return np.asarray(self._passed.vjp(u, out))

    def jvp(self, v: np.ndarray) -> NoReturn:
        _no_jacobian(self._model)


def _no_jacobian(model: DirectFeedback) -> NoReturn:
    raise TypeError(
        f"{model} has directions by feedback, and no Jacobian: give the solver a step_size=, and take one of gradients alone, "
        "such as GradientTracking(0.1); model.exact is the model itself"
    )


def _starts(model: Torch) -> list[int]:
    """Return where the parameters of each layer of a module begin."""
    from consensus.deep.feedback_torch import layers_of

    layers = layers_of(model._module)
    of_child = {name: number for number, names in enumerate(layers) for name in names}
    places = [(of_child[array.name.partition(".")[0]], array.start) for array in model.layout]
    return [min(start for layer, start in places if layer == number) for number in sorted({layer for layer, _ in places})]
