"""Packed rows: what they stand for, their size, and that the bytes of a message restore it."""

import numpy as np
import pytest

import topologies
from consensus.communication.packed import from_bytes, to_bytes
from consensus.communication.runs import packed_bytes
from consensus.compression import Drawn, Factors, Halves, IntegerRows, Quantized, Runs, Sparse, Whole
from consensus.compression.packing import longest, pack, unpack
from consensus.engines import StackedNetwork
from tests.helpers.refusals import refusals

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((5, 13))
SENDERS = np.array([4, 7, 0, 2, 9])
DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@DTYPES
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
    values, codes = Sparse(np.array([[7.0, 5.0]]), np.array([[6, 3]], np.int32), columns=8).arrays
    assert values.tolist() == [[5, 7]]
    assert [f"{byte:08b}"[::-1] for byte in codes[0].tolist()] == ["1010" + "11" + "01"]


@pytest.mark.parametrize("columns", [1, 2, 3, 64, 65, 1000])
def test_places_take_few_bits(columns):
    """At most 2 + log2(P / k) each; and all come back, whichever they are."""
    for k in sorted({1, 2, columns // 10, columns // 2, columns} & {*range(1, columns + 1)}):
        chosen = [RNG.choice(columns, k, replace=False) for _ in range(3)]
        indices = np.array([np.arange(k), np.arange(columns - k, columns), *chosen], np.int32)
        sparse = Sparse(RNG.standard_normal(indices.shape), indices, columns)
        rows = to_bytes(sparse)
        assert rows.shape == (5, sparse.bytes[0])
        assert 8 * (rows.shape[1] - 8 * k) < k * (2 + np.log2(columns / k)) + 8
        np.testing.assert_array_equal(from_bytes(rows, sparse).unpack(), sparse.unpack())


@DTYPES
@pytest.mark.parametrize("bits", range(2, 17))
def test_numbers_are_rounded_to_the_nearest_code(bits, dtype):
    rows = ROWS.astype(dtype)
    quantised = Quantized.nearest(rows, bits)
    found, most, scale = quantised.unpack(), 2 ** (bits - 1) - 1, np.abs(rows).max(axis=1, keepdims=True)
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
    quantised = Quantized.nearest(np.array([[3.0, -3.0, 2.0]]), 5)
    bits = "".join(f"{byte:08b}"[::-1] for byte in quantised.codes[0].tolist())
    assert bits == "011110000010011" + "0"
    assert Quantized.nearest(np.array([[3.0, -3.0, 2.0]]), 8).codes.tolist() == [[254, 0, 127 + 85]]


def test_rows_of_zeros_stay_zero_and_no_rows_are_no_rows():
    for form in (lambda rows: Quantized.nearest(rows, 4), lambda rows: Sparse.largest(rows, 2), Halves.nearest):
        assert not form(np.zeros((2, 3))).unpack().any()
    none = Quantized.nearest(np.zeros((0, 3)), bits=5)
    assert (none.bytes.shape, none.unpack().shape) == ((0,), (0, 3))


@DTYPES
@pytest.mark.parametrize("pack", [
    lambda rows: Sparse.largest(rows, 3),
    lambda rows: Sparse(rows[:, :0], np.zeros((5, 0), np.int32), 4),
    lambda rows: Quantized.nearest(rows, 3),
    lambda rows: Quantized.nearest(rows, 16),
    Halves.nearest,
    lambda rows: Drawn.some(rows, 4, SENDERS, seed=1, number=2),
    lambda rows: Drawn.some(rows, 13, SENDERS, seed=1, number=2),
    lambda rows: Factors.along(rows, ((1, 4, 3),), [np.ones((len(rows), 3, 1), rows.dtype)]),
    Whole,
])  # fmt: skip
def test_bytes_restore_what_was_packed(pack, dtype):
    packed, order = pack(ROWS.astype(dtype)), [3, 0, 4]
    rows = to_bytes(packed)
    assert rows.dtype == np.uint8
    assert rows.nbytes == packed.bytes.sum()
    some = from_bytes(rows[order], packed)
    np.testing.assert_array_equal(some.unpack(), packed.unpack()[order])
    assert some.bytes.tolist() == packed.bytes[order].tolist()


def test_halves_keep_eleven_bits_of_any_size():
    """Relative to the row's largest number; as NumPy rounds the row times a power of two that makes it that large."""
    sizes = np.array([[1e-300], [1e-5], [1.0], [1e5], [1e300]])
    found = Halves.nearest(sizes * ROWS).unpack()
    np.testing.assert_allclose(found, sizes * ROWS, rtol=2.0**-11)
    scale = 2.0 ** (14 - np.floor(np.log2(np.abs(ROWS).max(axis=1, keepdims=True))))
    np.testing.assert_array_equal(Halves.nearest(ROWS).unpack(), (ROWS * scale).astype(np.float16).astype(float) / scale)
    tiny = np.array([[1.0, 2.0**-30, 2.0**-50]])
    np.testing.assert_array_equal(Halves.nearest(tiny).unpack(), [[1.0, 2.0**-30, 0.0]])
    for dtype in (np.float32, np.float64):
        info = np.finfo(dtype)
        rows = np.random.default_rng(0).uniform(0.5, 1, (3, 50)).astype(dtype) * np.array([[info.tiny], [1], [info.max]], dtype)
        assert (np.abs(Halves.nearest(rows).unpack() / rows - 1) <= 2.0**-10).all()


def test_places_depend_on_seed_sender_and_number_alone():
    def places(seed, number, senders=SENDERS):
        return Drawn.some(np.ones((len(senders), 50)), 7, senders, seed, number).unpack()

    first = places(1, 2)
    np.testing.assert_array_equal(first.sum(axis=1), 7)
    np.testing.assert_array_equal(places(1, 2, SENDERS[::-1]), first[::-1])
    assert all(not np.array_equal(first, places(*other)) for other in ((2, 2), (1, 3), (1, 2, SENDERS + 1)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_diverged_unpacks_to_nan_and_leaves_others_alone(bad):
    rows = np.array([[1.0, bad, 0.0], [2.0, -4.0, 1.0]])
    unpacked = Quantized.nearest(rows, bits=4).unpack()
    assert np.isnan(unpacked[0]).all()
    np.testing.assert_array_equal(unpacked[1:], Quantized.nearest(rows[1:], bits=4).unpack())


ONE, BYTES = np.zeros((5, 1), np.int16), np.zeros((5, 7), np.uint8)
test_refusals = refusals(
    (lambda: Sparse.largest(ROWS, 0), ValueError, "k must be a whole number >= 1; got 0"),
    (lambda: Sparse.largest(ROWS[0], 2), ValueError, r"rows must have shape \(agents, P\); got \(13,\)"),
    (lambda: Sparse(ROWS, np.zeros((5, 13), int), 13), TypeError, "indices of Sparse must be an array of int32"),
    (lambda: Sparse(ROWS, np.zeros((5, 12), np.int32), 13), ValueError, r"one shape.*\(5, 13\) and \(5, 12\)"),
    (lambda: Sparse(ROWS, np.full((5, 13), 13, np.int32), 13), ValueError, r"in -1 \.\. 12; got 13 \.\. 13"),
    (lambda: Quantized.nearest(ROWS, 1), ValueError, "bits must be a whole number >= 2; got 1"),
    (lambda: Quantized.nearest(ROWS, 17), ValueError, "bits must be.*<= 16; got 17"),
    (lambda: Quantized.nearest(ROWS[0], 4), ValueError, r"rows must have shape \(agents, P\); got \(13,\)"),
    (lambda: Quantized(ROWS, ROWS[:, :1], 13, 4), TypeError, "codes of Quantized must be an array of uint8"),
    (lambda: Quantized(BYTES, ROWS, 13, 4), ValueError, r"\(agents, 7\) and .* 13 columns of 4 bits; .*\(5, 7\) and \(5, 13"),
    (lambda: Halves(ROWS, ONE, float), TypeError, "values of Halves must be an array of float16"),
    (lambda: Halves(ROWS.astype(np.float16), ONE.repeat(2, 1), float), ValueError, r"\(agents, 1\); .*\(5, 13\) and \(5, 2"),
    (lambda: Drawn.some(ROWS, 14, SENDERS, 0, 0), ValueError, "k must be a whole number >= 1 and <= 13; got 14"),
    (lambda: Drawn.some(ROWS, 2, SENDERS[:3], 0, 0), ValueError, r"shapes \(agents, k\).*got \(5, 2\) and \(3, 1\)"),
    (lambda: Drawn(ROWS, SENDERS[:, None], 13, 0, 0), TypeError, "senders of Drawn must be an array of int32"),
    (lambda: Factors(ROWS, ((1, 4, 3),), 1, 13), ValueError, r"must have shape \(agents, 8\).*got \(5, 13\)"),
    (lambda: Whole(ROWS[0]), ValueError, r"rows of Whole must have shape \(agents, P\); got \(13,\)"),
)


# Messages with numbers and packed vectors: as long as counted, and read again to the last bit.

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


# Integers in few bits: what is counted is the length of a message from which they can be read again.


def assert_messages(codes):
    """The rows' messages are as long as counted, and hold the integers."""
    for row, length in zip(codes, packed_bytes(codes).tolist(), strict=True):
        message = pack(row)
        assert len(message) == length
        np.testing.assert_array_equal(unpack(message, len(row)), row)


@pytest.mark.parametrize("size", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("bits", [0, 1, 7, 20, 60])
def test_a_message_is_as_long_as_counted_and_holds_the_integers(size, bits):
    rng = np.random.default_rng(size + bits)
    codes = rng.integers(-(2**bits), 2**bits, (4, size), endpoint=True) * rng.choice([0, 1], (4, size), p=[0.3, 0.7])
    codes[0] = 0
    codes[1] = [-(2**bits), *codes[1, 1:]]
    assert_messages(codes)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_the_least_integer_of_a_type_is_counted(dtype):
    assert_messages(np.array([[np.iinfo(dtype).min, 1]], dtype))


def test_the_length_by_hand():
    codes = np.zeros((1, 40))
    codes[0, [3, 39]] = 5, -1  # a run of 32 with 4 bits each, one of 8 with 2 bits; two widths of 6 bits
    assert packed_bytes(codes).tolist() == [-(-(32 * 4 + 8 * 2 + 2 * 6) // 8)]
    assert packed_bytes(np.array([[np.nan, 3.0]])).tolist() == packed_bytes(np.array([[0.0, 0.0]])).tolist()


def unequal(dtype, columns=90, agents=5):
    """Rows in three parts whose sizes differ by ten decades, one of them zeros, and their units."""
    rng = np.random.default_rng(columns)
    sizes = 10.0 ** rng.uniform(-5, 5, (agents, 3, 1))
    parts = sizes * rng.standard_normal((agents, 3, columns // 3))
    parts[1, 2] = 0
    return parts.reshape(agents, columns).astype(dtype), np.ldexp(1.0, rng.integers(-12, 6, (agents, 3)))


@DTYPES
@pytest.mark.parametrize("columns", [3, 90, 96, 201])
def test_rows_are_rounded_to_multiples_and_count_their_packed_parts_and_two_bytes_for_each_unit(columns, dtype):
    rows, unit = unequal(dtype, columns)
    runs = Runs.nearest(rows, unit)
    codes, units, found = runs.codes.reshape(5, 3, -1), runs.unit[:, :, None].astype(float), runs.unpack()
    assert found.dtype == runs.unit.dtype == dtype
    np.testing.assert_array_equal(found, (codes * units).reshape(rows.shape))  # in double: exact
    error = np.abs(found.astype(float) - rows).reshape(codes.shape) / units
    assert (0.4 if columns > 3 else 0) < error.max() <= 0.5
    np.testing.assert_array_equal(Runs.nearest(found, unit).unpack(), found)
    assert runs.bytes.tolist() == [sum(len(pack(part)) + 2 for part in row) for row in codes]
    assert len(set(runs.bytes.tolist())) > 1
    assert runs.numbers.tolist() == [columns] * 5
    assert_messages(codes.reshape(15, -1))
    sent, order = to_bytes(runs), [3, 0, 4]
    assert sent.shape == (5, (columns + 3) * np.dtype(dtype).itemsize)
    some = from_bytes(sent[order], runs)
    np.testing.assert_array_equal(some.unpack(), found[order])
    assert some.bytes.tolist() == runs.bytes[order].tolist()


def test_every_edge_costs_what_its_sender_s_row_takes():
    schedule, runs = topologies.Static(topologies.star(5)), Runs.nearest(*unequal(float))
    network = StackedNetwork(schedule, np.float64, strict=True)
    (mixed,) = network.mix(0, runs)
    np.testing.assert_array_equal(mixed, schedule.weights(0) @ runs.unpack())
    assert (network.floats, network.bytes) == (8 * 90, 4 * runs.bytes[0] + runs.bytes[1:].sum())
    assert network.traffic.tolist() == [network.bytes, *(runs.bytes[0] + runs.bytes[1:])]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("unit", [1.0, 2.0**-40])
@pytest.mark.parametrize(("dtype", "bits"), [(np.float64, 50), (np.float32, 22)])
def test_units_are_as_small_as_codes_allow(dtype, bits, unit, sign):
    """The factor is the least 2^k with numbers below 2^bits times 2^k units."""
    for ratio, factor in ((5, 1), (2**bits - 1, 1), (2**bits, 2), (2 ** (bits + 1) - 4, 2), (2 ** (bits + 5), 64)):
        rows = np.array([[sign * ratio * unit, 0.0]], dtype)
        runs = Runs.nearest(rows, np.array([[unit]]))
        assert runs.unit.tolist() == [[factor * unit]]
        np.testing.assert_array_equal(runs.unpack(), rows)  # these are multiples


@DTYPES
def test_units_beyond_the_dtype_are_the_nearest_in_it(dtype):
    info = np.finfo(dtype)
    largest = np.ldexp(dtype(1), info.maxexp - 1)
    rows = np.array([[0, 0], [info.tiny, -3 * info.tiny], [1.5 * largest, 0], [1, 2]], dtype)
    runs = Runs.nearest(rows, np.array([[2.0**-1074], [2.0**-1074], [2.0**-1074], [2.0**1023]]))
    np.testing.assert_array_equal(runs.unpack(), [*rows[:3], [0, 0]])
    assert runs.unit[[0, 1, 3], 0].tolist() == [info.tiny, info.tiny, largest]
    assert runs.codes[0].tolist() == [0, 0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_part_that_diverged_unpacks_to_nan_and_leaves_others_alone(bad):
    rows, unit = unequal(float)
    whole = Runs.nearest(rows, unit)
    expected = whole.unpack().reshape(5, 3, 30).copy()
    expected[2, 1] = expected[4, 0] = expected[0, 2] = expected[3, 1] = np.nan
    rows[2, 45] = rows[4, 0] = bad
    unit[0, 2], unit[3, 1] = abs(bad), 0  # units that were lost
    runs = Runs.nearest(rows, unit)
    assert runs.bytes[2] == sum(len(pack(part)) + 2 for part in whole.codes[2].reshape(3, 30)[[0, 2]]) + 1 + 2
    for one in (runs, from_bytes(to_bytes(runs), runs)):
        np.testing.assert_array_equal(one.unpack(), expected.reshape(5, 90))


def test_no_columns_cost_their_units_and_no_rows_are_no_rows():
    none = Runs.nearest(np.zeros((3, 0)), np.ones((3, 2)))
    assert none.bytes.tolist() == [4, 4, 4]
    assert from_bytes(to_bytes(none), none).unpack().shape == (3, 0)
    nobody = Runs.nearest(np.zeros((0, 6)), np.ones((0, 2)))
    assert (nobody.bytes.shape, nobody.unpack().shape) == ((0,), (0, 6))


CODES, UNIT = np.zeros((3, 4), np.int64), np.ones((3, 2))
test_refusals_of_runs = refusals(
    (lambda: Runs(CODES.astype(np.int32), UNIT), TypeError, "codes of Runs must be an array of int64; got"),
    (lambda: Runs(CODES, UNIT[:2]), ValueError, r"codes and unit of Runs.*\(3, 4\) and \(2, 2\)"),
    (lambda: Runs(CODES, UNIT[:, 0]), ValueError, r"\(3, 4\) and \(3,\)"),
    (lambda: Runs(CODES, np.ones((3, 3))), ValueError, r"P a multiple of parts; got \(3, 4\) and \(3, 3\)"),
    (lambda: Runs(CODES, np.ones((3, 0))), ValueError, r"\(3, 4\) and \(3, 0\)"),
    (lambda: Runs(CODES, -3 * UNIT), ValueError, r"unit of Runs must hold positive numbers; got -3\.0"),
    (lambda: Runs(CODES, 0 * UNIT), ValueError, r"positive numbers; got 0\.0"),
    (lambda: Runs.nearest(CODES[0], UNIT), ValueError, r"rows and unit of Runs.*\(4,\) and \(3, 2\)"),
    (lambda: Runs.nearest(CODES, -UNIT), ValueError, r"positive numbers; got -1\.0"),
    (lambda: Runs.nearest("rows", UNIT), TypeError, "rows must be an array"),
)
