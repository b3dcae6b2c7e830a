"""The kernels as Numba compiles them: functions of numbers, and the loop that makes a NumPy ufunc of each.

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

import llvmlite.binding as llvm
import numpy as np
from numba import carray, cfunc, njit, types
from numba.extending import intrinsic

_INTEGERS = {types.float64: types.int64, types.float32: types.int32}
_FLOATS = {integer: number for number, integer in _INTEGERS.items()}
_inline = njit(error_model="numpy")


def _cast(result, how):
    return lambda context, builder, signature, arguments: getattr(builder, how)(arguments[0], context.get_value_type(result))


@intrinsic
def _bits(typing, x):
    return _INTEGERS[x](x), _cast(_INTEGERS[x], "bitcast")


@intrinsic
def _float(typing, i):
    return _FLOATS[i](i), _cast(_FLOATS[i], "bitcast")


@intrinsic
def _pointer(typing, address, like):
    return types.CPointer(like)(address, like), _cast(types.CPointer(like), "inttoptr")


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

        @_inline
        def fraction(r, z):
            R = r * (T(15592.5) + z * (T(1890) + z * T(31.5)))
            return R, T(15592.5) + z * (T(7087.5) + z * (T(315) + z * T(1.5)))

        @_inline
        def series(w):  # 2 artanh(v) / v for w = v^2 <= 0.0295: the terms 2 w^k / (2 k + 1), to 4e-17
            tail = T(2 / 11) + w * (T(2 / 13) + w * (T(2 / 15) + w * (T(2 / 17) + w * T(2 / 19))))
            return two + w * (T(2 / 3) + w * (T(2 / 5) + w * (T(2 / 7) + w * (T(2 / 9) + w * tail))))

    else:

        @_inline
        def fraction(r, z):
            return r * (T(15) + z), T(15) + z * T(6)

        @_inline
        def series(w):
            return two + w * (T(2 / 3) + w * (T(2 / 5) + w * (T(2 / 7) + w * T(2 / 9))))

    @_inline
    def magnitude(x):
        return _float(integer(_bits(x) & size))

    @_inline
    def positive(x):
        return _bits(x) >= 0

    @_inline
    def passing_nan(result, x):
        return result if integer(_bits(x) & size) <= infinity else x

    @_inline
    def expand(a):
        """``(up, Q, R)`` with ``exp(-2 a) = up down (Q - R) / (Q + R)``: 2^-n is in two parts as it may be subnormal."""
        a = _float(_bits(a) if _bits(a) < most else most)
        t = a * per + magic
        n = t - magic
        r = (a - n * short) - n * rest
        R, Q = fraction(r, r * r)
        return _float(integer(top - (_bits(t) << mantissa))), Q, R

    @_inline
    def parts(x):
        """``(up, N, D)`` with ``exp(-|x|) = up down N / D``."""
        up, Q, R = expand(half * magnitude(x))
        return up, Q - R, Q + R

    @_inline
    def log1p_exp(x):
        """log(1 + exp(-|x|)) = ln 2 + log((1 + e) / 2) or log(1 + e), each 2 artanh of a ratio v with |v| <= 0.172."""
        up, N, D = parts(x)
        N *= up * down
        large = middle * D < N
        v = (N - D if large else N) / ((three * D if large else two * D) + N)
        return v * series(v * v) + (ln2 if large else zero)

    @_inline
    def tanh(x):
        up, Q, R = expand(magnitude(x))
        s = up * down
        h = ((one - s) * Q + (one + s) * R) / ((one + s) * Q + (one - s) * R)
        return passing_nan(_float(integer(_bits(h) | (_bits(x) & sign))), x)

    @_inline
    def sigmoid(x):
        up, N, D = parts(x)
        right = positive(x)
        ratio = (D if right else N) / (D + (up * down) * N)
        return passing_nan(ratio * (one if right else up) * (one if right else down), x)

    @_inline
    def softplus(x):
        return passing_nan((x if positive(x) else zero) + log1p_exp(x), x)

    @_inline
    def tanh_sum(a, b):
        return tanh(a + b)

    @_inline
    def sigmoid_sum(a, b):
        return sigmoid(a + b)

    @_inline
    def tanh_slope(h):
        return (one - h) * (one + h)

    @_inline
    def sigmoid_slope(h):
        return h * (one - h)

    @_inline
    def exp(x):
        up, N, D = parts(x)
        return passing_nan(N / D * up * down, x)

    @_inline
    def logistic_value(f, d):
        weight = one - d if positive(f) else -d
        linear = weight * (f if weight != zero else zero)  # an infinite logit on the right side costs nothing
        return passing_nan(linear + log1p_exp(f), f)

    @_inline
    def logistic_slope(f, d):
        up, N, D = parts(f)
        N *= up * down
        yes, no = (D if positive(f) else N), (N if positive(f) else D)
        return passing_nan(((one - d) * yes - d * no) / (N + D), f)

    @_inline
    def logistic_curvature(f):
        up, N, D = parts(f)
        total = D + (up * down) * N
        return passing_nan(N * D / (total * total) * up * down, f)

    kernels = (tanh_sum, tanh_slope, sigmoid_sum, sigmoid_slope, sigmoid, softplus, exp)
    kernels += (logistic_value, logistic_slope, logistic_curvature)
    return {kernel.py_func.__name__: kernel for kernel in kernels}


def machine_code(name, dtype, symbol, machine):
    """The object file (bytes) of the loop of the kernel ``name``, a function called ``symbol``."""
    pointer = types.CPointer(types.intp)
    loop = cfunc(types.void(pointer, pointer, pointer, types.voidptr), error_model="numpy")(_loop(name, dtype))
    module = llvm.parse_assembly(loop.inspect_llvm())
    for function in module.functions:
        if function.name == loop.native_name:
            function.name = symbol
        elif not function.is_declaration:  # so that LLVM may see it returns no error, and drop what Numba does about one
            function.linkage = "internal"
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes.getModulePassManager().run(module, passes)
    return machine.emit_object(module)


def _loop(name, dtype):
    """The inner loop of its ufunc: addresses, lengths, steps in bytes, and what NumPy hands on besides."""
    if name == "softmax_slope":
        return _softmax_loop(functions(dtype)["exp"], dtype)
    kernel, zero, step = functions(dtype)[name], dtype.type(0), dtype.itemsize

    def unary(addresses, length, steps, _):
        n, (x, out), (dx, dout) = carray(length, 1)[0], carray(addresses, 2), carray(steps, 2)
        if dx == step and dout == step:
            numbers, results = carray(_pointer(x, zero), n), carray(_pointer(out, zero), n)
            for i in range(n):
                results[i] = kernel(numbers[i])
        else:
            for i in range(n):
                carray(_pointer(out + i * dout, zero), 1)[0] = kernel(carray(_pointer(x + i * dx, zero), 1)[0])

    def binary(addresses, length, steps, _):
        n, (x, y, out), (dx, dy, dout) = carray(length, 1)[0], carray(addresses, 3), carray(steps, 3)
        if dx == step and dy == step and dout == step:
            first, second = carray(_pointer(x, zero), n), carray(_pointer(y, zero), n)
            results = carray(_pointer(out, zero), n)
            for i in range(n):
                results[i] = kernel(first[i], second[i])
        else:
            for i in range(n):
                a, b = carray(_pointer(x + i * dx, zero), 1)[0], carray(_pointer(y + i * dy, zero), 1)[0]
                carray(_pointer(out + i * dout, zero), 1)[0] = kernel(a, b)

    return unary if kernel.py_func.__code__.co_argcount == 1 else binary


_BLOCK = 1024  # numbers that stay in a core's first cache from one pass to the next


def _softmax_loop(exp, dtype):
    """Rows of logits f and a class each, to ``softmax(f)`` less one at the class, if that is one: a vector ``out`` of rows."""
    zero, one, step = dtype.type(0), dtype.type(1), dtype.itemsize
    integer = np.dtype(f"i{step}").type
    size, shift = integer(np.iinfo(integer).max), integer(8 * step - 1)

    @_inline
    def ordered(i):  # the bits of a float, or back: integers in the order of floats, with NaN above infinity
        return integer(i ^ ((i >> shift) & size))

    def rows(addresses, length, steps, _):
        (n, k), (f, classes, out), (df, dc, _, dk, _) = carray(length, 2), carray(addresses, 3), carray(steps, 5)
        for begin in range(0, n, max(1, _BLOCK // k)):
            end = min(n, begin + max(1, _BLOCK // k))
            block = carray(_pointer(out + begin * k * step, zero), (end - begin) * k)
            for row in range(end - begin):
                start, most = f + (begin + row) * df, integer(np.iinfo(integer).min)
                for j in range(k):
                    most = max(most, ordered(_bits(carray(_pointer(start + j * dk, zero), 1)[0])))
                largest = _float(ordered(most))
                for j in range(k):
                    block[row * k + j] = carray(_pointer(start + j * dk, zero), 1)[0] - largest
            for i in range(block.size):
                block[i] = exp(block[i])
            for row in range(end - begin):
                p, total = block[row * k : (row + 1) * k], zero
                for j in range(k):
                    total += p[j]
                for j in range(k):
                    p[j] /= total
                own = carray(_pointer(classes + (begin + row) * dc, zero), 1)[0]
                if zero <= own < k and own == np.floor(own):
                    p[int(own)] -= one

    return rows
