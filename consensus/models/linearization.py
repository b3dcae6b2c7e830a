"""Products with the Jacobian of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from consensus import _checks
from consensus.models.base import Model

if TYPE_CHECKING:
    from jaxtyping import Float

PASS_BYTES = 32 << 20  # of a pass there and back, on each core: with less, small matrices take longer
DEVICE_BYTES = 256 << 20  # on other devices, which need many samples to be busy


def fitting(numbers: int, dtype: DTypeLike, device: str = "cpu") -> int:
    """Return how many samples fit that take so many numbers each, at least one."""
    size = PASS_BYTES if device.startswith("cpu") else DEVICE_BYTES
    return max(1, size // (max(1, numbers) * np.dtype(dtype).itemsize))


def parts(samples: int, most: int) -> Iterator[slice]:
    """Yield slices of at most so many samples."""
    return (slice(start, min(start + most, samples)) for start in range(0, samples, most))


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

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.models import linearize
    >>> model, x = consensus.Linear(2, bias=False), np.array([[[1.0, 2.0], [3.0, 4.0]]])
    >>> outputs, linearization = linearize(model, np.array([[1.0, 1.0]]), x)
    >>> linearization.jvp(np.array([[1.0, 0.0]])).tolist(), linearization.vjp(np.ones((1, 2, 1))).tolist()
    ([[[1.0], [3.0]]], [[4.0, 6.0]])
    """

    def vjp(
        self, u: Float[np.ndarray, "agents samples outputs"], out: Float[np.ndarray, "agents P"] | None = None
    ) -> Float[np.ndarray, "agents P"]:
        """Return J' u.

        Parameters
        ----------
        u : ndarray (agents, samples, outputs)
            Cotangents.
        out : ndarray (agents, P) or None
            Where the product is written; a new array if None.

        Returns
        -------
        ndarray (agents, P)
            The product of each agent.
        """

    def jvp(self, v: Float[np.ndarray, "agents P"]) -> Float[np.ndarray, "agents samples outputs"]:
        """Return J v.

        Parameters
        ----------
        v : ndarray (agents, P)
            Tangents.

        Returns
        -------
        ndarray (agents, samples, outputs)
            The product of each agent.
        """


if TYPE_CHECKING:
    _Model: TypeAlias = Model
    _Linearization: TypeAlias = Linearization
else:
    _Model = _Linearization = object  # protocols would slow down each isinstance


class ModelDefaults(_Model):
    """Members that :class:`Model` calls optional, of which a model of another class may lack some."""

    parameters: int
    outputs: int
    takes_integers = whole = jacobian_is_constant = stochastic = differs = apart = False
    agents_per_call = least = 1
    output_shape: tuple[int, ...] = ()
    features = for_samples = for_sparse = widths = little = buffers = design = exact = cast(Any, None)
    linearize = jacobian = gram = cast(Any, None)

    def samples_at_once(self, dtype: DTypeLike) -> int:
        """Return how many samples of an agent one pass takes at most; more are worked in several, in bounded memory.

        The number depends on the model alone, so that all engines add up the same parts.
        """
        return fitting(2 * sum((self.widths or (0, self.outputs))[1:]), dtype)

    def worth_a_thread(self, samples: int) -> bool:
        """Return whether agents with so many samples are shared out among threads."""
        return True

    def gradient_of(self, loss: Any) -> Any:  # noqa: ANN401  # any loss; a function or kernels
        """Return a faster way to the gradient with this loss; None if there is none."""
        return None


class LinearizationDefaults(_Linearization):
    """Members that :class:`Linearization` calls optional, of which one of another class may lack some."""

    several = False
    jacobian = gram = upper_gram = diagonal = cast(Any, None)


