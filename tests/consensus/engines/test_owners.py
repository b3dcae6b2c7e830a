"""Owners on ranks, each of which opens its own file in its own folder: the bits of a rehearsal in one process."""

import json

import numpy as np
import pandas as pd
import pytest

from consensus.observe import EarlyStopping
from tests.helpers import owners
from tests.helpers.engine_harness import HERE, started


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mpi", "torch"])
def test_four_files_on_four_ranks_are_as_in_one_process(kind, tmp_path):
    paths = owners.write(tmp_path)
    pd.read_csv(paths[1]).drop(columns="age").to_csv(paths[1].with_name("other.csv"), index=False)
    done = started(kind, 4, HERE / "owners.py", tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    for run in owners.RUNS:
        alone = owners.agreed(paths, run)
        shapes, revealed = said[run]
        assert shapes == [[1, max(owners.SIZES), 7]] * 4
        assert revealed == alone.revealed.to_dict("list")
        with np.load(tmp_path / f"{run}.npz") as found:
            np.testing.assert_array_equal(found["mean"], alone.pipeline.mean)
            np.testing.assert_array_equal(found["scale"], alone.pipeline.scale)
            np.testing.assert_array_equal(found["w"], owners.solved(alone, run).w)
    alone = owners.agreed(paths, "mlp", test_size=0.3)
    result = owners.solved(alone, "mlp", test=alone.test, callbacks=[EarlyStopping(patience=4)], record_every=2)
    assert said["tested"] == [result.rounds, result.history["agent_test_error"].tolist(), alone.revealed.to_dict("list")]
    lacking = "ValueError: all 4 owners must have the same columns: 'age' is missing at owner 1"
    elsewhere = "ValueError: the table of owner 1 is rejected there: its own process says why"
    absent = f"FileNotFoundError: data must be a file that exists; got '{paths[1].with_name('absent.csv')}'"
    assert said["refused"] == [[lacking, absent if rank == 1 else elsewhere] for rank in range(4)]
    assert (tmp_path / "announced").read_text().count("consensus.data.own sends to all other owners") == 4 * 6
