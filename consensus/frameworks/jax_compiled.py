"""Compiled functions of a model of JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from consensus import _extras

if TYPE_CHECKING:
    from jax import Array

PyTree: TypeAlias = Any  # nested containers of arrays
Function: TypeAlias = Callable[..., PyTree]  # of arrays, or pytrees of them


@functools.cache  # calls of small networks take no longer than to look for it
def loaded() -> ModuleType:
    """Return the package jax; raise ``ImportError`` with what to install if it is missing."""
    return _extras.module("jax", "consensus.models.JAX", "jax")


class Compilable(Protocol):
    """The part of a ``JAX`` model that is compiled: its function of w (P,) and x (samples, ...)."""

    parameters: int
    device: str
    _draw: Function | None

    def _outputs(self, w: Array, x: Array) -> Array: ...


class Compiled:
    """A model's functions as JAX compiles them, for one agent's arrays and for several agents' one after another."""

    def __init__(self, model: Compilable) -> None:
        jax = loaded()
        # Cores are used by calls for several agents at once: with threads inside them, sums' bits depend on how many there are.
        options = {"xla_cpu_multi_thread_eigen": False} if model.device.startswith("cpu") else None
        self._model, self._compile = model, functools.partial(jax.jit, compiler_options=options)
        self._one, self._several = (_functions(model, over, self._compile) for over in (_alone, _mapped))
        self.jacobian = self._compile(
            lambda w, x: jax.vmap(jax.jacrev(lambda w, sample: model._outputs(w, sample[None])[0]), (None, 0))(w, x)
        )
        draw = _alone if model._draw is None else model._draw  # not called where the parameters are given
        self.draw: Function = jax.jit(lambda seed: draw(jax.random.key(seed)))

    def pull_back(self, slope: Function, *stacks: np.ndarray) -> np.ndarray:
        """Return J' slope(f(w, x), *data) for stacks w, x and data."""

        def pulled(w: Array, x: Array, *data: Array) -> Array:
            outputs, back = loaded().vjp(lambda w: self._model._outputs(w, x), w)
            return back(slope(outputs, *data))[0]

        if slope not in self._one:
            self._several[slope], self._one[slope] = (self._compile(over(pulled)) for over in (_mapped, _alone))
        return np.asarray(self.call(slope, len(stacks[0]) > 1, *stacks))

    def call(self, name: Hashable, several: bool, *arguments: PyTree) -> PyTree:
        """Call the function of that name on stacks (agents, ...); a single agent's go in and come back without that axis."""
        if several:
            return self._several[name](*arguments)
        return self._one[name](*(array[0] if isinstance(array, np.ndarray) else array for array in arguments))


def _functions(
    model: Compilable, over: Callable[[Function], Function], compiled: Callable[..., Function]
) -> dict[Hashable, Function]:
    """Return ``predict(w, x)`` and ``linearize(w, x)``; with what that keeps, ``vjp(of, kept, u)`` and ``jvp(of, kept, v)``.

    The linear function travels as its arrays, ``kept``. The rest, as traced for the shapes ``of`` an agent's arrays, stays
    here: JAX would look through it in every call.
    """
    jax, traced = loaded(), dict[Hashable, PyTree]()

    def linearize(w: Array, x: Array) -> tuple[Array, list[Array]]:
        outputs, linear = jax.linearize(lambda w: model._outputs(w, x), w)
        kept, traced[x.shape, w.dtype] = jax.tree.flatten(linear)
        return outputs, kept

    def vjp(of: Hashable, kept: list[Array], u: Array) -> Array:
        w = jax.ShapeDtypeStruct((model.parameters,), u.dtype)
        return jax.linear_transpose(traced[of].unflatten(kept), w)(u)[0]

    def jvp(of: Hashable, kept: list[Array], v: Array) -> Array:
        return traced[of].unflatten(kept)(v)

    def product(function: Function) -> Function:
        return compiled(lambda of, *arrays: over(functools.partial(function, of))(*arrays), static_argnums=0)

    found: dict[Hashable, Function] = {"predict": compiled(over(model._outputs)), "linearize": compiled(over(linearize))}
    return found | {"vjp": product(vjp), "jvp": product(jvp)}


def _alone(function: Function) -> Function:
    return function


def _mapped(function: Function) -> Function:
    # One agent after another in a compiled loop: an agent's arithmetic is the same whatever their number.
    return lambda *stacks: loaded().lax.map(lambda arrays: function(*arrays), stacks)


class Derivatives:
    """Products with the Jacobian, by what JAX kept of one forward pass."""

    def __init__(self, compiled: Compiled, kept: list[Array], x: np.ndarray, dtype: np.dtype) -> None:
        self._compiled, self._kept, self._samples = compiled, kept, x.shape[:2]
        self._of = x.shape[1:], dtype

    def vjp(self, u: np.ndarray) -> np.ndarray:
        return self._product("vjp", u).reshape(len(u), -1)

    def jvp(self, v: np.ndarray) -> np.ndarray:
        return self._product("jvp", v).reshape(*self._samples, -1)

    def _product(self, name: str, tangents: np.ndarray) -> np.ndarray:
        return np.asarray(self._compiled.call(name, len(tangents) > 1, self._of, self._kept, tangents))
