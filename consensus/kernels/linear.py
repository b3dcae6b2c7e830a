"""Gradients and values of a linear model with one output, in one pass each: outputs, the loss or its slope, their sum."""

from numba import carray

from consensus.kernels.source import functions, inline, pointer
from consensus.kernels.vectors import LANES, load, plus, room, store, store_totals, times

_SAMPLES = 64  # worked at a time, at most;
_NUMBERS = 1 << 14  # features of these: they stay in a core's cache from the outputs to the sum


def loop(name, dtype):
    """The loop over agents: of w, features, targets, weights, settings, and of the result, gradients or values.

    Rows are contiguous. Samples are taken four at a time; where fewer are left, the last one stands in, with slope zero.
    """
    zero, step, wide = dtype.type(0), dtype.itemsize, LANES * dtype.itemsize
    memory = room(_SAMPLES + 3)
    loss = functions(dtype)[name]  # its slope or its value

    @inline
    def least(i, j):  # Python's own takes a third of a second to compile
        return i if i < j else j

    @inline
    def rows(x, dx, end):
        return x, least(x + dx, end), least(x + 2 * dx, end), least(x + 3 * dx, end)

    @inline
    def outputs(f, x, dx, k, w, m, bias):
        """Put those of k samples, whose features begin at x, at the address f; the last one's fill up the four."""
        left = m % LANES
        whole, end = (m - left) * step, x + (k - 1) * dx
        w_left = load(w + whole, left, zero)
        for s in range(0, k, 4):
            x0, x1, x2, x3 = rows(x + s * dx, dx, end)
            f0, f1 = times(load(x0 + whole, left, zero), w_left), times(load(x1 + whole, left, zero), w_left)
            f2, f3 = times(load(x2 + whole, left, zero), w_left), times(load(x3 + whole, left, zero), w_left)
            for j in range(0, whole, wide):
                part = load(w + j, LANES, zero)
                f0 = plus(f0, times(load(x0 + j, LANES, zero), part))
                f1 = plus(f1, times(load(x1 + j, LANES, zero), part))
                f2 = plus(f2, times(load(x2 + j, LANES, zero), part))
                f3 = plus(f3, times(load(x3 + j, LANES, zero), part))
            store_totals(f + s * step, bias, f0, f1, f2, f3)

    @inline
    def add_pull(g, x, dx, k, u, count):
        """Add k samples times their u to ``count`` numbers of the gradient at g; the last one fills up the four."""
        part, end = load(g, count, zero), x + (k - 1) * dx
        for s in range(0, k, 4):
            x0, x1, x2, x3 = rows(x + s * dx, dx, end)
            four = carray(pointer(u + s * step, zero), 4)
            first = plus(times(load(x0, count, zero), four[0]), times(load(x1, count, zero), four[1]))
            second = plus(times(load(x2, count, zero), four[2]), times(load(x3, count, zero), four[3]))
            part = plus(part, plus(first, second))
        store(part, g, count)

    def gradients(addresses, lengths, steps, _):
        (count, p, n, m, _), at, by = carray(lengths, 5), carray(addresses, 6), carray(steps, 13)
        held, dx = memory(zero), by[7]
        u = carray(pointer(held, zero), _SAMPLES + 3)
        few, left = least(_SAMPLES, _NUMBERS // m) or 1, m % LANES
        for agent in range(count):
            w, g = at[0] + agent * by[0], at[5] + agent * by[5]
            parameters, gradient = carray(pointer(w, zero), p), carray(pointer(g, zero), p)
            scale, ridge, most = carray(pointer(at[4] + agent * by[4], zero), 3)
            for j in range(p):
                gradient[j] = ridge * parameters[j] if ridge != zero else zero
            bias = parameters[m] if p > m else zero
            for begin in range(0, n, few):
                k = least(few, n - begin)
                d = carray(pointer(at[2] + agent * by[2] + begin * step, zero), k)
                c = carray(pointer(at[3] + agent * by[3] + begin * step, zero), k)
                x = at[1] + agent * by[1] + begin * dx
                outputs(held, x, dx, k, w, m, bias)
                for s in range(k):
                    u[s] = loss(u[s], d[s], most) * (scale * c[s])
                for s in range(k, k + 3):
                    u[s] = zero
                for j in range(0, m - left, LANES):
                    add_pull(g + j * step, x + j * step, dx, k, held, LANES)
                if left:
                    add_pull(g + (m - left) * step, x + (m - left) * step, dx, k, held, left)
                if p > m:
                    for s in range(0, k, 4):
                        gradient[m] += (u[s] + u[s + 1]) + (u[s + 2] + u[s + 3])

    def values(addresses, lengths, steps, _):
        (count, p, n, m, _), at, by = carray(lengths, 5), carray(addresses, 6), carray(steps, 12)
        held, dx = memory(zero), by[7]
        u = carray(pointer(held, zero), _SAMPLES + 3)
        for agent in range(count):
            w, value = at[0] + agent * by[0], zero
            bias = carray(pointer(w, zero), p)[m] if p > m else zero
            most = carray(pointer(at[4] + agent * by[4], zero), 3)[2]
            for begin in range(0, n, _SAMPLES):
                k = least(_SAMPLES, n - begin)
                d = carray(pointer(at[2] + agent * by[2] + begin * step, zero), k)
                c = carray(pointer(at[3] + agent * by[3] + begin * step, zero), k)
                outputs(held, at[1] + agent * by[1] + begin * dx, dx, k, w, m, bias)
                for s in range(k):
                    u[s] = loss(u[s], d[s], most) * c[s]
                for s in range(k, k + 3):
                    u[s] = zero
                for s in range(0, k, 4):
                    value += (u[s] + u[s + 1]) + (u[s + 2] + u[s + 3])
            carray(pointer(at[5] + agent * by[5], zero), 1)[0] = value

    return values if name.endswith("value") else gradients
