"""Functions of JAX as models: of flax, equinox or one's own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from consensus import _checks, _extras
from consensus.models.framework import Framework
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
        jax = _jax()
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
        jax = _jax()
        with self._context(np.float32):
            leaves = jax.tree.leaves(self._here.draw(rng.integers(2**32, dtype=np.uint32)))
        return np.concatenate([np.asarray(leaf).ravel() for leaf in leaves])

    def unflatten(self, w: np.ndarray) -> Any:
        """The pytree of arrays with the parameters w (P,), for ``apply``."""
        w = _checks.floats("w", w)
        if w.shape != (self.parameters,):
            raise ValueError(f"w must have shape ({self.parameters},) for {self}, such as result.mean; got {w.shape}")
        jax = _jax()
        return jax.tree.map(jax.numpy.array, self._unflatten(w))

    def _unflatten(self, w):
        ends = np.cumsum([math.prod(shape) for shape in self._shapes]).tolist()
        leaves = [w[end - math.prod(shape) : end].reshape(shape) for shape, end in zip(self._shapes, ends, strict=True)]
        return self._tree.unflatten(leaves)

    def _outputs(self, w, x):
        return self._apply(self._unflatten(w), x)

    @contextmanager
    def _context(self, dtype):
        jax = _jax()
        with ExitStack() as settings:  # only what would change anything: each of them takes as long as a small product
            if (device := _device(self.device)) != (jax.config.jax_default_device or jax.local_devices()[0]):
                settings.enter_context(jax.default_device(device))
            if dtype == np.float64 and not jax.config.jax_enable_x64:
                settings.enter_context(jax.enable_x64(True))
            yield

    def _prepare(self):
        super()._prepare()
        self._here = _Compiled(self)

    def _predict(self, w, x):
        return np.asarray(self._here.call("predict", len(x) > 1, w, x)).reshape(*x.shape[:2], self.outputs)

    def _derivatives(self, w, x):
        outputs, kept = self._here.call("linearize", len(x) > 1, w, x)
        return np.asarray(outputs).reshape(*x.shape[:2], self.outputs), _Derivatives(self._here, kept, x, w.dtype)

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
        traced = _jax().make_jaxpr(self._outputs)(w, x)
        shapes = [made.aval.shape for step in traced.eqns for made in step.outvars]
        sizes = [math.prod(of_sample) for samples, *of_sample in filter(None, shapes) if samples == len(x)]
        random = any(name in str(traced) for name in _CHANCE)
        return (math.prod(x.shape[1:]), *sizes), "draws random numbers, as dropout does: leave that out" if random else ""

    def _backward(self, w, x, u):  # traced, which takes much less time than to compile it
        jax = _jax()
        jax.eval_shape(lambda w: jax.vjp(lambda w: self._outputs(w, x), w)[1](u), w)


@functools.lru_cache(maxsize=64)  # one function for a loss: what is compiled is kept by it
def _slope_of(loss: Any) -> Callable[..., Any]:
    """``(outputs, targets, weights) -> weights times the loss's derivative``, of an agent's samples."""
    return lambda outputs, targets, weights: weights[:, None] * loss.jax_gradient(outputs, targets)


class _Compiled:
    """What JAX makes of a model's function, of one agent's arrays and of several agents' one after another."""

    def __init__(self, model):
        jax = _jax()
        # Cores are used by calls for several agents at once: with threads inside them, sums' bits depend on how many there are.
        options = {"xla_cpu_multi_thread_eigen": False} if model.device.startswith("cpu") else None
        self._model, self._compile = model, functools.partial(jax.jit, compiler_options=options)
        self._one, self._several = (_functions(model, over, self._compile) for over in (_alone, _mapped))
        self.jacobian = self._compile(
            lambda w, x: jax.vmap(jax.jacrev(lambda w, sample: model._outputs(w, sample[None])[0]), (None, 0))(w, x)
        )
        self.draw = jax.jit(lambda seed: model._draw(jax.random.key(seed)))

    def pull_back(self, slope, *stacks):
        """J' slope(f(w, x), *data) of stacks w, x and data."""

        def pulled(w, x, *data):
            outputs, back = _jax().vjp(lambda w: self._model._outputs(w, x), w)
            return back(slope(outputs, *data))[0]

        if slope not in self._one:
            self._several[slope], self._one[slope] = (self._compile(over(pulled)) for over in (_mapped, _alone))
        return np.asarray(self.call(slope, len(stacks[0]) > 1, *stacks))

    def call(self, name, several, *arguments):
        """The function of that name on stacks (agents, ...): a single agent's are worked, and given back, without that axis."""
        if several:
            return self._several[name](*arguments)
        return self._one[name](*(array[0] if isinstance(array, np.ndarray) else array for array in arguments))


def _functions(model, over, compiled):
    """By name: ``predict(w, x)``, ``linearize(w, x)``, and of what that keeps ``vjp(of, kept, u)`` and ``jvp(of, kept, v)``.

    The linear function travels as its arrays, ``kept``. The rest, as traced for the shapes ``of`` an agent's arrays, stays
    here: JAX would look through it in every call.
    """
    jax, traced = _jax(), {}

    def linearize(w, x):
        outputs, linear = jax.linearize(lambda w: model._outputs(w, x), w)
        kept, traced[x.shape, w.dtype] = jax.tree.flatten(linear)
        return outputs, kept

    def vjp(of, kept, u):
        w = jax.ShapeDtypeStruct((model.parameters,), u.dtype)
        return jax.linear_transpose(traced[of].unflatten(kept), w)(u)[0]

    def jvp(of, kept, v):
        return traced[of].unflatten(kept)(v)

    def product(function):
        return compiled(lambda of, *arrays: over(functools.partial(function, of))(*arrays), static_argnums=0)

    found = {"predict": compiled(over(model._outputs)), "linearize": compiled(over(linearize))}
    return found | {"vjp": product(vjp), "jvp": product(jvp)}


def _alone(function):
    return function


def _mapped(function):
    # One agent after another in a compiled loop: an agent's arithmetic is the same whatever their number.
    return lambda *stacks: _jax().lax.map(lambda arrays: function(*arrays), stacks)


class _Derivatives:
    """Products with the Jacobian, by what JAX kept of one forward pass."""

    def __init__(self, compiled, kept, x, dtype):
        self._compiled, self._kept, self._samples = compiled, kept, x.shape[:2]
        self._of = x.shape[1:], dtype

    def vjp(self, u):
        return self._product("vjp", u).reshape(len(u), -1)

    def jvp(self, v):
        return self._product("jvp", v).reshape(*self._samples, -1)

    def _product(self, name, tangents):
        return np.asarray(self._compiled.call(name, len(tangents) > 1, self._of, self._kept, tangents))


@functools.cache
def _device(name: str) -> Any:
    platform, _, number = name.partition(":")
    try:
        return _jax().devices(platform)[int(number or 0)]
    except (RuntimeError, IndexError, ValueError) as error:
        raise ValueError(f"device must be one that JAX has here, such as 'cpu'; got {name!r} ({error})") from error


@functools.cache  # calls of small networks take no longer than to look for it
def _jax() -> Any:
    return _extras.module("jax", "consensus.models.JAX", "jax")
