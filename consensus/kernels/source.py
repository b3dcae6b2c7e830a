"""The kernels of numbers as Numba compiles them; ``loops.py`` makes NumPy ufuncs of them.

All rest on one expansion of ``exp(-2 a)`` for a >= 0. With C = ln(2) / 2 and n the integer next to a / C,

    a = n C + r,  |r| <= C / 2        exp(-2 a) = 2^-n (Q - R) / (Q + R)        R / Q = tanh(r)

and R / Q is Lambert's continued fraction ``r / (1 + z / (3 + z / (5 + ...)))``, z = r^2 <= 0.0301. Cut off after the 13 its
numerator and denominator have integer coefficients, and a relative error of 5e-19; after the 5, for float32, of 2e-8. Because
the exponential is a ratio, tanh, sigmoid and the others divide once. C is the sum of a short number, whose product with n is
exact, and of the rest (Cody, Waite). n is read off the last bits of a sum with 1.5 * 2^52, as a conversion to an integer has no
vector instruction before AVX-512.

Results have the same bits wherever an element stands, and on every machine: LLVM may not reorder or contract what is written.
NaN is told by its bits and passed on at the end; a comparison of floats would raise the flag of which NumPy warns.
"""

import functools

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

_INTEGERS = {types.float64: types.int64, types.float32: types.int32}
_FLOATS = {integer: number for number, integer in _INTEGERS.items()}
# Only compiled functions call them: no wrappers are needed for others, options that Numba's annotations do not know.
inline = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]


def cast(result, how):
    return lambda context, builder, signature, arguments: getattr(builder, how)(arguments[0], context.get_value_type(result))


@intrinsic
def bits(typing, x):
    return _INTEGERS[x](x), cast(_INTEGERS[x], "bitcast")


@intrinsic
def float_of(typing, i):
    return _FLOATS[i](i), cast(_FLOATS[i], "bitcast")


@intrinsic
def pointer(typing, address, like):
    return types.CPointer(like)(address, like), cast(types.CPointer(like), "inttoptr")


