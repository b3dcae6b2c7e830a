"""Messages with numbers and packed vectors: as long as counted, and read again to the last bit."""

import numpy as np
import pytest

from consensus.compression import IntegerRows
from consensus.compression.packing import longest, pack, unpack

FORMS = [
    IntegerRows(40, floats=3),
    IntegerRows(40, small=1, powers=6),
    IntegerRows(40, floats=1, unit=2.0**-1074),
    IntegerRows(40),
]


def rows_of(codec, vectors=2, agents=3):
    rng = np.random.default_rng(vectors)
    small = rng.integers(-128, 128, (agents, codec.small)).astype(float)
    powers = np.ldexp(1.0, rng.integers(-1074, 1024, (agents, codec.powers)))
    floats = rng.standard_normal((agents, codec.floats)) * 1e-300
    codes = np.rint(rng.standard_normal((agents, vectors * 40)) * 10.0 ** rng.integers(-1, 17, (agents, 1)))
    return np.concatenate([small, powers, floats, codes + 0.0], axis=1)


@pytest.mark.parametrize("codec", FORMS, ids=repr)
@pytest.mark.parametrize("vectors", [0, 1, 3])
def test_a_message_is_as_long_as_counted_and_holds_the_row(codec, vectors):
    rows = rows_of(codec, vectors)
    messages = [codec.encode(row) for row in rows]
    assert [len(message) for message in messages] == codec.sizes(rows).tolist()
    assert max(map(len, messages)) <= codec.most(rows.shape[1])
    stream = np.frombuffer(b"".join(messages) + bytes(99), np.uint8)  # one after the other, with room to spare
    for row, message in zip(rows, messages, strict=True):
        found, size = codec.decode(stream, len(row))
        assert (found.tobytes(), size) == (row.tobytes(), len(message))
        stream = stream[size:]


@pytest.mark.parametrize("lost", [np.nan, np.inf, -np.inf, 2.0**62, -1e300])
def test_numbers_of_a_diverging_run_travel_as_they_are(lost):
    codes = np.arange(-20.0, 60.0)
    codes[[40, 79]] = lost
    message = pack(codes)
    np.testing.assert_array_equal(unpack(message, 80), codes)
    assert len(pack(codes[:32])) < len(message) <= longest(80)
    np.testing.assert_array_equal(unpack(pack(np.full(80, lost)), 80), np.full(80, lost))
    assert len(pack(np.full(80, lost))) == longest(80)
