"""The inner loops of the kernels' ufuncs, and their machine code."""

import llvmlite.binding as llvm
import numpy as np
from numba import carray, cfunc, types

from consensus.kernels import linear, rows
from consensus.kernels.source import bits, float_of, functions, inline, pointer


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
    if name.startswith("linear"):
        return linear.loop(name, dtype)
    if name in ("combined", "combined_three", "descended", "mixed"):
        return rows.loop(name, dtype)
    kernel, zero, step = functions(dtype)[name], dtype.type(0), dtype.itemsize

    def unary(addresses, length, steps, _):
        n, (x, out), (dx, dout) = carray(length, 1)[0], carray(addresses, 2), carray(steps, 2)
        if dx == step and dout == step:
            numbers, results = carray(pointer(x, zero), n), carray(pointer(out, zero), n)
            if x == out:  # by one pointer: LLVM makes no vectors where two may overlap
                for i in range(n):
                    results[i] = kernel(results[i])
            else:
                for i in range(n):
                    results[i] = kernel(numbers[i])
        else:
            for i in range(n):
                carray(pointer(out + i * dout, zero), 1)[0] = kernel(carray(pointer(x + i * dx, zero), 1)[0])

    def binary(addresses, length, steps, _):
        n, (x, y, out), (dx, dy, dout) = carray(length, 1)[0], carray(addresses, 3), carray(steps, 3)
        if dx == step and dy == step and dout == step:
            first, second = carray(pointer(x, zero), n), carray(pointer(y, zero), n)
            results = carray(pointer(out, zero), n)
            if x == out:
                for i in range(n):
                    results[i] = kernel(results[i], second[i])
            else:
                for i in range(n):
                    results[i] = kernel(first[i], second[i])
        else:
            for i in range(n):
                a, b = carray(pointer(x + i * dx, zero), 1)[0], carray(pointer(y + i * dy, zero), 1)[0]
                carray(pointer(out + i * dout, zero), 1)[0] = kernel(a, b)

    return unary if kernel.py_func.__code__.co_argcount == 1 else binary


_BLOCK = 1024  # numbers that stay in a core's first cache from one pass to the next


def _softmax_loop(exp, dtype):
    """Rows of logits f and a class each, to ``softmax(f)`` less one at the class, if that is one: a vector ``out`` of rows."""
    zero, one, step = dtype.type(0), dtype.type(1), dtype.itemsize
    integer = np.dtype(f"i{step}").type
    size, shift = integer(np.iinfo(integer).max), integer(8 * step - 1)

    @inline
    def ordered(i):  # the bits of a float, or back: integers in the order of floats, with NaN above infinity
        return integer(i ^ ((i >> shift) & size))

    def rows(addresses, length, steps, _):
        (n, k), (f, classes, out), (df, dc, _, dk, _) = carray(length, 2), carray(addresses, 3), carray(steps, 5)
        for begin in range(0, n, max(1, _BLOCK // k)):
            end = min(n, begin + max(1, _BLOCK // k))
            block = carray(pointer(out + begin * k * step, zero), (end - begin) * k)
            for row in range(end - begin):
                start, most = f + (begin + row) * df, integer(np.iinfo(integer).min)
                for j in range(k):
                    most = max(most, ordered(bits(carray(pointer(start + j * dk, zero), 1)[0])))
                largest = float_of(ordered(most))
                for j in range(k):
                    block[row * k + j] = carray(pointer(start + j * dk, zero), 1)[0] - largest
            for i in range(block.size):
                block[i] = exp(block[i])
            for row in range(end - begin):
                p, total, lost = block[row * k : (row + 1) * k], zero, zero
                for first in range(0, k, 8):  # the sums of eight by Kahan's method: k does not matter to the error
                    part = -lost
                    for j in range(first, min(first + 8, k)):
                        part += p[j]
                    more = total + part
                    lost, total = (more - total) - part, more
                for j in range(k):
                    p[j] /= total
                own = carray(pointer(classes + (begin + row) * dc, zero), 1)[0]
                if zero <= own < k and own == np.floor(own):
                    p[int(own)] -= one

    return rows
