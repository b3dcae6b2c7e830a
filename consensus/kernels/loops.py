"""The inner loops of the kernels' ufuncs, and their machine code."""

import inspect

import llvmlite.binding as llvm
import numpy as np

from consensus.kernels import linear, rows
from consensus.kernels.instructions import Array, as_float, as_integer, bits, float_of, greatest, least, loop, text, when, where
from consensus.kernels.source import functions


def machine_code(name, dtype, symbol, machine):
    """The object file (bytes) of the loop of the kernel ``name``, a function called ``symbol``."""
    module = llvm.parse_assembly(text(symbol, _writer(name, dtype)))
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return machine.emit_object(module)


def _writer(name, dtype):
    """The function that writes it."""
    if name == "softmax_slope":
        return _softmax(functions(dtype)["exp"], dtype)
    if name in ("scaled_rows", "outer", "upper_multiplied", "upper_added", "mixed"):
        return rows.writer(name, dtype)
    if name.startswith("linear"):
        return linear.writer(name, dtype)
    if name in _MULTIPLES:
        return _elementwise(*_MULTIPLES[name], dtype)
    return _elementwise(functions(dtype)[name], 0, (0,), dtype)


_MULTIPLES = {  # of arrays: what is made of their elements and of factors, how many factors, which arrays may be the result
    "combined": (lambda x, y, a, b: a * x + b * y, 2, (0, 1)),
    "combined_three": (lambda x, y, z, a, b, c: (a * x + b * y) + c * z, 3, (0,)),
    "descended": (lambda x, g, w, alpha, scale, ridge: x - alpha * (scale * g + ridge * w), 3, (0,)),
}


def _elementwise(function, factors, places, dtype):
    """The function of arrays' elements and of some factors; in vectors where arrays are contiguous and factors numbers.

    ``places`` are the arrays that may be the result itself.
    """
    count, size = len(inspect.signature(function).parameters), dtype.itemsize
    arrays = count - factors

    def write(addresses, lengths, steps):
        n, (*at, out), (*by, dout) = lengths[0], addresses.first(count + 1), steps.first(count + 1)
        whole = dout == size
        for i, step in enumerate(by):
            whole &= step == (size if i < arrays else 0)

        def at_once():
            given, results = [Array(address, dtype) for address in at[:arrays]], Array(out, dtype)
            numbers = [Array(address, dtype)[0] for address in at[arrays:]]

            def over(given):
                @loop(0, n, 1)
                def each(i):
                    results[i] = function(*(array[i] for array in given), *numbers)

            def in_place_or_not(places):  # by one pointer: LLVM makes no vectors where two may overlap
                if not places:
                    return over(given)
                place, *others = places
                same = [*given[:place], results, *given[place + 1 :]]
                when(at[place] == out, lambda: over(same), lambda: in_place_or_not(others))

            in_place_or_not(places)

        def one_by_one():
            @loop(0, n, 1)
            def each(i):
                numbers = [Array(address + i * step, dtype)[0] for address, step in zip(at, by, strict=True)]
                Array(out + i * dout, dtype)[0] = function(*numbers)

        when(whole, at_once, one_by_one)

    return write


_BLOCK = 1024  # numbers that stay in a core's first cache from one pass to the next


def _softmax(exp, dtype):
    """Rows of logits f and a class each, to ``softmax(f)`` less one at the class, if that is one: a vector ``out`` of rows."""
    size, integer = dtype.itemsize, np.dtype(f"i{dtype.itemsize}")
    shift, lowest, magnitude = 8 * size - 1, int(np.iinfo(integer).min), int(np.iinfo(integer).max)

    def ordered(i):  # the bits of a float, or back: integers in the order of floats, with NaN above infinity
        return i ^ ((i >> shift) & magnitude)

    def write(addresses, lengths, steps):
        (n, k), (f, classes, out), (df, dc, _, dk) = lengths.first(2), addresses.first(3), steps.first(4)
        few = greatest(1, _BLOCK // greatest(k, 1))

        @loop(0, n, few)
        def each_block(begin):
            count, block = least(few, n - begin), Array(out + begin * k * size, dtype)

            @loop(0, count, 1)
            def each_row(row):
                start = f + (begin + row) * df

                def logit(j):
                    return Array(start + j * dk, dtype)[0]

                @loop(0, k, 1, bits(block.constant(0)).constant(lowest))
                def most(j, most):
                    return greatest(most, ordered(bits(logit(j))))

                largest = float_of(ordered(most))

                @loop(0, k, 1)
                def each_column(j):
                    block[row * k + j] = logit(j) - largest

            @loop(0, count * k, 1)
            def each_number(i):
                block[i] = exp(block[i])

            @loop(0, count, 1)
            def each_result(row):
                p = Array(out + (begin + row) * k * size, dtype)

                @loop(0, k, 8, p.constant(0), p.constant(0))
                def sums(first, total, lost):  # of eight by Kahan's method: k does not matter to the error
                    @loop(first, least(first + 8, k), 1, -lost)
                    def part(j, part):
                        return part + p[j]

                    more = total + part
                    return more, (more - total) - part

                total, _ = sums

                @loop(0, k, 1)
                def each_column(j):
                    p[j] = p[j] / total

                own = Array(classes + (begin + row) * dc, dtype)[0]
                own = where((own >= 0) & (own < 2.0**31), own, -1)
                place = as_integer(own)

                def less_one():
                    p[place] = p[place] - 1

                when((place >= 0) & (place < k) & (as_float(place, dtype) == own), less_one)

    return write
