"""Named blocks side by side, and back."""

from typing import NamedTuple

import numpy as np

from consensus.solvers.adaptive.blocks import choose, pack, unpack


class Empty(NamedTuple):
    """No blocks."""


class Inner(NamedTuple):
    """Blocks of one number and of a matrix."""

    one: np.ndarray
    matrix: np.ndarray


class Outer(NamedTuple):
    """Blocks, some of them inside."""

    vector: np.ndarray
    inner: Inner
    empty: Empty


def blocks(start=0):
    numbers = start + np.arange(3 * 9.0).reshape(3, 9)
    return Outer(numbers[:, :2], Inner(numbers[:, 2], numbers[:, 3:].reshape(3, 2, 3)), Empty()), numbers


def test_columns_are_in_the_order_of_the_fields():
    named, numbers = blocks()
    np.testing.assert_array_equal(pack(named), numbers)


def test_unpacked_they_have_their_names_and_shapes():
    named, numbers = blocks()
    found = unpack(10 * numbers, named)
    assert type(found.inner) is Inner
    assert found.empty == Empty()
    for mine, theirs in ((found.vector, named.vector), (found.inner.one, named.inner.one), (found.inner[1], named.inner[1])):
        np.testing.assert_array_equal(mine, 10 * theirs)


def test_unpacked_they_are_views():
    named, numbers = blocks()
    numbers = numbers.copy()
    for block in (found := unpack(numbers, named)).inner:
        block[:] = -1
    assert (numbers[:, 2:] == -1).all()
    np.testing.assert_array_equal(found.vector, named.vector)


def test_rows_are_chosen_in_every_block():
    (a, _), (b, numbers) = blocks(100), blocks()
    chosen = np.array([True, False, True])
    numbers = numbers.copy()
    numbers[chosen] += 100
    np.testing.assert_array_equal(pack(choose(chosen, a, b)), numbers)
    np.testing.assert_array_equal(choose(chosen, a.vector, b.vector), numbers[:, :2])
