"""Multiples of a step in few bits: what they stand for, and how long they are."""

import numpy as np
import pytest

from consensus.packing import Multiples


def made(parameters, columns, seed=0):
    """Blocks of columns that differ in size by ten decades."""
    rng = np.random.default_rng(seed)
    blocks = rng.standard_normal((4, parameters, columns)) * 10.0 ** rng.uniform(-2, 8, (4, 1, columns))
    return blocks, rng.uniform(0.1, 1, 4)


@pytest.mark.parametrize(("parameters", "columns"), [(1, 1), (7, 3), (40, 5)])
def test_messages_are_as_long_as_counted_and_bring_all(parameters, columns):
    multiples = Multiples.nearest(*made(parameters, columns))
    messages = multiples.messages()
    assert [len(message) for message in messages] == multiples.bytes.tolist()
    again = Multiples.of_messages(messages, parameters, columns)
    np.testing.assert_array_equal(again.codes, multiples.codes)
    np.testing.assert_array_equal(again.step, multiples.step)


def test_numbers_are_rounded_to_the_nearest():
    blocks, step = made(20, 4)
    error = np.abs(Multiples.nearest(blocks, step).values - blocks)
    assert (error <= 0.5 * step[:, None, None] * (1 + 1e-6)).all()
    assert error.max() > 0.4 * step.max()


def test_a_number_takes_the_bits_of_its_columns_largest():
    for largest, bits in ((0, 0), (1, 2), (2, 3), (3, 3), (4, 4), (127, 8), (128, 9), (-128, 9), (40000, 17)):
        multiples = Multiples.nearest(np.array([[[largest]] + [[0]] * 15], float), np.ones(1))
        assert multiples.bytes.tolist() == [8 + 1 + 2 * bits]
        np.testing.assert_array_equal(Multiples.of_messages(multiples.messages(), 16, 1).codes[0, 0], largest)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("step", [1.0, 0.3])
@pytest.mark.parametrize(
    ("ratio", "factor"), [(5, 1), (2**39 - 1, 1), (2**39, 2), (2**40 - 4, 2), (2**40, 4), (2.0**1000, 2.0**962)]
)
def test_steps_are_as_small_as_codes_of_forty_bits_allow(ratio, factor, step, sign):
    """A code of 40 bits is below 2^39 in modulus: the step's factor is the least 2^k with ratio / 2^k below that."""
    block = np.array([[[sign * ratio * step], [0.0]]])
    multiples = Multiples.nearest(block, np.array([step]))
    assert multiples.step[0] == factor * step
    assert multiples.bytes[0] <= 8 + 1 + 2 * 40 // 8
    assert np.abs(multiples.values - block).max() <= factor * step / 2


def test_what_is_lost_is_seen_and_what_is_huge_has_larger_steps():
    blocks = np.array([[[np.inf, 1.0]], [[1.0, 1e300]]])
    multiples = Multiples.nearest(blocks, np.ones(2))
    again = Multiples.of_messages(multiples.messages(), 1, 2).values
    assert np.isnan(again[0]).all()
    np.testing.assert_allclose(again[1], [[0, 1e300]], rtol=1e-11)
    assert np.log2(multiples.step[1]) % 1 == 0
