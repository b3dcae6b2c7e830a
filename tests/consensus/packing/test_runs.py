"""Integers in few bits: what is counted is the length of a message from which they can be read again."""

import numpy as np
import pytest

from consensus.packing.runs import pack, packed_bytes, unpack


@pytest.mark.parametrize("size", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("bits", [0, 1, 7, 20, 60])
def test_a_message_is_as_long_as_counted_and_holds_the_integers(size, bits):
    rng = np.random.default_rng(size + bits)
    codes = rng.integers(-(2**bits), 2**bits, (4, size), endpoint=True) * rng.choice([0, 1], (4, size), p=[0.3, 0.7])
    codes[0] = 0
    codes[1] = [-(2**bits), *codes[1, 1:]]
    lengths = packed_bytes(codes)
    for row, length in zip(codes, lengths.tolist(), strict=True):
        message = pack(row)
        assert len(message) == length
        np.testing.assert_array_equal(unpack(message, size), row)


def test_the_length_by_hand():
    codes = np.zeros((1, 40))
    codes[0, [3, 39]] = 5, -1  # a run of 32 with 4 bits each, one of 8 with 2 bits; two widths of 6 bits
    assert packed_bytes(codes).tolist() == [-(-(32 * 4 + 8 * 2 + 2 * 6) // 8)]
    assert packed_bytes(np.array([[np.nan, 3.0]])).tolist() == packed_bytes(np.array([[0.0, 0.0]])).tolist()
