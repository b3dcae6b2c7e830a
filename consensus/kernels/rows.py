"""Rows of matrices: neighbours' summed by a sparse matrix, and products element by element, in one pass each.

NumPy's own products copy what it broadcasts, or takes of longer rows, to a buffer first.
"""

from consensus.kernels.instructions import INTP, Array, least, loop, repeated, when
from consensus.kernels.vectors import LANES, load, store

_BLOCK = 960  # columns at a time: those of all rows stay in a core's cache
_VECTORS = {8: 6, 4: 8}  # of eight of them, whose sums registers hold, by a number's bytes; a block is a multiple


def writer(name, dtype):
    """Writes the loop over matrices; that of ``mixed``, of rows (n, p), the arrays of a CSR matrix and the result (q, p)."""
    size = dtype.itemsize

    def put(x, dx, out, dout, m, made):
        """``made`` of each of m numbers at x and of what is at ``out``, there."""

        def side_by_side():
            numbers, results = Array(x, dtype), Array(out, dtype)

            @loop(0, m, 1)
            def each(j):
                results[j] = made(numbers[j], results[j])

        def apart():
            @loop(0, m, 1)
            def each(j):
                result = Array(out + j * dout, dtype)
                result[0] = made(Array(x + j * dx, dtype)[0], result[0])

        when((dx == size) & (dout == size), side_by_side, apart)

    def scaled_rows(addresses, lengths, steps):
        (count, n, m), (u, x, out) = lengths.first(3), addresses.first(3)
        du, dx, dout, du_row, dx_row, dx_column, dout_row, dout_column = steps.first(8)

        @loop(0, count, 1)
        def each_matrix(i):
            @loop(0, n, 1)
            def each_row(row):
                factor = Array(u + i * du + row * du_row, dtype)[0]
                to = out + i * dout + row * dout_row
                put(x + i * dx + row * dx_row, dx_column, to, dout_column, m, lambda number, _: factor * number)

    def outer(addresses, lengths, steps):
        (count, n, m), (u, x, out) = lengths.first(3), addresses.first(3)
        du, dx, dout, du_row, dx_column, dout_row, dout_column = steps.first(7)

        @loop(0, count, 1)
        def each_matrix(i):
            @loop(0, n, 1)
            def each_row(row):
                factor = Array(u + i * du + row * du_row, dtype)[0]
                put(x + i * dx, dx_column, out + i * dout + row * dout_row, dout_column, m, lambda number, _: factor * number)

    def upper(made):
        def write(addresses, lengths, steps):
            (count, n), (x, out) = lengths.first(2), addresses.first(2)
            dx, dout, dx_row, dx_column, dout_row, dout_column = steps.first(6)

            @loop(0, count, 1)
            def each_matrix(i):
                @loop(0, n, 1)
                def each_row(row):
                    at, to = x + i * dx + row * (dx_row + dx_column), out + i * dout + row * (dout_row + dout_column)
                    put(at, dx_column, to, dout_column, n - row, made)

        return write

    def mixed(addresses, lengths, steps):
        p, rows = lengths[2], lengths[5]
        (x, weights, indices, begins, out), dx, dout = addresses.first(5), steps[5], steps[10]
        data, senders, first, most = Array(weights, dtype), Array(indices, INTP), Array(begins, INTP), _VECTORS[size]

        def put_sums(row, begin, count, vectors):
            """Those of a row at ``count`` columns of each of so many vectors, in registers until they are whole."""
            places = [(begin + vector * LANES) * size for vector in range(vectors)]

            @loop(first[row], first[row + 1], 1, *[repeated(data.constant(0), LANES)] * vectors)
            def totals(entry, *totals):
                weight, sent = data[entry], x + senders[entry] * dx
                return [total + load(sent + place, count, dtype) * weight for total, place in zip(totals, places, strict=True)]

            for total, place in zip(totals if vectors > 1 else [totals], places, strict=True):
                store(total, out + row * dout + place, count)

        @loop(0, p, _BLOCK)
        def each_block(begin):
            end = least(begin + _BLOCK, p)

            @loop(0, rows, 1)
            def each_row(row):
                start = begin
                for vectors in (most, 2, 1):
                    stop = end - (end - start) % (vectors * LANES)

                    @loop(start, stop, vectors * LANES)
                    def each_part(column, vectors=vectors):
                        put_sums(row, column, LANES, vectors)

                    start = stop

                def rest():  # a whole vector again, as stores of a part are slow
                    when(p >= LANES, lambda: put_sums(row, end - LANES, LANES, 1), lambda: put_sums(row, 0, p, 1))

                when(start < end, rest)

    upper_multiplied, upper_added = upper(lambda number, other: other * number), upper(lambda number, other: other + number)
    return {
        "scaled_rows": scaled_rows,
        "outer": outer,
        "upper_multiplied": upper_multiplied,
        "upper_added": upper_added,
        "mixed": mixed,
    }[name]
