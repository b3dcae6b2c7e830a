"""The clock of runs whose owners wake at times of their own."""

import numpy as np
import pytest

pytest.importorskip("grpc")

from experiments.benchmarks.owners import Costs, by_the_clock, to_level


def test_seconds_since_the_first_one_left_the_start():
    """Three of four owners at the optimum leave a sixteenth of the gap of quadratics, all of them nothing."""
    costs = Costs(waits=False)
    start = np.zeros_like(costs.optimum)
    for owner, seen in enumerate(costs.seen):
        seen += [(2.0, start), (10.0 + owner, start), (21.0 + owner, costs.optimum)]  # the first one is of an observation
    found = by_the_clock(costs)
    assert found["seconds"].tolist() == [0, 1, 2, 3, 11, 12, 13, 14]
    gap = found["objective"] / found["objective"][0]
    np.testing.assert_allclose(gap, [1, 1, 1, 1, 9 / 16, 4 / 16, 1 / 16, 0], atol=1e-12)
    assert to_level(found, "seconds") == 14
    assert to_level({name: column[:-1] for name, column in found.items()}, "seconds") == np.inf
