"""Functions of JAX as models: of flax, equinox or one's own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol, TypeGuard

import numpy as np
from numpy.typing import DTypeLike

from consensus import _checks
from consensus.frameworks.base import AGENTS_AWAY, Framework
from consensus.frameworks.jax_compiled import Compiled, Derivatives, Function, PyTree, loaded
from consensus.frameworks.trial import warn_of_probabilities
from consensus.models.layout import NamedArray
from consensus.models.linear import method_of
from consensus.models.linearization import DEVICE_BYTES

if TYPE_CHECKING:
    from jax import Array, Device

_CHANCE = ("random_bits", "random_wrap", "threefry2x32", "rng_bit_generator")  # what JAX draws numbers by


class JAX(Framework):
    """A JAX function as a model: ``f(w, x) = apply(parameters, x)`` with a pytree of parameters.

    Parameters
    ----------
    apply : callable
        ``apply(parameters, x)`` takes a batch x (samples, ...) to (samples, outputs), or (samples,), as flax's ``module.apply``
        does.
    parameters : pytree of arrays of floats, or callable
        The start of a run; with a function ``parameters(key)``, which draws them, every seed has its own start.
    device : str
        Device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ....

    Raises
    ------
    ImportError
        Without JAX: ``pip install 'consensus-opt[jax]'``.
    ValueError
        If the device does not exist.
    TypeError
        If ``apply`` is no function, or ``parameters`` no pytree of arrays of floats.

    Notes
    -----
    The parameter vector holds the arrays in the order of ``jax.tree.leaves(parameters)``, each row by row; :meth:`unflatten`
    puts them together again. Arrays in bfloat16 or float16 compute in it, and are float32 in the vector. In float64 runs JAX
    computes in float64 within the model's calls, whatever it does elsewhere.

    How many outputs there are is known once the shape of a sample is: :class:`consensus.Problem` and
    :func:`consensus.testing.check_model` call :meth:`for_samples` with it. Every shape of arrays is compiled once in a process.
    Results are equal to the bit on all engines, on CPUs of one kind with one version of JAX.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from consensus.models import JAX
    >>> def apply(parameters, x):
    ...     return jnp.tanh(x @ parameters["in"]) @ parameters["out"]
    >>> model = JAX(apply, {"in": np.ones((4, 3)), "out": np.ones((3, 2))})
    >>> model.predict(np.zeros((10, 18)), np.ones((10, 5, 4))).shape
    (10, 5, 2)
    >>> {name: part.shape for name, part in model.unflatten(np.zeros(18)).items()}
    {'in': (4, 3), 'out': (3, 2)}
    """

    def __init__(self, apply: Callable[[PyTree, Array], Array], parameters: PyTree | Function, device: str = "cpu") -> None:
        jax = loaded()
        self._apply = _checks.offers("apply", apply, ("__call__",), "a function apply(parameters, x)")
        leaves = jax.tree.leaves(parameters)
        self._draw: Function | None = parameters if len(leaves) == 1 and callable(leaves[0]) else None
        if not isinstance(device, str):
            raise TypeError(f"device must be a name such as 'cpu' or 'cuda:1'; got {_checks.shown(device)}")
        _device(device)
        self.device = device
        if self.away:
            self.agents_per_call, self.little = AGENTS_AWAY, DEVICE_BYTES
        with self._context(np.float32):
            tree = parameters if self._draw is None else jax.eval_shape(self._draw, jax.random.key(0))
        leaves, self._tree = jax.tree.flatten(tree)
        kinds = [getattr(leaf, "dtype", np.dtype(object)) for leaf in leaves]
        odd = [leaf for leaf, kind in zip(leaves, kinds, strict=True) if not jax.numpy.issubdtype(kind, jax.numpy.floating)]
        if odd or not leaves:
            found = _checks.shown(odd[0] if odd else parameters)
            real = odd and jax.numpy.issubdtype(getattr(odd[0], "dtype", object), jax.numpy.complexfloating)
            remedy = ": give its real and imaginary parts as two arrays, and add them up in apply" if real else ""
            raise TypeError(
                f"parameters must be a pytree of arrays of floats, or a function that draws one; got {found}{remedy}"
            )
        # Those of fewer digits than the run's compute in their own, as functions of JAX do.
        self._halves = [kind if kind.itemsize < 4 else None for kind in kinds]
        self._shapes = [tuple(leaf.shape) for leaf in leaves]
        self.parameters = sum(math.prod(shape) for shape in self._shapes)
        self._start = None if self._draw else np.concatenate(self._whole(leaves))
        self._prepare()

    def __repr__(self) -> str:
        name = getattr(self._apply, "__qualname__", None) or repr(self._apply)
        return f"JAX({name}, {self._tree.unflatten(self._shapes)}, device={self.device!r})"

    @property
    def layout(self) -> tuple[NamedArray, ...]:
        """Names, places and shapes of the arrays; those of a layer's weights end with its outputs, as flax has them."""
        return layout_of(loaded().tree_util.tree_leaves_with_path(self._tree.unflatten(range(len(self._shapes)))), self._shapes)

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """Return the start: the parameters that were given, or those of a key drawn from ``rng``.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        ndarray (P,)
            Parameters.
        """
        _checks.offers("rng", rng, ("integers",), "a NumPy generator, such as numpy.random.default_rng(0)")
        if self._start is not None:
            return self._start.copy()
        jax = loaded()
        with self._context(np.float32):
            leaves = jax.tree.leaves(self._here.draw(rng.integers(2**32, dtype=np.uint32)))
        return np.concatenate(self._whole(leaves))

    def _whole(self, leaves: list[Array]) -> list[np.ndarray]:
        """Return the arrays of parameters as rows, those of fewer digits than float32 in float32."""
        pairs = zip(leaves, self._halves, strict=True)
        return [np.asarray(leaf, np.float32 if half else None).ravel() for leaf, half in pairs]

    def unflatten(self, w: np.ndarray) -> PyTree:
        """Return the pytree of arrays that ``apply`` takes.

        Parameters
        ----------
        w : ndarray (P,)
            Parameters.

        Returns
        -------
        pytree of arrays
            The parameters, in the structure that was given.
        """
        w = _checks.floats("w", w)
        if w.shape != (self.parameters,):
            raise ValueError(f"w must have shape ({self.parameters},) for {self}, such as result.mean; got {w.shape}")
        jax = loaded()
        return jax.tree.map(jax.numpy.array, self._unflatten(w))

    def _unflatten(self, w: Array | np.ndarray) -> PyTree:
        ends = np.cumsum([math.prod(shape) for shape in self._shapes]).tolist()
        leaves = [w[end - math.prod(shape) : end].reshape(shape) for shape, end in zip(self._shapes, ends, strict=True)]
        pairs = zip(leaves, self._halves, strict=True)
        return self._tree.unflatten([leaf.astype(half) if half else leaf for leaf, half in pairs])

    def _outputs(self, w: Array, x: Array) -> Array:
        outputs = self._apply(self._unflatten(w), x)
        if any(self._halves) and hasattr(outputs, "astype"):
            outputs = outputs.astype(w.dtype)
        ndim = getattr(outputs, "ndim", 2)
        return outputs.reshape(len(x), -1) if ndim > 2 or (ndim < 2 and outputs.size == len(x)) else outputs

    @contextmanager
    def _context(self, dtype: DTypeLike) -> Iterator[None]:
        jax = loaded()
        with ExitStack() as settings:  # only what would change anything: each of them takes as long as a small product
            if (device := _device(self.device)) != (jax.config.jax_default_device or jax.local_devices()[0]):
                settings.enter_context(jax.default_device(device))
            if dtype == np.float64 and not jax.config.jax_enable_x64:
                settings.enter_context(jax.enable_x64(True))
            yield

    def _prepare(self) -> None:
        super()._prepare()
        self._here = Compiled(self)

    def _predict(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.asarray(self._here.call("predict", len(x) > 1, w, x)).reshape(*x.shape[:2], self.outputs)

    def _derivatives(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, Derivatives]:
        outputs, kept = self._here.call("linearize", len(x) > 1, w, x)
        return np.asarray(outputs).reshape(*x.shape[:2], self.outputs), Derivatives(self._here, kept, x, w.dtype)

    def gradient_of(self, loss: object) -> Callable[..., None] | None:
        """Return the gradient with a loss as one compiled call: see :class:`Model`.

        Parameters
        ----------
        loss : Loss
            Any loss.

        Returns
        -------
        callable or None
            None if the loss has no ``jax_gradient``.
        """
        warn_of_probabilities(self, loss)
        if type(self) is not JAX or not _has_gradient(loss):
            return None
        return functools.partial(self.pull_back, _slope_of(loss))

    def pull_back(self, slope: Callable[..., Array], w: np.ndarray, x: np.ndarray, *data: np.ndarray, out: np.ndarray) -> None:
        """Write J' u for ``u = slope(f(w, x), *data)`` into ``out``, by one compiled call.

        Parameters
        ----------
        slope : callable
            Takes the outputs (samples, outputs) and the data of one agent as arrays of JAX. It is compiled once: pass the same
            function every time.
        w : ndarray (agents, P)
            Parameters.
        x : ndarray (agents, samples, ...)
            Features.
        *data : ndarray (agents, ...)
            Further arguments of ``slope``.
        out : ndarray (agents, P)
            Where the products are written.
        """
        model, w, x = self._check(w, x)
        with self._context(w.dtype):
            for rows in model._cut(w, x):
                out[rows] = self._here.pull_back(slope, *(array[rows] for array in (w, x, *data)))

    def _jacobian(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.asarray(self._here.jacobian(w, x))

    def _call(self, w: np.ndarray, x: np.ndarray) -> object:
        outputs = self._here.call("predict", False, w[None], x[None])
        return np.asarray(outputs) if hasattr(outputs, "shape") else outputs

    def _path(self, w: np.ndarray, x: np.ndarray) -> tuple[tuple[int, ...], str]:
        traced = loaded().make_jaxpr(self._outputs)(w, x)
        shapes = [made.aval.shape for step in traced.eqns for made in step.outvars]
        sizes = [math.prod(of_sample) for samples, *of_sample in filter(None, shapes) if samples == len(x)]
        random = any(name in str(traced) for name in _CHANCE)
        return (math.prod(x.shape[1:]), *sizes), "draws random numbers, as dropout does: leave that out" if random else ""

    def _backward(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> None:  # traced: much faster than compiling
        loaded().eval_shape(lambda w: loaded().vjp(lambda w: self._outputs(w, x), w)[1](u), w)


class _Loss(Protocol):
    """A loss whose gradient JAX can compile."""

    def jax_gradient(self, outputs: Array, targets: Array) -> Array: ...
    def __hash__(self) -> int: ...


def _has_gradient(loss: object) -> TypeGuard[_Loss]:
    return method_of(loss, "jax_gradient", "gradient") is not None


@functools.lru_cache(maxsize=64)  # one function for a loss: what is compiled is kept by it
def _slope_of(loss: _Loss) -> Callable[..., Array]:
    """Return ``(outputs, targets, weights) -> weights times the loss's derivative``, for an agent's samples."""
    return lambda outputs, targets, weights: weights[:, None] * loss.jax_gradient(outputs, targets)


@functools.cache
def _device(name: str) -> Device:
    platform, _, number = name.partition(":")
    try:
        return loaded().devices(platform)[int(number or 0)]
    except (RuntimeError, IndexError, ValueError) as error:
        raise ValueError(f"device must be one that JAX has here, such as 'cpu'; got {name!r} ({error})") from error


def layout_of(leaves: Iterable[tuple[Iterable[object], object]], shapes: Iterable[tuple[int, ...]]) -> tuple[NamedArray, ...]:
    """Return the layout of the leaves of a pytree with their paths, which follow each other; their last axes are outputs.

    Names are the keys, indices and attributes of a path, joined by dots.
    """
    found, start = [], 0
    for (path, _), shape in zip(leaves, shapes, strict=True):
        keys = (next((getattr(key, kind) for kind in ("key", "idx", "name") if hasattr(key, kind)), key) for key in path)
        found.append(NamedArray(".".join(map(str, keys)), start, shape, -1))
        start += math.prod(shape)
    return tuple(found)
