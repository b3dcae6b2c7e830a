"""The protocol of models, and their first-order expansion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from consensus import _checks


class Model(Protocol):
    """A function ``f(w, x)`` of parameters w and a sample's features x, for a block of agents at once.

    A model of one's own needs the two numbers and four methods below; :func:`consensus.testing.check_model` tries them.
    Shapes: w and tangents v (agents, P), x (agents, samples, features), outputs and cotangents u (agents, samples, outputs).
    A sample may have any shape: images come as x (agents, samples, channels, height, width) if data of that shape are given.

    What may be relied on, and what is expected:

    - Blocks have any number of agents and samples, one at least. A row of the result belongs to an agent, and depends on its
      row of the arguments alone; an agent's outputs for a sample depend on that sample's features alone.
    - Results are new arrays in the dtype of w, float64 or float32. Arguments are left as they are; some are read-only.
    - Agents with fewer samples are filled up with samples of zeros, which count with weight zero: f must be finite there.
    - Several threads may call a model at the same time, so that it keeps nothing from one call to the next. Worker processes
      get a copy of it, by cloudpickle. What such a copy holds are its settings: a run is resumed with a model of equal ones.

    Notes
    -----
    What a model may have besides, and who asks for it:

    ``features`` : int, or tuple of int
        How many features a sample has, or the shape of a sample: other data are refused.
    ``for_samples(shape)``
        The model for samples of that shape, a tuple, where ``features`` and ``outputs`` are known no sooner: problems take
        that in its place. With ``takes_integers = True`` it is ``for_samples(shape, dtype)`` for features in int32 and int64,
        and returns a model whose ``whole`` says whether they stay so; other models get float64.
    ``widths`` : sequence of int
        How many numbers a sample takes on its way, ``[features, ..., outputs]``. Blocks are cut so that they fit into a core's
        cache, and so that test sets fit into memory; the cheapest way to solve local problems is estimated by it.
    ``together`` : int
        How many agents with little to do one call should have, at least: where so many take much less than each by itself.
    ``jacobian_is_constant`` : bool
        Whether f is linear in w: local solvers then keep their factors from round to round.
    ``jacobian(w, x)``
        J (agents, samples * outputs, P), the outputs of a sample neighbouring rows. By default it is made by one call of
        ``vjp``, in which every output of every sample stands for an agent.
    ``gradient_of(loss)``
        A faster way to the gradient with this loss, ``gradient(w, x, targets, weights, out=)``: it writes
        ``sum_m weights_m J_m' l'(f(w, x_m), d_m)`` of each agent into ``out`` (agents, P). None if there is none. If it is a
        :class:`consensus.kernels.FusedSums`, as that of :class:`consensus.Linear`, it also serves values and regularizers.
    ``design(x)``
        The design matrices Phi (agents, samples, m) of a model ``f(w, x) = Phi(x) W``, w the rows of W (m, outputs): Lipschitz
        constants then are exact, by their singular values.
    ``gram(w, x)``
        J J' (agents, samples * outputs, samples * outputs), where that takes less than J: for local problems with more
        parameters than samples.
    ``linearize(w, x)``
        ``(f(w, x), linearization)``, a :class:`Linearization`, so that one pass through the model serves all products with J at
        w: gradients take one, local solvers and :class:`consensus.solvers.AdaptiveNEXT` many.

    Examples
    --------
    The exponential of a linear function:

    >>> import numpy as np
    >>> class Exponential:
    ...     parameters, outputs = 3, 1
    ...     def init(self, rng):
    ...         return 0.1 * rng.standard_normal(3)
    ...     def predict(self, w, x):
    ...         return np.exp(x @ w[:, :, None])
    ...     def jvp(self, w, x, v):
    ...         return self.predict(w, x) * (x @ v[:, :, None])
    ...     def vjp(self, w, x, u):
    ...         return (x.swapaxes(1, 2) @ (u * self.predict(w, x)))[:, :, 0]
    >>> import consensus
    >>> report = consensus.testing.check_model(Exponential(), features=3)
    """

    @property
    def parameters(self) -> int:
        """Number of parameters, P."""

    @property
    def outputs(self) -> int:
        """Number of outputs for a sample."""

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random start (P,), drawn from ``rng`` alone.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        ndarray (P,)
            Parameters.
        """

    def predict(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """f(w, x), shape (agents, samples, outputs)."""

    def vjp(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """J' u, shape (agents, P), with the Jacobian J of f in w."""

    def jvp(self, w: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """J v, shape (agents, samples, outputs)."""


class Linearization(Protocol):
    """Products with the Jacobian J of a model at fixed parameters w and features x, for a block of agents.

    That of a model's own ``linearize`` needs the two methods below, of one tangent or cotangent of each agent. Results are new
    arrays. One thread at a time asks it; where ``jacobian_is_constant``, it may be kept from round to round.

    Notes
    -----
    What it may have besides, and who asks for it:

    ``several`` : bool
        Whether ``jvp`` takes several tangents of an agent at once, v (agents, count, P), and gives (agents, count, samples,
        outputs), and ``vjp`` several cotangents likewise, as :class:`consensus.solvers.AdaptiveNEXT` asks for them. Otherwise
        they go through one after another.
    ``jacobian(columns=None)``
        J (agents, samples * outputs, P), or its columns in a sorted array of integers: for local problems where that is less
        work than products, and for :class:`consensus.surrogates.Blocks`.
    ``gram()``
        J J' (agents, samples * outputs, samples * outputs): for local problems with more parameters than samples.
    ``diagonal(weights)``
        That of J' diag(weights) J, shape (agents, P), with weights like the outputs, zero on samples that fill up shards: to
        precondition conjugate gradients.
    """

    def vjp(self, u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """J' u (agents, P) for u (agents, samples, outputs), written to ``out`` and returned, if that is given."""

    def jvp(self, v: np.ndarray) -> np.ndarray:
        """J v (agents, samples, outputs) for v (agents, P)."""


def linearize(model: Model, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, Linearization]:
    """Evaluate ``model`` at w and return ``(outputs, linearization)``.

    The linearization takes one (co)tangent or several, and has what else the model's own has. Models with a ``linearize``
    method share a pass through the model between all products; for others every product starts anew, and the Jacobian is made
    by one call of ``vjp`` where the model offers none.
    """
    _checks.model(model)
    if not hasattr(model, "linearize"):
        return model.predict(w, x), _OneByOne(_Recomputed(model, w, x))
    outputs, linearization = model.linearize(w, x)
    return outputs, linearization if getattr(linearization, "several", False) else _OneByOne(linearization)


@dataclass(frozen=True)
class _OneByOne:
    """A linearization that takes several (co)tangents, made of one that does not."""

    single: Linearization

    def vjp(self, u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        if u.ndim == 3:
            return self.single.vjp(u, out)
        return np.stack([self.single.vjp(u[:, k]) for k in range(u.shape[1])], axis=1, out=out)

    def jvp(self, v: np.ndarray) -> np.ndarray:
        if v.ndim == 2:
            return self.single.jvp(v)
        return np.stack([self.single.jvp(v[:, k]) for k in range(v.shape[1])], axis=1)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # optional members, which take no tangents
        return getattr(self.single, name)


@dataclass(frozen=True)
class _Recomputed:
    """The linearization of a model that has none of its own."""

    model: Model
    w: np.ndarray
    x: np.ndarray

    def vjp(self, u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        result = self.model.vjp(self.w, self.x, u)
        if out is None:
            return result
        out[...] = result
        return out

    def jvp(self, v: np.ndarray) -> np.ndarray:
        return self.model.jvp(self.w, self.x, v)

    def jacobian(self, columns: np.ndarray | None = None) -> np.ndarray:
        jacobian: np.ndarray = self.model.jacobian(self.w, self.x) if hasattr(self.model, "jacobian") else self._rows()
        return jacobian if columns is None else jacobian[:, :, columns]

    def _rows(self) -> np.ndarray:
        """Return J by one pass, with an agent for every output of every sample."""
        (agents, samples, *features), outputs = self.x.shape, self.model.outputs
        w = np.repeat(self.w, samples * outputs, axis=0)
        x = np.repeat(self.x.reshape(-1, 1, *features), outputs, axis=0)
        u = np.tile(np.eye(outputs, dtype=w.dtype), (agents * samples, 1))[:, None]
        return self.model.vjp(w, x, u).reshape(agents, samples * outputs, -1)

    def __getattr__(self, name: str) -> Callable[[], np.ndarray]:
        if name == "gram" and hasattr(self.model, name):
            gram = getattr(self.model, name)
            return lambda: np.asarray(gram(self.w, self.x))
        raise AttributeError(name)
