"""Gradients and values of a linear model with one output, in one pass each: outputs, the loss or its slope, their sum."""

from consensus.kernels.instructions import Array, greatest, least, loop, when, where
from consensus.kernels.source import functions
from consensus.kernels.vectors import LANES, fetch, load, room, store, store_totals

_SAMPLES = 64  # worked at a time, at most: whole fours;
_NUMBERS = 1 << 14  # features of these, unless four have more: they stay in a core's cache from the outputs to the sum
# The memory of features is asked for ahead of time, as processors see too late where short rows go on: so many samples, or, in
# longer rows than so many bytes, so many bytes.
_NEXT, _LONG, _AHEAD = 8, 8192, 1024


def writer(name, dtype):
    """Writes the loop over agents: of w, features, targets, weights, settings, and of the result, gradients or values.

    Rows are contiguous. Samples are taken four at a time; where fewer are left, the last one stands in, with slope zero. Those
    of weight zero at an agent's end, with which small shards are filled up, are not looked at.
    """
    size = dtype.itemsize
    loss = functions(dtype)[name]  # its slope or its value

    def rows(x, dx, end):
        return x, least(x + dx, end), least(x + 2 * dx, end), least(x + 3 * dx, end)

    def put_outputs(f, x, dx, k, w, m, bias):
        """Put those of k samples, whose features begin at x, at the address f; the last one's fill up the four."""
        left, ahead = m % LANES, where(dx > _LONG, _AHEAD, _NEXT * dx)
        whole, end = (m - left) * size, x + (k - 1) * dx
        w_left = load(w + whole, left, dtype)

        @loop(0, k, 4)
        def each_four(s):
            four = rows(x + s * dx, dx, end)

            @loop(0, whole, LANES * size, *[load(row + whole, left, dtype) * w_left for row in four])
            def totals(j, *totals):
                part = load(w + j, LANES, dtype)
                for row in four:
                    fetch(row + (j + ahead))
                return [total + load(row + j, LANES, dtype) * part for total, row in zip(totals, four, strict=True)]

            store_totals(f + s * size, bias, totals)

    def add_pull(g, x, dx, k, u, count):
        """Add k samples times their u to ``count`` numbers of the gradient at g; the last one fills up the four."""
        end = x + (k - 1) * dx

        @loop(0, k, 4, load(g, count, dtype))
        def total(s, total):
            slopes = Array(u + s * size, dtype).first(4)
            four = [load(row, count, dtype) * slope for row, slope in zip(rows(x + s * dx, dx, end), slopes, strict=True)]
            return total + ((four[0] + four[1]) + (four[2] + four[3]))

        store(total, g, count)

    def bias_of(w, p, m):
        return where(p > m, Array(w, dtype)[where(p > m, m, 0)], 0)

    def sum_of(u, k, total):
        """The total plus k numbers, four at a time."""

        @loop(0, k, 4, total)
        def total(s, total):
            return total + ((u[s] + u[s + 1]) + (u[s + 2] + u[s + 3]))

        return total

    def up_to_the_last(c, n, other):
        """The number of an agent's n samples up to the last with a weight c; ``other`` is the address of any number."""
        weights, last = Array(c, dtype), Array(where(n > 0, c + (n - 1) * size, other), dtype)[0]
        padded = (last == 0) & (n > 0)

        @loop(0, where(padded, n, 0), 1, where(padded, 0, n))
        def used(s, used):
            return where(weights[s] != 0, s + 1, used)

        return used

    def gradients(addresses, lengths, steps):
        (count, p, n, m), at, by = lengths.first(4), addresses.first(6), steps.first(8)
        held, dx, left = room(_SAMPLES + 3, dtype, count), by[7], m % LANES
        u, few = Array(held, dtype), greatest(least(_SAMPLES, _NUMBERS // greatest(m, 1) // 4 * 4), 4)

        @loop(0, count, 1)
        def each_agent(agent):
            w, all_x, all_d, all_c, settings, g = (address + agent * step for address, step in zip(at, by[:6], strict=True))
            scale, ridge, most = Array(settings, dtype).first(3)
            used = up_to_the_last(all_c, n, settings)
            parameters, gradient, bias = Array(w, dtype), Array(g, dtype), bias_of(w, p, m)

            def begun_at(start):
                @loop(0, p, 1)
                def each_parameter(j):
                    gradient[j] = start(j)

            when(ridge != 0, lambda: begun_at(lambda j: ridge * parameters[j]), lambda: begun_at(lambda j: 0))

            @loop(0, used, few)
            def each_part(begin):
                k, x = least(few, used - begin), all_x + begin * dx
                d, c = Array(all_d + begin * size, dtype), Array(all_c + begin * size, dtype)
                put_outputs(held, x, dx, k, w, m, bias)

                @loop(0, k, 1)
                def each_sample(s):
                    u[s] = loss(u[s], d[s], most) * (scale * c[s])

                for s in range(3):
                    u[k + s] = 0

                @loop(0, m - left, LANES)
                def each_eight(j):
                    add_pull(g + j * size, x + j * size, dx, k, held, LANES)

                rest = (m - left) * size
                when(left > 0, lambda: add_pull(g + rest, x + rest, dx, k, held, left))

                def add_to_bias():
                    gradient[m] = sum_of(u, k, gradient[m])

                when(p > m, add_to_bias)

    def values(addresses, lengths, steps):
        (count, p, n, m), at, by = lengths.first(4), addresses.first(6), steps.first(8)
        held, dx = room(_SAMPLES + 3, dtype, count), by[7]
        u = Array(held, dtype)

        @loop(0, count, 1)
        def each_agent(agent):
            w, all_x, all_d, all_c, settings, value = (address + agent * step for address, step in zip(at, by[:6], strict=True))
            most, bias, used = Array(settings, dtype)[2], bias_of(w, p, m), up_to_the_last(all_c, n, settings)

            @loop(0, used, _SAMPLES, u.constant(0))
            def total(begin, total):
                k = least(_SAMPLES, used - begin)
                d, c = Array(all_d + begin * size, dtype), Array(all_c + begin * size, dtype)
                put_outputs(held, all_x + begin * dx, dx, k, w, m, bias)

                @loop(0, k, 1)
                def each_sample(s):
                    u[s] = loss(u[s], d[s], most) * c[s]

                for s in range(3):
                    u[k + s] = 0
                return sum_of(u, k, total)

            Array(value, dtype)[0] = total

    return values if name.endswith("value") else gradients
