"""Sums of rows in one pass: of multiples of arrays, and of neighbours' rows by a sparse matrix."""

from numba import carray, types

from consensus.kernels.source import pointer

_BLOCK = 1024  # columns at a time: those of all rows stay in a core's cache


def loop(name, dtype):
    zero, step = dtype.type(0), dtype.itemsize

    def two(addresses, lengths, steps, _):
        n, (x, y, a, b, out) = carray(lengths, 1)[0], carray(addresses, 5)
        dx, dy, da, db, dout = carray(steps, 5)
        if dx == step and dy == step and da == 0 and db == 0 and dout == step:
            first, second, results = (carray(pointer(x, zero), n), carray(pointer(y, zero), n), carray(pointer(out, zero), n))
            alpha, beta = carray(pointer(a, zero), 1)[0], carray(pointer(b, zero), 1)[0]
            if x == out:  # by one pointer: LLVM makes no vectors where two may overlap
                for i in range(n):
                    results[i] = alpha * results[i] + beta * second[i]
            elif y == out:
                for i in range(n):
                    results[i] = alpha * first[i] + beta * results[i]
            else:
                for i in range(n):
                    results[i] = alpha * first[i] + beta * second[i]
        else:
            for i in range(n):
                total = carray(pointer(a + i * da, zero), 1)[0] * carray(pointer(x + i * dx, zero), 1)[0]
                total += carray(pointer(b + i * db, zero), 1)[0] * carray(pointer(y + i * dy, zero), 1)[0]
                carray(pointer(out + i * dout, zero), 1)[0] = total

    def three(addresses, lengths, steps, _):
        n, (x, y, z, a, b, c, out) = carray(lengths, 1)[0], carray(addresses, 7)
        dx, dy, dz, da, db, dc, dout = carray(steps, 7)
        if dx == step and dy == step and dz == step and da == 0 and db == 0 and dc == 0 and dout == step:
            first, second, third = carray(pointer(x, zero), n), carray(pointer(y, zero), n), carray(pointer(z, zero), n)
            results, alpha = carray(pointer(out, zero), n), carray(pointer(a, zero), 1)[0]
            beta, gamma = carray(pointer(b, zero), 1)[0], carray(pointer(c, zero), 1)[0]
            if x == out:
                for i in range(n):
                    results[i] = (alpha * results[i] + beta * second[i]) + gamma * third[i]
            else:
                for i in range(n):
                    results[i] = (alpha * first[i] + beta * second[i]) + gamma * third[i]
        else:
            for i in range(n):
                total = carray(pointer(a + i * da, zero), 1)[0] * carray(pointer(x + i * dx, zero), 1)[0]
                total += carray(pointer(b + i * db, zero), 1)[0] * carray(pointer(y + i * dy, zero), 1)[0]
                total += carray(pointer(c + i * dc, zero), 1)[0] * carray(pointer(z + i * dz, zero), 1)[0]
                carray(pointer(out + i * dout, zero), 1)[0] = total

    def descended(addresses, lengths, steps, _):
        n, (x, g, w, a, s, r, out) = carray(lengths, 1)[0], carray(addresses, 7)
        dx, dg, dw, da, ds, dr, dout = carray(steps, 7)
        if dx == step and dg == step and dw == step and da == 0 and ds == 0 and dr == 0 and dout == step:
            point, slope, own = carray(pointer(x, zero), n), carray(pointer(g, zero), n), carray(pointer(w, zero), n)
            results, alpha = carray(pointer(out, zero), n), carray(pointer(a, zero), 1)[0]
            scale, ridge = carray(pointer(s, zero), 1)[0], carray(pointer(r, zero), 1)[0]
            if x == out:
                for i in range(n):
                    results[i] = results[i] - alpha * (scale * slope[i] + ridge * own[i])
            else:
                for i in range(n):
                    results[i] = point[i] - alpha * (scale * slope[i] + ridge * own[i])
        else:
            for i in range(n):
                total = carray(pointer(s + i * ds, zero), 1)[0] * carray(pointer(g + i * dg, zero), 1)[0]
                total += carray(pointer(r + i * dr, zero), 1)[0] * carray(pointer(w + i * dw, zero), 1)[0]
                total = carray(pointer(x + i * dx, zero), 1)[0] - carray(pointer(a + i * da, zero), 1)[0] * total
                carray(pointer(out + i * dout, zero), 1)[0] = total

    def mixed(addresses, lengths, steps, _):
        p, entries, ends, rows = carray(lengths, 6)[2:]
        x, weights, indices, begins, out = carray(addresses, 5)
        dx, dout = carray(steps, 12)[5], carray(steps, 12)[10]
        data = carray(pointer(weights, zero), entries)
        senders = carray(pointer(indices, types.intp(0)), entries)
        first = carray(pointer(begins, types.intp(0)), ends)
        for begin in range(0, p, _BLOCK):
            width = min(_BLOCK, p - begin)
            for row in range(rows):
                total = carray(pointer(out + row * dout + begin * step, zero), width)
                entry, end = first[row], first[row + 1]
                if (end - entry) % 2:
                    weight, sent = data[entry], carray(pointer(x + senders[entry] * dx + begin * step, zero), width)
                    for i in range(width):
                        total[i] = zero + weight * sent[i]
                    entry += 1
                else:
                    for i in range(width):
                        total[i] = zero
                while entry < end:  # two rows at a time, in their order: half as many sums are written
                    weight, sent = data[entry], carray(pointer(x + senders[entry] * dx + begin * step, zero), width)
                    later, other = data[entry + 1], carray(pointer(x + senders[entry + 1] * dx + begin * step, zero), width)
                    for i in range(width):
                        total[i] = (total[i] + weight * sent[i]) + later * other[i]
                    entry += 2

    return {"combined": two, "combined_three": three, "descended": descended, "mixed": mixed}[name]
