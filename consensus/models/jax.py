"""Functions of JAX as models: of flax, equinox or one's own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from consensus import _checks
from consensus.models.framework import Framework
from consensus.models.jax_compiled import Compiled, Derivatives, loaded
from consensus.models.loss_methods import method_of

_CHANCE = ("random_bits", "random_wrap", "threefry2x32", "rng_bit_generator")  # what JAX draws numbers by


class JAX(Framework):
    """A JAX function as a model: ``f(w, x) = apply(parameters, x)`` with a pytree of parameters.

    Parameters
    ----------
    apply : callable
        ``apply(parameters, x)`` takes a batch x (samples, ...) to (samples, outputs), as flax's ``module.apply`` does.
    parameters : pytree of arrays of floats, or callable
        The start of a run. Of a function that draws them from a key, ``parameters(key)``, every seed has a start of its own.
    device : str
        Where it is computed: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ....

    Raises
    ------
    ImportError
        Without JAX: ``pip install consensus-opt[jax]``.
    ValueError
        If the device is not there.
    TypeError
        If ``apply`` is no function, or the parameters are none.

    Notes
    -----
    The parameter vector holds the arrays in the order of ``jax.tree.leaves(parameters)``, each row by row; :meth:`unflatten`
    puts them together again. In float64 runs JAX computes in float64 within the model's calls, whatever it does elsewhere.

    How many outputs there are is known once the shape of a sample is: :class:`consensus.Problem` and
    :func:`consensus.testing.check_model` call :meth:`for_samples` with it. Every shape of arrays is compiled once in a process,
    which takes seconds for large models. Results are equal to the bit on all engines, on CPUs of one kind with one version of
    JAX.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np, consensus
    >>> from consensus.models import JAX
    >>> def apply(parameters, x):
    ...     return jnp.tanh(x @ parameters["in"]) @ parameters["out"]
    >>> model = JAX(apply, {"in": np.ones((4, 3)), "out": np.ones((3, 2))})
    >>> model.predict(np.zeros((10, 18)), np.ones((10, 5, 4))).shape
    (10, 5, 2)
    >>> {name: part.shape for name, part in model.unflatten(np.zeros(18)).items()}
    {'in': (4, 3), 'out': (3, 2)}
    """

    def __init__(self, apply: Callable[[Any, Any], Any], parameters: Any, device: str = "cpu") -> None:
        jax = loaded()
        self._apply = _checks.offers("apply", apply, ("__call__",), "a function apply(parameters, x)")
        leaves = jax.tree.leaves(parameters)
        self._draw = parameters if len(leaves) == 1 and callable(leaves[0]) else None
        if not isinstance(device, str):
            raise TypeError(f"device must be a name such as 'cpu' or 'cuda:1'; got {_checks.shown(device)}")
        _device(device)
        self.device = device
        with self._context(np.float32):
            tree = parameters if self._draw is None else jax.eval_shape(self._draw, jax.random.key(0))
        leaves, self._tree = jax.tree.flatten(tree)
        odd = [_checks.shown(leaf) for leaf in leaves if np.dtype(getattr(leaf, "dtype", object)).kind != "f"]
        if odd or not leaves:
            found = odd[0] if odd else _checks.shown(parameters)
            raise TypeError(f"parameters must be a pytree of arrays of floats, or a function that draws one; got {found}")
        self._shapes = [tuple(leaf.shape) for leaf in leaves]
        self.parameters = sum(math.prod(shape) for shape in self._shapes)
        self._start: Any = None if self._draw else np.concatenate([np.asarray(leaf).ravel() for leaf in leaves])
        self._prepare()

    def __repr__(self) -> str:
        name = getattr(self._apply, "__qualname__", None) or repr(self._apply)
        return f"JAX({name}, {self._tree.unflatten(self._shapes)}, device={self.device!r})"

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """The start (P,): the parameters that were given, or those of a key that is drawn from ``rng``."""
        _checks.offers("rng", rng, ("integers",), "a NumPy generator, such as numpy.random.default_rng(0)")
        if self._draw is None:
            return self._start.copy()
        jax = loaded()
        with self._context(np.float32):
            leaves = jax.tree.leaves(self._here.draw(rng.integers(2**32, dtype=np.uint32)))
        return np.concatenate([np.asarray(leaf).ravel() for leaf in leaves])

    def unflatten(self, w: np.ndarray) -> Any:
        """The pytree of arrays with the parameters w (P,), for ``apply``."""
        w = _checks.floats("w", w)
        if w.shape != (self.parameters,):
            raise ValueError(f"w must have shape ({self.parameters},) for {self}, such as result.mean; got {w.shape}")
        jax = loaded()
        return jax.tree.map(jax.numpy.array, self._unflatten(w))

    def _unflatten(self, w):
        ends = np.cumsum([math.prod(shape) for shape in self._shapes]).tolist()
        leaves = [w[end - math.prod(shape) : end].reshape(shape) for shape, end in zip(self._shapes, ends, strict=True)]
        return self._tree.unflatten(leaves)

    def _outputs(self, w, x):
        return self._apply(self._unflatten(w), x)

    @contextmanager
    def _context(self, dtype):
        jax = loaded()
        with ExitStack() as settings:  # only what would change anything: each of them takes as long as a small product
            if (device := _device(self.device)) != (jax.config.jax_default_device or jax.local_devices()[0]):
                settings.enter_context(jax.default_device(device))
            if dtype == np.float64 and not jax.config.jax_enable_x64:
                settings.enter_context(jax.enable_x64(True))
            yield

    def _prepare(self):
        super()._prepare()
        self._here = Compiled(self)

    def _predict(self, w, x):
        return np.asarray(self._here.call("predict", len(x) > 1, w, x)).reshape(*x.shape[:2], self.outputs)

    def _derivatives(self, w, x):
        outputs, kept = self._here.call("linearize", len(x) > 1, w, x)
        return np.asarray(outputs).reshape(*x.shape[:2], self.outputs), Derivatives(self._here, kept, x, w.dtype)

    def gradient_of(self, loss: Any) -> Callable[..., None] | None:
        """As of :class:`Model`: one compiled call; None if the loss does not say its gradient in JAX."""
        if type(self) is not JAX or method_of(loss, "jax_gradient", "gradient") is None:
            return None
        return functools.partial(self.pull_back, _slope_of(loss))

    def pull_back(self, slope: Callable[..., Any], w: np.ndarray, x: np.ndarray, *data: np.ndarray, out: np.ndarray) -> None:
        """Put J' u for ``u = slope(f(w, x), *data)`` (agents, P) into ``out``, by one compiled call.

        ``slope`` takes the outputs (samples, outputs) and the ``data`` of one agent as arrays of JAX. It is compiled once:
        give the same function every time.
        """
        model, w, x = self._check(w, x)
        with self._context(w.dtype):
            for part in model._cut(w, x):
                out[part.rows] = part.own(self._here.pull_back(slope, *map(part.of, (w, x, *data))))

    def _jacobian(self, w, x):
        return np.asarray(self._here.jacobian(w, x))

    def _call(self, w, x):
        outputs = self._here.call("predict", False, w[None], x[None])
        return np.asarray(outputs) if hasattr(outputs, "shape") else outputs

    def _path(self, w, x):
        traced = loaded().make_jaxpr(self._outputs)(w, x)
        shapes = [made.aval.shape for step in traced.eqns for made in step.outvars]
        sizes = [math.prod(of_sample) for samples, *of_sample in filter(None, shapes) if samples == len(x)]
        random = any(name in str(traced) for name in _CHANCE)
        return (math.prod(x.shape[1:]), *sizes), "draws random numbers, as dropout does: leave that out" if random else ""

    def _backward(self, w, x, u):  # traced, which takes much less time than to compile it
        jax = loaded()
        jax.eval_shape(lambda w: jax.vjp(lambda w: self._outputs(w, x), w)[1](u), w)


@functools.lru_cache(maxsize=64)  # one function for a loss: what is compiled is kept by it
def _slope_of(loss: Any) -> Callable[..., Any]:
    """``(outputs, targets, weights) -> weights times the loss's derivative``, of an agent's samples."""
    return lambda outputs, targets, weights: weights[:, None] * loss.jax_gradient(outputs, targets)


@functools.cache
def _device(name: str) -> Any:
    platform, _, number = name.partition(":")
    try:
        return loaded().devices(platform)[int(number or 0)]
    except (RuntimeError, IndexError, ValueError) as error:
        raise ValueError(f"device must be one that JAX has here, such as 'cpu'; got {name!r} ({error})") from error
