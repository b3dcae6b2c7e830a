"""Worker processes as users have them: started afresh, and gone in the end."""

import os

import numpy as np
import pytest

from consensus.centralised import MapReduceGradientDescent, solve
from consensus.workers import pool


@pytest.mark.slow
def test_a_worker_that_starts_afresh_gives_the_same_bits_and_is_gone_afterwards(problem, start, monkeypatch, request):
    pids, begin = [], pool.Pool.__init__

    def kept(self, *arguments):
        begin(self, *arguments)
        pids.extend(self.pids)

    monkeypatch.setattr(pool.Pool, "__init__", kept)
    system = MapReduceGradientDescent(0.5, workers=1)
    afresh = solve(problem, system, rounds=3, start=start)
    assert len(pids) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    request.getfixturevalue("forked")
    np.testing.assert_array_equal(solve(problem, system, rounds=3, start=start).w, afresh.w)
