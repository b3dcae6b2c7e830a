"""Integers in few bits: what is counted is the length of a message from which they can be read again."""

import numpy as np
import pytest

import topologies
from consensus.communication.packed import from_bytes, to_bytes
from consensus.communication.runs import packed_bytes
from consensus.compression import Runs
from consensus.compression.packing import pack, unpack
from consensus.engines import StackedNetwork
from tests.helpers.refusals import refusals

DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])


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


test_refusals = refusals(
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
