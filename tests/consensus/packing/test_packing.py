"""Packed rows: what they stand for, what they take, and that bytes bring back what was packed."""

import numpy as np
import pytest

from consensus.packing import Quantised, Sparse
from consensus.packing.base import from_bytes, to_bytes

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((5, 13))


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
    assert sparse.bytes.tolist() == [min(k, 13) * (rows.itemsize + 4)] * 5


def test_rows_may_have_fewer_entries():
    values = np.array([[7.0, 8.0], [9.0, np.nan], [np.nan, np.nan]])
    sparse = Sparse(values, np.array([[2, 0], [1, -1], [-1, -1]], np.int32), columns=3)
    np.testing.assert_array_equal(sparse.unpack(), [[8, 0, 7], [0, 9, 0], [0, 0, 0]])
    assert sparse.numbers.tolist() == [2, 1, 0]
    assert sparse.bytes.tolist() == [24, 12, 0]


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


@pytest.mark.parametrize("make", [lambda rows: Sparse.largest(rows, 4), lambda rows: Quantised.nearest(rows, 3)])
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