def linearize(model: Model, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, LinearizationDefaults]:
    """Return the outputs of a model and its linearization at w.

    The linearization takes one (co)tangent or several, and has what else the model's own has; what that lacks is None. Models
    with a ``linearize`` method share a pass through the model between all products; for others every product starts anew, and
    the Jacobian is made by one call of ``vjp`` if the model has no ``jacobian``.

    Parameters
    ----------
    model : Model
        Any model.
    w : ndarray (agents, P)
        Parameters.
    x : ndarray (agents, samples, features)
        Features.

    Returns
    -------
    outputs : ndarray (agents, samples, outputs)
        The outputs f(w, x).
    linearization : Linearization
        Products with the Jacobian of f.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.models import linearize
    >>> model, rng = consensus.MLP([3, 4, 1]), np.random.default_rng(0)
    >>> w, x, v = model.init(rng)[None], rng.standard_normal((1, 6, 3)), rng.standard_normal((1, model.parameters))
    >>> outputs, linearization = linearize(model, w, x)
    >>> slopes = (model.predict(w + 1e-6 * v, x) - model.predict(w - 1e-6 * v, x)) / 2e-6
    >>> outputs.shape, bool(np.allclose(linearization.jvp(v), slopes, atol=1e-8))
    ((1, 6, 1), True)
    """
    whole = model if isinstance(model, ModelDefaults) else _checks.completed(_checks.model(model), ModelDefaults)
    outputs, found = whole.linearize(w, x) if whole.linearize else (model.predict(w, x), _Recomputed(whole, w, x))
    linearization: Any = found if isinstance(found, LinearizationDefaults) else _checks.completed(found, LinearizationDefaults)
    return outputs, linearization if linearization.several else cast(Any, _OneByOne(found, LinearizationDefaults))


class _OneByOne(_checks.Completed):
    """A linearization that takes several (co)tangents, made of one that does not."""

    def vjp(self, u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        if u.ndim == 3:
            return np.asarray(self._own.vjp(u, out))
        return np.stack([self._own.vjp(u[:, k]) for k in range(u.shape[1])], axis=1, out=out)

    def jvp(self, v: np.ndarray) -> np.ndarray:
        if v.ndim == 2:
            return np.asarray(self._own.jvp(v))
        return np.stack([self._own.jvp(v[:, k]) for k in range(v.shape[1])], axis=1)


@dataclass(frozen=True)
class _Recomputed(LinearizationDefaults):
    """The linearization of a model that has none of its own."""

    model: ModelDefaults
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
        jacobian: np.ndarray = self.model.jacobian(self.w, self.x) if self.model.jacobian else self._rows()
        return jacobian if columns is None else jacobian[:, :, columns]

    def _rows(self) -> np.ndarray:
        """Return J by one pass, with an agent for every output of every sample."""
        (agents, samples, *features), outputs = self.x.shape, self.model.outputs
        w = np.repeat(self.w, samples * outputs, axis=0)
        x = np.repeat(self.x.reshape(-1, 1, *features), outputs, axis=0)
        u = np.tile(np.eye(outputs, dtype=w.dtype), (agents * samples, 1))[:, None]
        return self.model.vjp(w, x, u).reshape(agents, samples * outputs, -1)

    @property
    def gram(self) -> Callable[[], np.ndarray] | None:  # if the model has one
        own = self.model.gram
        return own and (lambda: np.asarray(own(self.w, self.x)))


class Linearized(ModelDefaults):
    """The base of models with one forward pass, ``linearize(w, x)``, for every product with the Jacobian J.

    Subclasses define ``linearize`` and ``_predicted(w, x)``, the outputs alone, both for blocks of agents.
    """

    def linearize(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, LinearizationDefaults]:
        """Return ``(f(w, x), linearization)``: one forward pass for all products with the Jacobian at w.

        For w (agents, P) and x (agents, samples, ...); the second is a :class:`consensus.models.Linearization`.
        """
        raise NotImplementedError

    def _predicted(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def predict(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the outputs f(w, x) (agents, samples, outputs).

        Without the axis of agents for one point w (P,) and its x (samples, ...).
        """
        w, x = _checks.floats("w", w), self._numbers(x)
        if w.ndim == 1:
            return np.asarray(self.predict(w[None], x[None])[0])
        few = self.samples_at_once(w.dtype) if x.ndim > 2 else 0
        if not few or x.shape[1] <= few:
            return self._predicted(w, x)
        return np.concatenate([self._predicted(w, x[:, some]) for some in parts(x.shape[1], few)], axis=1)

    def _numbers(self, x: ArrayLike) -> np.ndarray:
        """Return ``x`` as an array of features."""
        return _checks.floats("x", x)

    def vjp(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return J' u (agents, P), for u (agents, samples, outputs)."""
        return self.linearize(w, x)[1].vjp(u)

    def jvp(self, w: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return J v (agents, samples, outputs), for v (agents, P)."""
        return self.linearize(w, x)[1].jvp(v)

    def jacobian(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the Jacobian J (agents, samples * outputs, P), with the outputs of a sample in neighbouring rows."""
        return np.asarray(self.linearize(w, x)[1].jacobian())

    def gram(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return J J' (agents, samples * outputs, samples * outputs), the products of the rows of J."""
        return np.asarray(self.linearize(w, x)[1].gram())
