"""Compiled functions of a model of JAX."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from consensus import _extras


@functools.cache  # calls of small networks take no longer than to look for it
def loaded() -> Any:
    return _extras.module("jax", "consensus.models.JAX", "jax")


class Compiled:
    """What JAX makes of a model's function, of one agent's arrays and of several agents' one after another."""

    def __init__(self, model):
        jax = loaded()
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
            outputs, back = loaded().vjp(lambda w: self._model._outputs(w, x), w)
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
    jax, traced = loaded(), {}

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
    return lambda *stacks: loaded().lax.map(lambda arrays: function(*arrays), stacks)


class Derivatives:
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
