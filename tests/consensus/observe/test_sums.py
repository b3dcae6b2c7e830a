"""Sums over agents: one after the other, wherever the agents are."""

import numpy as np
import pytest

from consensus.observe.gather import added
from consensus.observe.measure import agents_mean, begun, mean_of


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("parameters", [1, 2, 3, 8, 121, 2047, 2048, 5000])
def test_rows_are_added_in_their_order(parameters, dtype):
    rows = np.random.default_rng(parameters).standard_normal((300, parameters)).astype(dtype)
    expected = np.zeros(parameters, dtype)
    for row in rows:
        expected = expected + row
    total = added(np.zeros(parameters, dtype), rows)
    assert total.dtype == dtype
    np.testing.assert_array_equal(total, expected)
    np.testing.assert_array_equal(added(np.zeros(parameters, dtype), np.asfortranarray(rows)), expected)


@pytest.mark.parametrize("parameters", [1, 7, 3000])
@pytest.mark.parametrize("cuts", [(), (1,), (1, 2, 40), (13, 13, 170, 200)])
def test_processes_that_go_on_with_a_sum_have_the_bits_of_one(cuts, parameters):
    rows = np.random.default_rng(1).standard_normal((200, parameters))
    parts = np.split(rows, cuts)
    total, sums = np.zeros(parameters), None
    for part in parts:
        total = added(total, part)
        if len(part):
            sums = begun(part, sums)
    np.testing.assert_array_equal(total, added(np.zeros(parameters), rows))
    np.testing.assert_array_equal(mean_of(sums, 200), agents_mean(rows))
    np.testing.assert_allclose(agents_mean(rows), rows.mean(axis=0), rtol=1e-11, atol=1e-15)
