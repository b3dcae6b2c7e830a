"""The kernels of numbers, which write instructions; ``loops.py`` makes the inner loops of NumPy ufuncs of them.

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

from consensus.kernels.instructions import bits, float_of, where


@functools.cache
def functions(dtype):
    """``{name: function}`` for numbers of ``dtype``, float64 or float32."""
    double = dtype.itemsize == 8
    integer = np.dtype(f"i{dtype.itemsize}").type
    mantissa, bias = (52, 1022) if double else (23, 126)
    sign, size = int(np.iinfo(integer).min), int(np.iinfo(integer).max)

    def bits_of(number):
        return int(dtype.type(number).view(integer))

    infinity = bits_of(np.inf)
    magic, down, top = 1.5 * 2.0**mantissa, 2.0**-bias, (2 * bias + 1) << mantissa
    most = bits_of(374 if double else 53)  # the exponential is zero from here on
    shortened = ("0x1.62e42fefa38p-2", "0x1.ef35793c7673p-46") if double else ("0x1.62e4p-2", "0x1.7f7d1cp-21")
    short, rest = map(float.fromhex, shortened)  # 42 or 15 bits of C
    per, ln2, middle = 2.8853900817779268, 0.6931471805599453, 0.4142

    if double:  # 3/2 times the integers: sums that are large within their binade round less

        def fraction(r, z):
            R = r * (15592.5 + z * (1890 + z * 31.5))
            return R, 15592.5 + z * (7087.5 + z * (315 + z * 1.5))

        def series(w):  # 2 artanh(v) / v for w = v^2 <= 0.0295: the terms 2 w^k / (2 k + 1), to 4e-17
            tail = 2 / 11 + w * (2 / 13 + w * (2 / 15 + w * (2 / 17 + w * (2 / 19))))
            return 2 + w * (2 / 3 + w * (2 / 5 + w * (2 / 7 + w * (2 / 9 + w * tail))))

    else:

        def fraction(r, z):
            return r * (15 + z), 15 + z * 6

        def series(w):
            return 2 + w * (2 / 3 + w * (2 / 5 + w * (2 / 7 + w * (2 / 9))))

    def passing_nan(result, x):
        return where((bits(x) & size) <= infinity, result, x)

    def expand(a):
        """``(up, Q, R)`` with ``exp(-2 a) = up down (Q - R) / (Q + R)``: 2^-n is in two parts as it may be subnormal."""
        a = float_of(where(bits(a) < most, bits(a), most))
        t = a * per + magic
        n = t - magic
        r = (a - n * short) - n * rest
        R, Q = fraction(r, r * r)
        return float_of(top - (bits(t) << mantissa)), Q, R

    def parts(x):
        """``(up, N, D)`` with ``exp(-|x|) = up down N / D``."""
        up, Q, R = expand(0.5 * abs(x))
        return up, Q - R, Q + R

    def log1p_exp(x):
        """log(1 + exp(-|x|)) = ln 2 + log((1 + e) / 2) or log(1 + e), each 2 artanh of a ratio v with |v| <= 0.172."""
        up, N, D = parts(x)
        N *= up * down
        large = middle * D < N
        v = where(large, N - D, N) / (where(large, 3 * D, 2 * D) + N)
        return v * series(v * v) + where(large, x.constant(ln2), 0)

    def tanh(x):
        up, Q, R = expand(abs(x))
        s = up * down
        h = ((1 - s) * Q + (1 + s) * R) / ((1 + s) * Q + (1 - s) * R)
        return passing_nan(float_of(bits(h) | (bits(x) & sign)), x)

    def sigmoid(x):
        up, N, D = parts(x)
        right, one = bits(x) >= 0, x.constant(1)
        ratio = where(right, D, N) / (D + (up * down) * N)
        return passing_nan(ratio * where(right, one, up) * where(right, one, down), x)

    def softplus(x):
        return passing_nan(where(bits(x) >= 0, x, 0) + log1p_exp(x), x)

    def tanh_sum(a, b):
        return tanh(a + b)

    def sigmoid_sum(a, b):
        return sigmoid(a + b)

    def tanh_slope(h):
        return (1 - h) * (1 + h)

    def tanh_pull(u, h):
        return u * tanh_slope(h)

    def sigmoid_slope(h):
        return h * (1 - h)

    def sigmoid_pull(u, h):
        return u * sigmoid_slope(h)

    def exp(x):
        up, N, D = parts(x)
        return passing_nan(N / D * up * down, x)

    def logistic_value(f, d):
        weight = where(bits(f) >= 0, 1 - d, -d)
        linear = weight * where(weight != 0, f, 0)  # an infinite logit on the right side costs nothing
        return passing_nan(linear + log1p_exp(f), f)

    def logistic_slope(f, d):
        up, N, D = parts(f)
        N *= up * down
        right = bits(f) >= 0
        yes, no = where(right, D, N), where(right, N, D)
        return passing_nan(((1 - d) * yes - d * no) / (N + D), f)

    def logistic_curvature(f):
        up, N, D = parts(f)
        scale = up * down
        small = N / (D + scale * N)  # times the scale, the smaller of the two probabilities
        return passing_nan(small * (1 - scale * small) * up * down, f)

    def linear_logistic(f, d, most):
        return logistic_slope(f, d)

    def linear_huber(f, d, most):
        e = f - d
        inside = (bits(e) & size) <= bits(most)
        return passing_nan(where(inside, e, float_of((bits(e) & sign) | bits(most))), e)

    def linear_logistic_value(f, d, most):
        return logistic_value(f, d)

    def linear_huber_value(f, d, most):
        e = f - d
        size = abs(e)
        return where(bits(size) <= bits(most), 0.5 * e * e, most * (size - 0.5 * most))

    kernels = (tanh_sum, tanh_slope, tanh_pull, sigmoid_sum, sigmoid_slope, sigmoid_pull, sigmoid, softplus, exp)
    kernels += (logistic_value, logistic_slope, logistic_curvature, linear_logistic, linear_huber)
    kernels += (linear_logistic_value, linear_huber_value)
    return {kernel.__name__: kernel for kernel in kernels}
