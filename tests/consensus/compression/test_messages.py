"""Packed rows: what they stand for, what they take, and that bytes bring back what was packed."""

import numpy as np
import pytest

from consensus.communication.packed import from_bytes, to_bytes
from consensus.compression import Drawn, Factors, Halves, Quantised, Runs, Sparse, Whole

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((5, 13))
SENDERS = np.array([4, 7, 0, 2, 9])


def factors(rows):
    """A 4 x 3 matrix from the second entry on, projected on one combination of its columns."""
    return Factors.along(rows, ((1, 4, 3),), [np.ones((len(rows), 3, 1), rows.dtype)])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [1, 4, 13, 20])
def test_the_largest_entries_of_each_row_are_kept(k, dtype):
    rows = ROWS.astype(dtype)
    sparse = Sparse.largest(rows, k)
    kept = sparse.unpack()
    assert kept.dtype == dtype
    for row, own in zip(rows, kept, strict=True):
        largest = np.argsort(-np.abs(row))[:k]  # no two are equal
        np.testing.assert_array_equal(own[largest], row[largest])
        assert np.count_nonzero(own) == min(k, 13)
    assert sparse.numbers.tolist() == [min(k, 13)] * 5
    places = {1: 5, 4: 4 * 1 + 4 + 6, 13: 13 + 13, 20: 13 + 13}[k]  # bits: 3 and 1 + 13 // 8 of one, ...
    assert sparse.bytes.tolist() == [min(k, 13) * rows.itemsize + -(-places // 8)] * 5


def test_rows_may_have_fewer_entries():
    values = np.array([[7.0, 8.0], [9.0, np.nan], [np.nan, np.nan]])
    sparse = Sparse(values, np.array([[2, 0], [1, -1], [-1, -1]], np.int32), columns=3)
    np.testing.assert_array_equal(sparse.unpack(), [[8, 0, 7], [0, 9, 0], [0, 0, 0]])
    assert sparse.numbers.tolist() == [2, 1, 0]
    assert sparse.bytes.tolist() == [17, 9, 1]
    np.testing.assert_array_equal(from_bytes(to_bytes(sparse), sparse).unpack(), sparse.unpack())


def test_places_are_what_the_documentation_says():
    """3 and 6 of 8 columns: two last bits each, 11 and 01, the lowest first; above them 0 and 1, which set bits 0 and 1 + 1."""
    sparse = Sparse(np.array([[7.0, 5.0]]), np.array([[6, 3]], np.int32), columns=8)
    values, codes = sparse.arrays
    assert values.tolist() == [[5, 7]]
    assert [f"{byte:08b}"[::-1] for byte in codes[0].tolist()] == ["1010" + "11" + "01"]


@pytest.mark.parametrize("columns", [1, 2, 3, 64, 65, 1000])
def test_places_take_few_bits(columns):
    """At most 2 + log2(P / k) each; and all come back, whichever they are."""
    for k in sorted({1, 2, columns // 10, columns // 2, columns} - {0}):
        if k > columns:
            continue
        chosen = [RNG.choice(columns, k, replace=False) for _ in range(3)]
        indices = np.array([np.arange(k), np.arange(columns - k, columns), *chosen], np.int32)
        sparse = Sparse(RNG.standard_normal(indices.shape), indices, columns)
        rows = to_bytes(sparse)
        assert rows.shape == (5, sparse.bytes[0])
        assert 8 * (rows.shape[1] - 8 * k) < k * (2 + np.log2(columns / k)) + 8
        np.testing.assert_array_equal(from_bytes(rows, sparse).unpack(), sparse.unpack())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bits", range(2, 17))
def test_numbers_are_rounded_to_the_nearest_code(bits, dtype):
    rows = ROWS.astype(dtype)
    quantised = Quantised.nearest(rows, bits)
    found = quantised.unpack()
    most = 2 ** (bits - 1) - 1
    scale = np.abs(rows).max(axis=1, keepdims=True)
    assert found.dtype == dtype
    codes = found / scale * most
    np.testing.assert_allclose(codes, np.rint(codes), atol=1e-3 if dtype == np.float32 else 1e-9)
    rounding = 4 * np.finfo(dtype).eps
    assert (np.abs(found - rows) <= (1 + rounding) * scale / (2 * most) + rounding * scale).all()
    np.testing.assert_allclose(np.abs(found).max(axis=1, keepdims=True), scale, rtol=rounding)  # the largest is exact
    assert quantised.bytes.tolist() == [-(-13 * bits // 8) + rows.itemsize] * 5
    assert quantised.numbers.tolist() == [13] * 5
    assert quantised.codes.nbytes + quantised.scale.nbytes == quantised.bytes.sum()


def test_codes_are_what_the_documentation_says():
    """Five bits: 0 .. 30 about 15, the lowest bit first; 1, -1, 2/3 have codes 30, 0, 25: 01111 00000 10011."""
    quantised = Quantised.nearest(np.array([[3.0, -3.0, 2.0]]), 5)
    bits = "".join(f"{byte:08b}"[::-1] for byte in quantised.codes[0].tolist())
    assert bits == "011110000010011" + "0"
    whole = Quantised.nearest(np.array([[3.0, -3.0, 2.0]]), 8)
    assert whole.codes.tolist() == [[254, 0, 127 + 85]]


def test_rows_of_zeros_stay_zero():
    assert not Quantised.nearest(np.zeros((2, 3)), 4).unpack().any()
    assert not Sparse.largest(np.zeros((2, 3)), 2).unpack().any()


PACKED = {
    "sparse": Sparse.largest(ROWS, 3),
    "sparse, float32": Sparse.largest(ROWS.astype(np.float32), 5),
    "sparse, none": Sparse(np.zeros((5, 0)), np.zeros((5, 0), np.int32), 4),
    "3 bits": Quantised.nearest(ROWS, 3),
    "16 bits, float32": Quantised.nearest(ROWS.astype(np.float32), 16),
    "halves": Halves.nearest(ROWS),
    "halves, float32": Halves.nearest(ROWS.astype(np.float32)),
    "drawn": Drawn.some(ROWS, 4, SENDERS, seed=1, number=2),
    "drawn, float32": Drawn.some(ROWS.astype(np.float32), 13, SENDERS, seed=1, number=2),
    "factors": factors(ROWS),
    "factors, float32": factors(ROWS.astype(np.float32)),
    "whole": Whole(ROWS),
}


@pytest.mark.parametrize("packed", PACKED.values(), ids=PACKED)
def test_bytes_bring_back_what_was_packed(packed):
    rows = to_bytes(packed)
    assert rows.dtype == np.uint8
    assert rows.nbytes == packed.bytes.sum()
    order = [3, 0, 4]
    some = from_bytes(rows[order], packed)
    np.testing.assert_array_equal(some.unpack(), packed.unpack()[order])
    assert some.bytes.tolist() == packed.bytes[order].tolist()


def test_halves_keep_eleven_bits_of_any_size():
    """Of each number next to the row's largest; NumPy's own rounding of what a power of two made as large as that."""
    sizes = np.array([[1e-300], [1e-5], [1.0], [1e5], [1e300]])
    found = Halves.nearest(sizes * ROWS).unpack()
    np.testing.assert_allclose(found, sizes * ROWS, rtol=2.0**-11)
    scale = 2.0 ** (14 - np.floor(np.log2(np.abs(ROWS).max(axis=1, keepdims=True))))
    np.testing.assert_array_equal(Halves.nearest(ROWS).unpack(), (ROWS * scale).astype(np.float16).astype(float) / scale)
    tiny = np.array([[1.0, 2.0**-30, 2.0**-50]])
    np.testing.assert_array_equal(Halves.nearest(tiny).unpack(), [[1.0, 2.0**-30, 0.0]])
    assert not Halves.nearest(np.zeros((1, 3))).unpack().any()


def test_places_depend_on_seed_sender_and_number_alone():
    def places(seed, number, senders=SENDERS):
        return Drawn.some(np.ones((len(senders), 50)), 7, senders, seed, number).unpack()

    first = places(1, 2)
    np.testing.assert_array_equal(first.sum(axis=1), 7)
    np.testing.assert_array_equal(places(1, 2, SENDERS[::-1]), first[::-1])
    assert all(not np.array_equal(first, places(*other)) for other in ((2, 2), (1, 3), (1, 2, SENDERS + 1)))
    assert len(np.unique(first, axis=0)) == 5


def test_factors_are_projections():
    """Of each matrix on the range of M D, by NumPy's least squares; the other numbers stay as they are."""
    rows, packed = ROWS.copy(), factors(ROWS)
    for row in rows:
        matrix = row[1:].reshape(4, 3)
        line = matrix.sum(axis=1, keepdims=True)
        row[1:] = (line @ np.linalg.lstsq(line, matrix, rcond=None)[0]).ravel()
    np.testing.assert_allclose(packed.unpack(), rows, rtol=1e-12)
    low = np.concatenate([ROWS[:, :1], np.einsum("am,an->amn", ROWS[:, 1:5], ROWS[:, 5:8]).reshape(5, -1)], axis=1)
    np.testing.assert_allclose(factors(low).unpack(), low, rtol=1e-12)  # of rank one


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: Sparse.largest(rows, 4),
        lambda rows: Quantised.nearest(rows, 3),
        lambda rows: Runs.nearest(rows, np.full((len(rows), 1), 0.125)),
        Halves.nearest,
        factors,
    ],
)
def test_a_row_is_packed_by_itself(make):
    whole = make(ROWS).unpack()
    for agent in range(5):
        np.testing.assert_array_equal(make(ROWS[agent : agent + 1]).unpack()[0], whole[agent])


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: Sparse.largest(ROWS, 0), ValueError, "k must be a whole number >= 1; got 0"),
        (lambda: Sparse.largest(ROWS[0], 2), ValueError, r"rows must have shape \(agents, P\); got \(13,\)"),
        (lambda: Sparse(ROWS, np.zeros((5, 13), int), 13), TypeError, "indices of Sparse must be an array of int32"),
        (lambda: Sparse(ROWS, np.zeros((5, 12), np.int32), 13), ValueError, r"one shape.*\(5, 13\) and \(5, 12\)"),
        (lambda: Sparse(ROWS, np.full((5, 13), 13, np.int32), 13), ValueError, r"in -1 \.\. 12; got 13 \.\. 13"),
        (lambda: Quantised.nearest(ROWS, 1), ValueError, "bits must be a whole number >= 2; got 1"),
        (lambda: Quantised.nearest(ROWS, 17), ValueError, "bits must be.*<= 16; got 17"),
        (lambda: Quantised.nearest(ROWS[0], 4), ValueError, r"rows must have shape \(agents, P\); got \(13,\)"),
        (lambda: Quantised(ROWS, ROWS[:, :1], 13, 4), TypeError, "codes of Quantised must be an array of uint8"),
        (lambda: Halves(ROWS, np.zeros((5, 1), np.int16), float), TypeError, "values of Halves must be an array of float16"),
        (
            lambda: Halves(ROWS.astype(np.float16), np.zeros((5, 2), np.int16), float),
            ValueError,
            r"shapes \(agents, P\) and \(agents, 1\); got \(5, 13\) and \(5, 2\)",
        ),
        (lambda: Drawn.some(ROWS, 14, SENDERS, 0, 0), ValueError, "k must be a whole number >= 1 and <= 13; got 14"),
        (lambda: Drawn.some(ROWS, 2, SENDERS[:3], 0, 0), ValueError, r"shapes \(agents, k\).*got \(5, 2\) and \(3, 1\)"),
        (lambda: Drawn(ROWS, SENDERS[:, None], 13, 0, 0), TypeError, "senders of Drawn must be an array of int32"),
        (lambda: Factors(ROWS, ((1, 4, 3),), 1, 13), ValueError, r"must have shape \(agents, 8\).*got \(5, 13\)"),
        (lambda: Whole(ROWS[0]), ValueError, r"rows of Whole must have shape \(agents, P\); got \(13,\)"),
        (
            lambda: Quantised(np.zeros((5, 7), np.uint8), ROWS, 13, 4),
            ValueError,
            r"shapes \(agents, 7\) and \(agents, 1\) for 13 columns of 4 bits; got \(5, 7\) and \(5, 13\)",
        ),
    ],
)
def test_bad_input(make, error, match):
    with pytest.raises(error, match=match):
        make()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_diverged_unpacks_to_nan_and_leaves_others_alone(bad):
    rows = np.array([[1.0, bad, 0.0], [2.0, -4.0, 1.0]])
    unpacked = Quantised.nearest(rows, bits=4).unpack()
    assert np.isnan(unpacked[0]).all()
    np.testing.assert_array_equal(unpacked[1:], Quantised.nearest(rows[1:], bits=4).unpack())


def test_no_rows_are_no_rows():
    quantised = Quantised.nearest(np.zeros((0, 3)), bits=5)
    assert quantised.bytes.shape == (0,)
    assert quantised.unpack().shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_halves_of_the_smallest_and_largest_numbers_are_as_near_as_of_others(dtype):
    info = np.finfo(dtype)
    rows = np.random.default_rng(0).uniform(0.5, 1, (3, 50)).astype(dtype) * np.array([[info.tiny], [1], [info.max]], dtype)
    back = Halves.nearest(rows).unpack()
    assert (np.abs(back / rows - 1) <= 2.0**-10).all()
