"""Rows of matrices: neighbours' summed by a sparse matrix, and products element by element, in one pass each.

NumPy's own products copy what it broadcasts, or takes of longer rows, to a buffer first.
"""

from consensus.kernels.instructions import INTP, Array, least, loop, when

_BLOCK = 1024  # columns at a time: those of all rows stay in a core's cache


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

    def multiplied(addresses, lengths, steps):
        (count, n, m), (x, out) = lengths.first(3), addresses.first(2)
        dx, dout, dx_row, dx_column, dout_row, dout_column = steps.first(6)

        @loop(0, count, 1)
        def each_matrix(i):
            @loop(0, n, 1)
            def each_row(row):
                to = out + i * dout + row * dout_row
                put(x + i * dx + row * dx_row, dx_column, to, dout_column, m, lambda number, other: other * number)

    def mixed(addresses, lengths, steps):
        p, rows = lengths[2], lengths[5]
        (x, weights, indices, begins, out), dx, dout = addresses.first(5), steps[5], steps[10]
        data, senders, first = Array(weights, dtype), Array(indices, INTP), Array(begins, INTP)

        @loop(0, p, _BLOCK)
        def each_block(begin):
            width = least(_BLOCK, p - begin)

            def entry_of(place):  # its weight and its sender's row
                return data[place], Array(x + senders[place] * dx + begin * size, dtype)

            @loop(0, rows, 1)
            def each_row(row):
                total, entry, end = Array(out + row * dout + begin * size, dtype), first[row], first[row + 1]
                odd = (end - entry) % 2

                def begun():
                    weight, sent = entry_of(entry)

                    @loop(0, width, 1)
                    def each_column(i):
                        total[i] = 0 + weight * sent[i]

                def emptied():
                    @loop(0, width, 1)
                    def each_column(i):
                        total[i] = 0

                when(odd == 1, begun, emptied)

                @loop(entry + odd, end, 2)  # two rows at a time, in their order: half as many sums are written
                def each_two(entry):
                    (weight, sent), (later, other) = entry_of(entry), entry_of(entry + 1)

                    @loop(0, width, 1)
                    def each_column(i):
                        total[i] = (total[i] + weight * sent[i]) + later * other[i]

    return {"scaled_rows": scaled_rows, "outer": outer, "multiplied": multiplied, "mixed": mixed}[name]
