"""Neighbours' rows summed by a sparse matrix, in one pass."""

from consensus.kernels.instructions import INTP, Array, least, loop, when

_BLOCK = 1024  # columns at a time: those of all rows stay in a core's cache


def writer(dtype):
    """Writes the loop of rows (n, p), the arrays of a CSR matrix, and of the result (q, p)."""
    size = dtype.itemsize

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

    return mixed