@functools.cache
def functions(dtype):
    """``{name: function}`` for numbers of ``dtype``, float64 or float32."""
    T, integer, double = dtype.type, np.dtype(f"i{dtype.itemsize}").type, dtype.itemsize == 8
    zero, one, two, three, half = map(T, (0, 1, 2, 3, 0.5))
    mantissa, bias = (52, 1022) if double else (23, 126)
    sign, infinity = integer(np.iinfo(integer).min), T(np.inf).view(integer)
    size = integer(np.iinfo(integer).max)
    magic, down, top = T(1.5 * 2.0**mantissa), T(2.0**-bias), integer((2 * bias + 1) << mantissa)
    most = T(374 if double else 53).view(integer)  # the exponential is zero from here on
    shortened = ("0x1.62e42fefa38p-2", "0x1.ef35793c7673p-46") if double else ("0x1.62e4p-2", "0x1.7f7d1cp-21")
    short, rest = (T(float.fromhex(part)) for part in shortened)  # 42 or 15 bits of C
    per, ln2, middle = T(2.8853900817779268), T(0.6931471805599453), T(0.4142)

    if double:  # 3/2 times the integers: sums that are large within their binade round less

        @inline
        def fraction(r, z):
            R = r * (T(15592.5) + z * (T(1890) + z * T(31.5)))
            return R, T(15592.5) + z * (T(7087.5) + z * (T(315) + z * T(1.5)))

        @inline
        def series(w):  # 2 artanh(v) / v for w = v^2 <= 0.0295: the terms 2 w^k / (2 k + 1), to 4e-17
            tail = T(2 / 11) + w * (T(2 / 13) + w * (T(2 / 15) + w * (T(2 / 17) + w * T(2 / 19))))
            return two + w * (T(2 / 3) + w * (T(2 / 5) + w * (T(2 / 7) + w * (T(2 / 9) + w * tail))))

    else:

        @inline
        def fraction(r, z):
            return r * (T(15) + z), T(15) + z * T(6)

        @inline
        def series(w):
            return two + w * (T(2 / 3) + w * (T(2 / 5) + w * (T(2 / 7) + w * T(2 / 9))))

    @inline
    def passing_nan(result, x):
        return result if integer(bits(x) & size) <= infinity else x

    @inline
    def expand(a):
        """``(up, Q, R)`` with ``exp(-2 a) = up down (Q - R) / (Q + R)``: 2^-n is in two parts as it may be subnormal."""
        a = float_of(bits(a) if bits(a) < most else most)
        t = a * per + magic
        n = t - magic
        r = (a - n * short) - n * rest
        R, Q = fraction(r, r * r)
        return float_of(integer(top - (bits(t) << mantissa))), Q, R

    @inline
    def parts(x):
        """``(up, N, D)`` with ``exp(-|x|) = up down N / D``."""
        up, Q, R = expand(half * abs(x))
        return up, Q - R, Q + R

    @inline
    def log1p_exp(x):
        """log(1 + exp(-|x|)) = ln 2 + log((1 + e) / 2) or log(1 + e), each 2 artanh of a ratio v with |v| <= 0.172."""
        up, N, D = parts(x)
        N *= up * down
        large = middle * D < N
        v = (N - D if large else N) / ((three * D if large else two * D) + N)
        return v * series(v * v) + (ln2 if large else zero)

    @inline
    def tanh(x):
        up, Q, R = expand(abs(x))
        s = up * down
        h = ((one - s) * Q + (one + s) * R) / ((one + s) * Q + (one - s) * R)
        return passing_nan(float_of(integer(bits(h) | (bits(x) & sign))), x)

    @inline
    def sigmoid(x):
        up, N, D = parts(x)
        right = bits(x) >= 0
        ratio = (D if right else N) / (D + (up * down) * N)
        return passing_nan(ratio * (one if right else up) * (one if right else down), x)

    @inline
    def softplus(x):
        return passing_nan((x if bits(x) >= 0 else zero) + log1p_exp(x), x)

    @inline
    def tanh_sum(a, b):
        return tanh(a + b)

    @inline
    def sigmoid_sum(a, b):
        return sigmoid(a + b)

    @inline
    def tanh_slope(h):
        return (one - h) * (one + h)

    @inline
    def tanh_pull(u, h):
        return u * tanh_slope(h)

    @inline
    def sigmoid_slope(h):
        return h * (one - h)

    @inline
    def sigmoid_pull(u, h):
        return u * sigmoid_slope(h)

    @inline
    def exp(x):
        up, N, D = parts(x)
        return passing_nan(N / D * up * down, x)

    @inline
    def logistic_value(f, d):
        weight = one - d if bits(f) >= 0 else -d
        linear = weight * (f if weight != zero else zero)  # an infinite logit on the right side costs nothing
        return passing_nan(linear + log1p_exp(f), f)

    @inline
    def logistic_slope(f, d):
        up, N, D = parts(f)
        N *= up * down
        yes, no = (D if bits(f) >= 0 else N), (N if bits(f) >= 0 else D)
        return passing_nan(((one - d) * yes - d * no) / (N + D), f)

    @inline
    def logistic_curvature(f):
        up, N, D = parts(f)
        scale = up * down
        small = N / (D + scale * N)  # times the scale, the smaller of the two probabilities
        return passing_nan(small * (one - scale * small) * up * down, f)

    @inline
    def linear_logistic(f, d, most):
        return logistic_slope(f, d)

    @inline
    def linear_huber(f, d, most):
        e = f - d
        inside = integer(bits(e) & size) <= bits(most)
        return passing_nan(e if inside else float_of(integer((bits(e) & sign) | bits(most))), e)

    @inline
    def linear_logistic_value(f, d, most):
        return logistic_value(f, d)

    @inline
    def linear_huber_value(f, d, most):
        e = f - d
        size = abs(e)
        return half * e * e if bits(size) <= bits(most) else most * (size - half * most)

    kernels = (tanh_sum, tanh_slope, tanh_pull, sigmoid_sum, sigmoid_slope, sigmoid_pull, sigmoid, softplus, exp)
    kernels += (logistic_value, logistic_slope, logistic_curvature, linear_logistic, linear_huber)
    kernels += (linear_logistic_value, linear_huber_value)
    return {kernel.py_func.__name__: kernel for kernel in kernels}
