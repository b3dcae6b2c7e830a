"""Nanoseconds an element of the kernels: compiled, by NumPy, by JAX; in cache and out of it; with and without AVX-512."""

import math

import numpy as np
import scipy.sparse as sp

from consensus import kernels
from experiments.benchmarks.timing import again_without_avx512, median_seconds

SIZES = {"in cache": 20_000, "out of it": 4_000_000}  # numbers
COLUMNS = 10  # of logits, for the softmax
SAMPLES, FEATURES = 50, 20  # of an agent, for gradients of linear models
AGENTS = 20  # whose rows are mixed
FACTORS = {"combined": 2, "descended": 3}


def arguments(name, size, dtype):
    """Return arguments to time a kernel on: numbers of either sign, activations for slopes, labels or classes."""
    rng = np.random.default_rng(0)
    x = rng.normal(scale=2, size=size).astype(dtype)
    if name.startswith("linear"):  # a number is a feature of a sample
        x, agents = x.reshape(-1, SAMPLES, FEATURES), size // SAMPLES // FEATURES
        w, c = rng.normal(size=(agents, FEATURES + 1)).astype(dtype), rng.random((agents, SAMPLES)).astype(dtype)
        d = np.zeros_like(c)
        return w, x, d, c, np.array((1, 0, 1), dtype)
    if name in FACTORS:
        rows = rng.normal(size=(FACTORS[name], size)).astype(dtype)
        return *rows, *np.array((0.3, -1.7, 2.9), dtype)[: FACTORS[name], None]
    if name == "mixed":
        matrix = sp.random_array((AGENTS, AGENTS), density=0.2, format="csr", rng=rng, dtype=dtype)
        return x.reshape(AGENTS, -1), matrix.data, *(part.astype(np.intp) for part in (matrix.indices, matrix.indptr))
    if name == "scaled_rows":
        return rng.normal(size=size // COLUMNS**2).astype(dtype), x.reshape(-1, COLUMNS**2)
    if name == "outer":
        return rng.normal(size=size // COLUMNS**2).astype(dtype), x[: COLUMNS**2]
    if name.startswith("upper"):  # of two numbers one is below the diagonal
        order = math.isqrt(size)
        return (np.ones((order, order), dtype),)
    if name == "exp":
        return (-np.abs(x),)
    if name == "softmax_slope":
        return x.reshape(-1, COLUMNS), rng.integers(0, COLUMNS, size // COLUMNS).astype(dtype)
    if name in ("tanh_slope", "sigmoid_slope"):
        return (rng.random(size).astype(dtype),)
    if name.endswith("_backward"):
        return x, rng.random(size).astype(dtype)
    if name.endswith("_sum"):
        return x, rng.normal(size=size).astype(dtype)
    return (x, (x > 0).astype(dtype)) if name in ("logistic_value", "logistic_slope") else (x,)


def result_of(name, given):
    """An array like the kernel's result."""
    if name.startswith("linear") and name.endswith("value"):
        return given[1][:, 0, 0]
    if name == "outer":
        return np.outer(*given)
    return given[1] if name == "scaled_rows" else given[0]


def in_jax():
    """``{name: function}``, jitted; none where JAX is not installed."""
    try:
        import jax
    except ImportError:
        return {}
    jax.config.update("jax_enable_x64", True)
    jnp, nn = jax.numpy, jax.nn

    def outputs(w, x):
        return jnp.einsum("anm,am->an", x, w[:, :-1]) + w[:, -1:]

    def pulled(x, u):
        return jnp.concatenate([jnp.einsum("an,anm->am", u, x), u.sum(axis=1, keepdims=True)], axis=1)

    functions = {
        "tanh_sum": lambda a, b: jnp.tanh(a + b),
        "tanh_slope": lambda h: 1 - h * h,
        "tanh_backward": lambda u, h: u * (1 - h * h),
        "sigmoid_sum": lambda a, b: nn.sigmoid(a + b),
        "sigmoid_slope": lambda h: h * (1 - h),
        "sigmoid_backward": lambda u, h: u * h * (1 - h),
        "sigmoid": nn.sigmoid,
        "softplus": nn.softplus,
        "exp": jnp.exp,
        "logistic_value": lambda f, d: nn.softplus(f) - d * f,
        "logistic_slope": lambda f, d: nn.sigmoid(f) - d,
        "logistic_curvature": lambda f: nn.sigmoid(f) * nn.sigmoid(-f),
        "linear_logistic": lambda w, x, d, c, _: pulled(x, (nn.sigmoid(outputs(w, x)) - d) * c),
        "linear_huber": lambda w, x, d, c, s: pulled(x, jnp.clip(outputs(w, x) - d, -s[2], s[2]) * c),
        "softmax_slope": lambda f, d: nn.softmax(f) - (d[:, None] == jnp.arange(COLUMNS)),
    }
    return {name: jax.jit(function) for name, function in functions.items()}


def nanoseconds(function, size):
    calls = max(1, 100_000 // size)

    def several():
        for _ in range(calls):
            function()

    return median_seconds(several, repeats=15) / calls / size * 1e9


def table():
    names, jitted = [name for name in kernels.__all__ if name != "level"], in_jax()
    print(f"{'ns an element':<20} {'dtype':>8} {'where':>10} {'here':>7} {'NumPy':>7} {'JAX':>7}")
    for where, size in SIZES.items():
        for dtype in (np.float64, np.float32):
            source, target = np.ones(size, dtype), np.empty(size, dtype)
            print(row("copy", dtype, where, nanoseconds(lambda: np.copyto(target, source), size)))  # noqa: B023
            for name in names:
                kernel, given = getattr(kernels, name), arguments(name, size, dtype)
                out = given[0] if name.endswith("_sum") else np.ones_like(result_of(name, given))  # as models call them
                times = [nanoseconds(lambda f=f: f(*given, out=out), size) for f in (kernel, kernel.__wrapped__)]  # noqa: B023
                if name in jitted:
                    device = [jitted[name], *map(on_device, given)]
                    times.append(nanoseconds(lambda f=device: f[0](*f[1:]).block_until_ready(), size))
                print(row(name, dtype, where, *times))


def on_device(array):
    import jax

    return jax.numpy.asarray(array)


def row(name, dtype, where, *times):
    return f"{name:<20} {np.dtype(dtype).name:>8} {where:>10} " + " ".join(f"{time:>7.2f}" for time in times)


def main():
    table()
    again_without_avx512("experiments.benchmarks.kernels")


if __name__ == "__main__":
    main()
